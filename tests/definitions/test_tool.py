"""A tool in Python is its file, and an activity."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

import pytest
from annotated_types import Gt
from pydantic import BaseModel, Field
from pydantic.alias_generators import to_camel
from temporalio.testing import ActivityEnvironment

from holdfast import CallContext, tool
from holdfast.definitions.tool import Approval, ToolFields
from holdfast.schemas.base import parse_duration
from holdfast.schemas.tool import ToolDefinition

P = ParamSpec("P")
R = TypeVar("R")


class Receipt(BaseModel):
    """What a refund returns."""

    refund_id: str
    amount: float = 0


@dataclass
class SentMail:
    """What is sent."""

    to: str
    text: str = "hello"


@tool(side_effects=True, approval={"timeout": "24h"}, title="Refund an order")
async def refund(order_id: str, amount: Annotated[float, Gt(0)] = 3) -> Receipt:
    """Refund an order."""
    return Receipt(refund_id=f"R-{order_id}", amount=amount)


@tool(name="send_mail", idempotent=False)
def mail(what: SentMail) -> None:
    """Send mail."""


@tool(activity={"startToCloseTimeout": "5m"})
def whoami(call: CallContext, greeting: str) -> str:
    """Name the principal."""
    return f"{greeting} {call.principal and call.principal.id}"


def test_rules_are_written_as_in_a_file() -> None:
    small = Approval(when={"properties": {"amount": {"maximum": 100}}}, require="never")

    @tool(side_effects=True, approval=[small, {"name": "finance", "quorum": 2}])
    def pay(amount: float) -> None: ...

    assert pay.to_json()["_approval"] == [
        {"when": {"properties": {"amount": {"maximum": 100}}}, "require": "never"},
        {"name": "finance", "quorum": 2},
    ]


def test_a_function_is_the_file_that_a_person_would_write() -> None:
    assert refund.to_json() == {
        "_tool": "refund",
        "title": "Refund an order",
        "description": "Refund an order.",
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "amount": {"type": "number", "exclusiveMinimum": 0, "default": 3},
        },
        "required": ["order_id"],
        "_output": {
            "title": "Receipt",
            "description": "What a refund returns.",
            "type": "object",
            "properties": {
                "refund_id": {"type": "string"},
                "amount": {"type": "number", "default": 0},
            },
            "required": ["refund_id"],
        },
        "_sideEffects": True,
        "_approval": {"timeout": "24h"},
        "_activity": {"type": "refund"},
    }
    assert mail.to_json() == {
        "_tool": "send_mail",
        "description": "Send mail.",
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string", "default": "hello"}},
        "required": ["to"],
        "_idempotent": False,
        "_activity": {"type": "send_mail"},
    }
    assert whoami.to_json()["properties"] == {"greeting": {"type": "string"}}
    assert whoami.to_json()["_activity"] == {
        "type": "whoami",
        "input": "call",
        "startToCloseTimeout": "5m",
    }


async def test_a_function_is_called_as_before_and_by_its_activity() -> None:
    assert await refund("7", 2) == await refund(order_id="7", amount=2)
    run = ActivityEnvironment().run
    arguments = refund.arguments("7", amount=2)
    assert arguments == {"order_id": "7", "amount": 2}
    [kind] = refund.activity.__annotations__.keys() - {"return"}
    model: Any = refund.activity.__annotations__[kind]
    assert await run(refund.activity, model(**arguments)) == Receipt(refund_id="R-7", amount=2)
    assert mail.arguments(SentMail("ada")) == {"to": "ada", "text": "hello"}
    assert run(mail.activity, SentMail("ada")) is None
    context = CallContext.read(
        {"runId": "r", "callId": "c", "idempotencyKey": "k", "principal": {"id": "ada"}}
    )
    greeted = whoami.activity.__annotations__["arguments"](greeting="hi")
    assert run(whoami.activity, greeted, {}, context) == "hi ada"
    assert whoami.arguments("hi") == {"greeting": "hi"}


def _logged(function: Callable[P, R]) -> Callable[P, R]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return call


def _blocking(function: Callable[P, Awaitable[R]]) -> Callable[P, R]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        async def wait() -> R:
            return await function(*args, **kwargs)

        return asyncio.run(wait())

    return call


def _without_annotation(text: str):  # type: ignore[no-untyped-def]
    async def repeat() -> str:
        return text * 2

    return repeat()


async def test_a_coroutine_is_awaited_however_the_function_returns_it() -> None:
    loops = []

    async def repeat(text: str) -> str:
        loops.append(asyncio.get_running_loop())
        return text * 2

    run = ActivityEnvironment().run
    for function in (_logged(repeat), staticmethod(repeat), _blocking(repeat)):
        activity = tool(name="repeat")(function).activity
        assert await run(activity, activity.__annotations__["arguments"](text="a")) == "aa"
    here = asyncio.get_running_loop()
    assert [each is here for each in loops] == [True, True, False]
    late = tool(_without_annotation).activity
    given = late.__annotations__["arguments"](text="a")
    assert await asyncio.to_thread(run, late, given) == "aa"


def test_the_arguments_of_a_call_have_the_names_of_the_schema() -> None:
    @tool
    def find(from_: Annotated[str, Field(validation_alias="from")], to: str) -> str:
        return f"{from_} {to}"

    written = find.arguments("a", to="b")
    assert written == {"from": "a", "to": "b"}
    assert find.to_json()["properties"].keys() == written.keys()
    arguments = find.activity.__annotations__["arguments"]
    assert ActivityEnvironment().run(find.activity, arguments(**written)) == "a b"


def test_a_bound_method_is_a_tool() -> None:
    assert tool(_Desk().find).to_json()["required"] == ["number"]


def test_a_single_model_and_the_context_may_have_private_names() -> None:
    @tool
    def send(_mail: SentMail, _call: CallContext) -> str:
        return f"{_mail.to} {_call.call_id}"

    context = CallContext.read({"runId": "r", "callId": "c", "idempotencyKey": "k"})
    assert send.to_json()["required"] == ["to"]
    assert ActivityEnvironment().run(send.activity, SentMail("ada"), {}, context) == "ada c"


def test_every_meta_property_is_an_argument() -> None:
    from_function = {"type", "properties", "required", "parameters", "output", "tool"}
    without_function = {"delegate", "person"}
    known = ToolDefinition.model_fields.keys() - from_function - without_function
    assert ToolFields.__annotations__.keys() == known | {"name"}
    written: dict[str, Any] = {
        "label": "L",
        "output_path": "†state.a",
        "output_method": "merge",
        "scopes": ["state"],
        "instance": "i",
        "requires": ["a"],
        "sequential": True,
        "each": True,
        "limits": {"perRun": 2},
        "untrusted": True,
        "show": "preview",
        "approval": Approval(timeout=parse_duration("1h")),
        **dict.fromkeys(("prepare", "repair", "before", "after"), "look"),
    }
    form = tool(name="t", **written)(_nothing).to_json()
    assert form.keys() >= {f"_{to_camel(name)}" for name in written}
    assert form["_outputPath"] == "†state.a"
    assert form["_limits"] == {"perRun": 2}
    assert form["_approval"] == {"timeout": "1h"}


def _nothing() -> None:
    """Do nothing."""


def _many(*texts: str) -> None:
    """Take many."""


def _context_or_none(call: CallContext | None, text: str) -> None:
    """Take a context that may be missing."""


def _noted_context(call: Annotated[CallContext, "note"]) -> None:
    """Take a context with a note."""


class _Order(BaseModel):
    number: int
    call: CallContext | None = None


def _order(order: _Order) -> None:
    """Take a model that has a context."""


class _Desk:
    def find(self, number: int) -> None:
        """Find an order."""


def _yields() -> Iterator[str]:
    yield "a"


async def _yields_later() -> AsyncIterator[str]:
    yield "a"


def _private(_text: str, number: int) -> None:
    """Take a text under a private name."""


def _bytes(text: str) -> bytes | None:
    """Return bytes."""
    return text.encode()


def _unfit(value: type) -> complex:
    """Take a type."""
    return 1j


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: tool(_many), "tool `_many`: `*texts: str` has no name of its own"),
        (
            lambda: tool(_context_or_none),
            "tool `_context_or_none`: a model would fill in `call`; annotate one parameter, with"
            " `CallContext` alone",
        ),
        (lambda: tool(_noted_context), "tool `_noted_context`: a model would fill in `call`; ann"),
        (lambda: tool(_order), "tool `_order`: a model would fill in `order`; annotate one"),
        (
            lambda: tool(_Desk.find),
            "tool `find`: with `self` it is a method; make a tool of the bound one, `tool(obj",
        ),
        (lambda: tool(_yields), "tool `_yields` yields, which no call returns; return a list"),
        (lambda: tool(_logged(_yields_later)), "tool `_yields_later` yields, which no call "),
        (lambda: tool(_private), "tool `_private`: `_text` begins with `_`; rename it"),
        (lambda: tool(_bytes), "tool `_bytes`: its result is `bytes`, which JSON lacks; return"),
        (lambda: tool(_unfit), "a parameter or the result of tool `_unfit` has no JSON Schema"),
        (
            lambda: tool(shw="full")(_nothing),  # type: ignore[call-overload]
            "tool `_nothing`: unknown argument `shw`; did you mean `show`?",
        ),
        (
            lambda: tool(approval={"timeot": "1h"})(_nothing),
            "tool `_nothing`: `_approval.timeot`: unknown field `timeot`; did you mean `timeout`?",
        ),
        (
            lambda: tool(activity={"type": "ChargeCard", "taskQueue": "payments"})(_nothing),
            "tool `_nothing`: `activity.type`: its function is the activity; give options alone, ",
        ),
        (
            lambda: tool(activity={"input": ["user"]})(_nothing),
            "tool `_nothing`: `activity.input`: its function receives each argument by name; leave",
        ),
    ],
)
def test_a_wrong_tool_is_refused_in_a_line(make: Any, wrong: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        make()
    assert str(refused.value).startswith(wrong)
    assert "\n" not in str(refused.value)
