"""Python modules of tools that do not load."""

from tests.contract.wrong_inputs.loading import SHOP, module, shop_with

MODULES = [
    module(
        "a module with a mistake in its syntax",
        "import os\n\ndef f(:\n    pass\n",
        "3: it cannot be imported: SyntaxError: invalid syntax; fix it there",
    ),
    module(
        "a module that fails in several lines",
        "raise ValueError('no database:\\nnot one')\n",
        "1: it cannot be imported: ValueError: no database: not one; fix it there",
    ),
    module(
        "a module that fails with what no program should catch",
        "raise BaseException('over')\n",
        "1: it cannot be imported: BaseException: over; fix it there",
    ),
    module(
        "a module that fails and cannot say why",
        "class Odd(Exception):\n    def __str__(self):\n        return 1 / 0\n\n\nraise Odd\n",
        "6: it cannot be imported: Odd: it has no message; fix it there",
    ),
    module(
        "a module without activities",
        "def charge() -> None: ...\n",
        " it has no tools and no agents; decorate a function with `@tool` or `@activity.defn`, or"
        " leave the module out",
    ),
    module(
        "a module with an activity twice",
        SHOP + "\n\n@activity.defn(name='charge')\nasync def pay(order_id: str) -> None: ...\n",
        "19: the activity name `charge` is used by shop.py:15; give one of them another name",
    ),
    module(
        "a module with a meta-property misspelt",
        shop_with('{"_sideEffect": True}'),
        "10: unknown meta-property `_sideEffect`; did you mean `_sideEffects`?",
    ),
    module(
        "a module with a meta-property that is no JSON",
        shop_with('{"_requires": {"orders"}}'),
        "10: the `json_schema_extra` of `Order` is no JSON: Object of type set is not "
        "JSON serializable; use texts, numbers, lists and dictionaries",
    ),
    module(
        "a module with a parameter that JSON lacks",
        "from collections.abc import Callable\n"
        + SHOP.replace("    order_id: str", "    order_id: Callable[[], str]", 1),
        "10: `Order` has no JSON Schema: Cannot generate a JsonSchema for "
        "core_schema.CallableSchema; use types that JSON has",
    ),
]
