"""Python modules: their activities, and the tools that are derived from them.

A module imports `temporalio` and `pydantic` and nothing of ours. Each function in it with
`@activity.defn` is registered; one whose single parameter is a pydantic model is a tool too.
"""

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pydantic import BaseModel, PydanticUserError, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from holdfast.catalog.module_import import ImportFailedError, import_module
from holdfast.runtime.settings_files.file_problems import FileProblem, UnreadableError
from holdfast.runtime.settings_files.source import Source
from holdfast.schemas.errors import ErrorCode


@dataclass(frozen=True)
class PythonActivity:
    """An activity of a module: what to register, and its tool as a person would write it."""

    name: str
    run: Callable[..., Any]
    source: Source
    is_tool: bool


def read_module(name: str) -> list[PythonActivity]:
    """Import a module, by dotted name or by the path of its `.py` file, and list its activities.

    Raises:
        ImportFailedError: it cannot be imported, or one of its activities cannot be read.
    """
    module = import_module(name)
    file = module.__file__ or name
    found = []
    for run in _activities(module):
        line = _line(run)
        try:
            found.append(_read(run, file, line))
        except UnreadableError as error:
            raise ImportFailedError(FileProblem(file, line, error.reason, error.mend)) from error
    if not found:
        mend = "decorate a function with `@activity.defn`, or leave the module out"
        raise ImportFailedError(FileProblem(file, None, "it has no activities", mend))
    return found


def _activities(module: ModuleType) -> Iterator[Callable[..., Any]]:
    for value in vars(module).values():
        if not inspect.isclass(value) and _definition(value) is not None:
            yield value


def _definition(value: Any) -> activity._Definition | None:
    # Temporal has no other way to ask for an activity's registered name. What is no activity may
    # answer whatever it is asked, or raise.
    try:
        found = activity._Definition.from_callable(value)
    except Exception:
        return None
    return found if isinstance(found, activity._Definition) else None


def _line(run: Callable[..., Any]) -> int:
    code = getattr(inspect.unwrap(getattr(run, "__func__", run)), "__code__", None)
    return code.co_firstlineno if code is not None else 1


def _read(run: Callable[..., Any], file: str, line: int) -> PythonActivity:
    definition = _definition(run)
    assert definition is not None  # `_activities` has asked
    if definition.name is None:
        mend = "give it a name: it would answer for every activity that this worker does not have"
        raise UnreadableError(line, "this activity is dynamic", mend)
    model = _model(definition)
    if model is None:
        return PythonActivity(definition.name, run, Source(file, None, {(): line}), is_tool=False)
    written = _written(definition.name, run, model, line)
    return PythonActivity(
        definition.name, _reading(run, model, definition), Source(file, written, {(): line}), True
    )


def _model(definition: activity._Definition) -> type[BaseModel] | None:
    types = definition.arg_types or []
    is_model = len(types) == 1 and inspect.isclass(types[0]) and issubclass(types[0], BaseModel)
    return types[0] if is_model else None


class _Untitled(GenerateJsonSchema):
    """Schemas without the titles that pydantic makes of names: a model would read each twice."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _written(
    name: str, run: Callable[..., Any], model: type[BaseModel], line: int
) -> dict[str, Any]:
    """The tool that an activity is, as a person would have written it."""
    try:
        schema = model.model_json_schema(schema_generator=_Untitled)
    except PydanticUserError as error:
        reason = f"`{model.__name__}` has no JSON Schema: {str(error).splitlines()[0]}"
        raise UnreadableError(line, reason, "use types that JSON has") from error
    schema = _at_top(_as_json(model, schema, line))
    for inner in schema.get("$defs", {}).values():
        for key in [key for key in inner if key.startswith("_")]:
            del inner[key]  # a model inside is no tool, also where it is one elsewhere
    if model.model_config.get("title") is None:
        schema.pop("title", None)
    description = inspect.getdoc(run) or schema.get("description")
    if description:
        schema["description"] = description
    return {**schema, "_activity": _bound(name, schema.get("_activity"), line)}


def _as_json(model: type[BaseModel], schema: dict[str, Any], line: int) -> dict[str, Any]:
    """The schema as it would stand in a file: its author may have put Python's own values in."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        reason = f"the `json_schema_extra` of `{model.__name__}` is no JSON: {error}"
        raise UnreadableError(line, reason, "use texts, numbers, lists and dictionaries") from error
    return plain


def _at_top(schema: dict[str, Any]) -> dict[str, Any]:
    """A model that holds itself is a reference to one of its own `$defs`: put that at the top."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    inner = dict(schema["$defs"][reference.removeprefix("#/$defs/")])
    plain = {key: value for key, value in schema.items() if key != "$ref"}
    return {**inner, **plain}


def _bound(name: str, options: Any, line: int) -> dict[str, Any]:
    if options is not None and (not isinstance(options, dict) or "type" in options):
        reason = f"`_activity` of `{name}` names an activity, but the function is the activity"
        raise UnreadableError(line, reason, "give options alone, such as startToCloseTimeout")
    if options and options.get("input") == "call":
        reason = f"`{name}` takes one parameter, and `input: call` passes three"
        raise UnreadableError(line, reason, "leave out `input`")
    return {**(options or {}), "type": name}


def _reading(
    run: Callable[..., Any], model: type[BaseModel], definition: activity._Definition
) -> Callable[..., Any]:
    """The activity, with its arguments read here.

    What the model refuses, the SDK would try again and again, and say no more than `Failed decoding
    arguments`. Read here, it is final, and says which field is wrong.
    """

    async def run_async(arguments: RawValue) -> Any:
        return await run(_arguments(arguments, model))

    def run_sync(arguments: RawValue) -> Any:
        return run(_arguments(arguments, model))

    decorate = activity.defn(
        name=definition.name, no_thread_cancel_exception=definition.no_thread_cancel_exception
    )
    return decorate(run_async if definition.is_async else run_sync)


def _arguments(raw: RawValue, model: type[BaseModel]) -> Any:
    try:
        return activity.payload_converter().from_payload(raw.payload, model)
    except ValidationError as error:
        wrong = "; ".join(
            f"`{'.'.join(map(str, each['loc'])) or 'arguments'}`: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ApplicationError(
            wrong,
            type=ErrorCode.INVALID_ARGUMENTS,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        ) from None
