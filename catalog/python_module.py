"""The activities of a user's Python modules, and the tools that are derived from them.

A module imports `temporalio` and `pydantic` and nothing of Holdfast. Each function in it with
`@activity.defn` is registered; one whose single parameter is a pydantic model is a tool too.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, PydanticUserError, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from holdfast.catalog.module_import import ImportFailedError, import_module
from holdfast.runtime.settings_files.file_problems import FileProblem, UnreadableError
from holdfast.runtime.settings_files.source import Source
from holdfast.schemas.names import ErrorCode


class ActivityDefinition(Protocol):
    """The attributes of an activity's definition in Temporal's SDK."""

    @property
    def name(self) -> str | None:
        """Return the activity's name; None for a dynamic activity."""
        ...

    @property
    def is_async(self) -> bool:
        """Return True for a coroutine function."""
        ...

    @property
    def no_thread_cancel_exception(self) -> bool:
        """Return True if a cancellation raises no exception in the activity's thread."""
        ...

    @property
    def arg_types(self) -> Sequence[type] | None:
        """Return the types of the parameters, or None if one has no annotation."""
        ...


DefinitionReader = Callable[[Any], ActivityDefinition | None]
"""Returns the definition of an activity, and None for any other value."""


@dataclass(frozen=True)
class PythonActivity:
    """An activity to register; `source` holds its tool as a person would write it."""

    name: str
    run: Callable[..., Any]
    source: Source
    is_tool: bool


def read_module(name: str, read_definition: DefinitionReader) -> list[PythonActivity]:
    """Import a module, by dotted name or by the path of its `.py` file, and list its activities.

    Raises:
        ImportFailedError: the module cannot be imported, or one of its activities cannot be read.
    """
    module = import_module(name)
    own_file = module.__file__ or name
    found = []
    for run in vars(module).values():
        definition = None if inspect.isclass(run) else read_definition(run)
        if definition is None:
            continue
        code = getattr(inspect.unwrap(getattr(run, "__func__", run)), "__code__", None)
        # An activity that the module imports is in another file.
        file, line = (own_file, 1) if code is None else (code.co_filename, code.co_firstlineno)
        try:
            found.append(_read_activity(run, definition, file, line))
        except UnreadableError as error:
            raise ImportFailedError(FileProblem(file, line, error.reason, error.fix)) from error
    if not found:
        fix = "decorate a function with `@activity.defn`, or leave the module out"
        raise ImportFailedError(FileProblem(own_file, None, "it has no activities", fix))
    return found


def _read_activity(
    run: Callable[..., Any], definition: ActivityDefinition, file: str, line: int
) -> PythonActivity:
    name, types = definition.name, definition.arg_types or []
    if name is None:
        fix = "give it a name: it would answer for every activity that this worker does not have"
        raise UnreadableError(line, "this activity is dynamic", fix)
    if len(types) != 1 or not inspect.isclass(types[0]) or not issubclass(types[0], BaseModel):
        return PythonActivity(name, run, Source(file, None, {(): line}), is_tool=False)
    written = _tool_schema(name, run, types[0], line)
    validated = _with_validation(run, name, types[0], definition)
    return PythonActivity(name, validated, Source(file, written, {(): line}), is_tool=True)


class _UntitledSchema(GenerateJsonSchema):
    """Leave out the titles that pydantic derives from names: a model would read each name twice."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _tool_schema(
    name: str, run: Callable[..., Any], model: type[BaseModel], line: int
) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_UntitledSchema)
    except PydanticUserError as error:
        reason = f"`{model.__name__}` has no JSON Schema: {str(error).splitlines()[0]}"
        raise UnreadableError(line, reason, "use types that JSON has") from error
    try:
        # `json_schema_extra` may hold values that only Python has.
        schema = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        reason = f"the `json_schema_extra` of `{model.__name__}` is no JSON: {error}"
        raise UnreadableError(line, reason, "use texts, numbers, lists and dictionaries") from error
    # A model that contains itself is a reference to one of its own `$defs`.
    reference = schema.pop("$ref", None)
    if reference is not None:
        schema = {**schema["$defs"][reference.removeprefix("#/$defs/")], **schema}
    for inner in schema.get("$defs", {}).values():
        for key in [key for key in inner if key.startswith("_")]:
            del inner[key]  # a nested model is not a tool, even if it is one elsewhere
    if model.model_config.get("title") is None:
        schema.pop("title", None)
    description = inspect.getdoc(run) or schema.get("description")
    if description:
        schema["description"] = description
    return {**schema, "_activity": _binding(name, schema.get("_activity"), line)}


def _binding(name: str, options: Any, line: int) -> dict[str, Any]:
    if options is not None and (not isinstance(options, dict) or "type" in options):
        reason = f"`_activity` of `{name}` names an activity, but the function is the activity"
        raise UnreadableError(line, reason, "give options alone, such as startToCloseTimeout")
    if options and options.get("input") == "call":
        reason = f"`{name}` takes one parameter, and `input: call` passes three"
        raise UnreadableError(line, reason, "leave out `input`")
    return {**(options or {}), "type": name}


def _with_validation(
    run: Callable[..., Any], name: str, model: type[BaseModel], definition: ActivityDefinition
) -> Callable[..., Any]:
    """Return the activity with its arguments validated here.

    The SDK would retry arguments that the model rejects, and report no more than `Failed decoding
    arguments`. Validated here, the error is not retried, and names the field.
    """

    async def run_async(arguments: RawValue) -> Any:
        return await run(_arguments(arguments, model))

    def run_sync(arguments: RawValue) -> Any:
        return run(_arguments(arguments, model))

    decorate = activity.defn(
        name=name, no_thread_cancel_exception=definition.no_thread_cancel_exception
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
