"""A Python function as a tool: `@tool`.

    @tool(side_effects=True, approval={"timeout": "24h"}, title="Refund an order")
    async def refund(order_id: str, amount: Annotated[float, Gt(0)]) -> Receipt: ...

The decorator makes an activity of Temporal and the tool's JSON Schema, as a file would have it. The
parameters are those of the tool; a single one that is a pydantic model or a dataclass holds them. A
parameter that is annotated `CallContext` receives the call's context, and is none of the tool's.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, get_type_hints, overload

from pydantic import BaseModel, create_model
from pydantic_core import to_jsonable_python
from temporalio import activity

from holdfast.definitions import json_form
from holdfast.schemas.run import CallContext
from holdfast.schemas.tool import (
    ApprovalPolicy,
    CallLimits,
    HookRef,
    OutputMethod,
    RepairRef,
    Show,
    ToolDefinition,
)

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
JsonObject = Mapping[str, object]
Approval = ApprovalPolicy
Place = tuple[str, int]
"""A file, and a line from 1."""
_ONE_EACH = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ToolFields(TypedDict, total=False):
    """The meta-properties of a tool, as `ToolDefinition` describes them.

    `activity` has options alone, such as `{"startToCloseTimeout": "5m"}`.
    """

    name: str
    title: str
    label: str
    description: str
    output_path: str
    output_method: OutputMethod
    scopes: Sequence[str]
    instance: str
    activity: JsonObject
    side_effects: bool
    idempotent: bool
    approval: Approval | JsonObject | Sequence[Approval | JsonObject]
    requires: Sequence[str]
    sequential: bool
    each: bool
    limits: CallLimits | JsonObject
    untrusted: bool
    show: Show
    prepare: HookRef | JsonObject
    repair: RepairRef | JsonObject
    before: HookRef | JsonObject
    after: HookRef | JsonObject


class _Parameters:
    """The parameters of a function: `model` holds those of the tool, as one object.

    `context` is the name of the parameter that receives the call's context, if there is one.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.result = hints.pop("return", None)
        if json_form.mentions(self.result, bytes):
            raise TypeError(f"tool `{name}`: its result is `bytes`, which JSON lacks; return text")
        self.context = next((one for one, kind in hints.items() if kind is CallContext), None)
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.name != self.context]
        self._signature = signature.replace(parameters=own)
        kinds = [hints.get(each.name, Any) for each in own]
        # The name of a single parameter that is the object itself.
        only = kinds[0] if len(own) == 1 and inspect.isclass(kinds[0]) else object
        has_fields = issubclass(only, BaseModel) or is_dataclass(only)
        self._whole = own[0].name if has_fields else None
        fields = [each.annotation for each in getattr(only, "model_fields", {}).values()]
        fields += [each.type for each in getattr(only, "__dataclass_fields__", {}).values()]
        for each in own:
            if each.name in ("self", "cls") and each is own[0] and each.name not in hints:
                fix = "make a tool of the bound one, `tool(object.method)`"
                raise TypeError(f"tool `{name}`: with `{each.name}` it is a method; {fix}")
            if each.kind not in _ONE_EACH:
                raise TypeError(f"tool `{name}`: `{each}` has no name of its own; give it one")
            if any(json_form.mentions(one, CallContext) for one in (hints.get(each.name), *fields)):
                fix = "annotate one parameter, with `CallContext` alone"
                raise TypeError(f"tool `{name}`: a model would fill in `{each.name}`; {fix}")
            if each.name.startswith("_") and not self._whole:
                raise TypeError(f"tool `{name}`: `{each.name}` begins with `_`; rename it")
        self._fields: dict[str, Any] = {
            each.name: (kind, ... if each.default is each.empty else each.default)
            for each, kind in zip(own, kinds, strict=True)
        }
        self.model: type[Any] = kinds[0] if self._whole else create_model(name, **self._fields)

    def for_function(
        self, arguments: Any, tool: object = None, context: CallContext | None = None
    ) -> dict[str, Any]:
        """Return the keyword arguments of the function from the arguments of its activity."""
        whole = {self._whole: arguments} if self._whole else None
        given = whole or {name: getattr(arguments, name) for name in self._fields}
        return given | ({self.context: context} if self.context else {})

    def as_json(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of a call of the function as a model writes them."""
        given = self._signature.bind_partial(*args, **kwargs).arguments
        written: dict[str, Any] = to_jsonable_python(given.get(self._whole or "", given))
        if self._whole:
            return written
        fields = self.model.model_fields
        return {str(fields[one].validation_alias or one): each for one, each in written.items()}


class Tool(Generic[P, R_co]):
    """A function that agents call as a tool, and programs as before.

    `activity` is the activity that runs it, `place` the line of the function.
    """

    def __init__(self, function: Callable[P, R_co], fields: ToolFields) -> None:
        self._function = function
        self.name = fields.get("name", function.__name__)
        json_form.check_names(fields, ToolFields.__annotations__, f"tool `{self.name}`")
        inner = inspect.unwrap(function)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise TypeError(f"tool `{self.name}` yields, which no call returns; return a list")
        self.place: Place = inner.__code__.co_filename, inner.__code__.co_firstlineno
        self._parameters = _Parameters(function, self.name)
        self._form = _form(self.name, self._parameters, function, fields)
        json_form.check_form(ToolDefinition, self._form, f"tool `{self.name}`")
        self.activity = _activity(self.name, self._parameters, function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self._function(*args, **kwargs)

    def arguments(self, *args: object, **kwargs: object) -> dict[str, Any]:
        """Return the arguments of a call, without its context, as a model writes them."""
        return self._parameters.as_json(*args, **kwargs)

    def to_json(self) -> dict[str, Any]:
        return dict(self._form)


def _form(
    name: str, parameters: _Parameters, function: Callable[..., Any], given: ToolFields
) -> dict[str, Any]:
    what = f"a parameter or the result of tool `{name}`"
    form: dict[str, Any] = {"_tool": name, **json_form.arguments_schema(parameters.model, what)}
    if parameters.result not in (None, type(None)):
        form["_output"] = json_form.type_schema(parameters.result, what, "serialization")
    form["description"] = inspect.getdoc(function) or form.get("description", "")
    context = {"input": "call"} if parameters.context else {}
    options = json_form.as_written(given.get("activity", {}))
    if "type" in options:
        fix = "give options alone, such as `startToCloseTimeout`"
        raise ValueError(f"tool `{name}`: `activity.type`: its function is the activity; {fix}")
    if isinstance(options.get("input"), list | dict):
        fix = "its function receives each argument by name; leave it out"
        raise ValueError(f"tool `{name}`: `activity.input`: {fix}")
    form["_activity"] = {**options, **context, "type": name}
    for field, value in given.items():
        if field not in ("name", "activity"):
            form[ToolDefinition.model_fields[field].alias or field] = json_form.as_written(value)
    return form


def _activity(
    name: str, parameters: _Parameters, function: Callable[..., Any]
) -> Callable[..., Any]:
    is_async = inspect.iscoroutinefunction(function)

    async def run(*given: Any) -> Any:
        call = partial(function, **parameters.for_function(*given))
        # The decorator of a coroutine function may return its coroutine, or block until its end.
        result = call() if is_async else await asyncio.to_thread(call)
        return await result if inspect.isawaitable(result) else result

    def run_sync(*given: Any) -> Any:
        result = function(**parameters.for_function(*given))
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    made = run if is_async or inspect.iscoroutinefunction(inspect.unwrap(function)) else run_sync
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    kinds = {"arguments": parameters.model}
    if parameters.context:
        kinds |= {"tool": dict[str, Any], "context": CallContext}
    made.__annotations__ = {**kinds, "return": parameters.result or Any}
    one = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = [inspect.Parameter(each, one, annotation=kind) for each, kind in kinds.items()]
    made.__dict__["__signature__"] = inspect.Signature(signature)
    return activity.defn(name=name)(made)


@overload
def tool(function: Callable[P, R_co], /) -> Tool[P, R_co]: ...


@overload
def tool(**fields: Unpack[ToolFields]) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...


def tool(function: Callable[..., Any] | None = None, /, **fields: Unpack[ToolFields]) -> Any:
    """Make a function a tool. Its docstring describes it to the model.

    A synchronous function runs in a thread.

    Raises:
        TypeError: a parameter or the result has a type that JSON lacks.
        ValueError: a meta-property does not fit.
    """
    if function is None:
        return lambda decorated: Tool(decorated, fields)
    return Tool(function, fields)
