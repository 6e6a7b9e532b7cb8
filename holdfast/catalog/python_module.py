"""The agents and activities of a user's Python modules, and the tools that are derived from them.

A module has agents and tools of `definitions`, or imports `temporalio` and `pydantic` and nothing
of Holdfast: each function in it with `@activity.defn` is registered; one whose single parameter is
a pydantic model is a tool too. So is one with the parameters `(arguments, tool, context)`, if the
first is such a model and the last is a `CallContext`. A module that cannot be imported is reported
with the line at which it fails.
"""

import importlib
import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import dropwhile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from holdfast.catalog.registry import ActivitySignature
from holdfast.definitions.agent import Agent, AnyTool
from holdfast.definitions.json_form import arguments_schema
from holdfast.definitions.tool import Tool
from holdfast.runtime.data_converter import with_pydantic
from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError, UnreadableError
from holdfast.runtime.settings_files.source import Source, path_suggestion
from holdfast.schemas.base import format_duration, sha256
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.run import CallContext
from holdfast.schemas.tool import MAX_INPUTS

T = TypeVar("T")

MAX_MESSAGE_CHARS = 300
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


class ActivityDefinition(NamedTuple):
    """What is read of an activity's definition in Temporal's SDK."""

    name: str | None
    """None for a dynamic activity."""
    arg_types: Sequence[type] | None
    """None if a parameter has no annotation."""


DefinitionReader = Callable[[Any], ActivityDefinition | None]
"""Returns the definition of an activity, and None for any other value."""


@dataclass(frozen=True)
class PythonActivity:
    """An activity to register; `source` holds its tool as a person would write it."""

    name: str
    run: Callable[..., Any]
    source: Source
    is_tool: bool

    @property
    def signature(self) -> ActivitySignature:
        """Return the parameters that a call can pass."""
        try:
            types = get_type_hints(self.run)
        except Exception:  # an annotation that exists for type checkers alone
            types = {}
        every = inspect.signature(self.run).parameters.values()
        own = [each for each in every if each.kind in _POSITIONAL]
        names = [
            CallContext.key if types.get(each.name) is CallContext else each.name for each in own
        ]
        fewest = sum(each.default is each.empty for each in own)
        is_open = any(each.kind is each.VAR_POSITIONAL for each in every)
        return ActivitySignature(tuple(names), fewest, MAX_INPUTS if is_open else len(own))


@dataclass(frozen=True)
class PythonDefinitions:
    """The activities and the agents that Python modules define."""

    activities: Sequence[PythonActivity] = ()
    agents: Sequence[Source] = ()

    def __add__(self, other: "PythonDefinitions") -> "PythonDefinitions":
        return PythonDefinitions(
            (*self.activities, *other.activities), (*self.agents, *other.agents)
        )


PythonSource = str | Agent[Any] | AnyTool
"""A module, by dotted name or by the path of its `.py` file; an agent; or a function as a tool."""


def read_python(source: PythonSource, read_definition: DefinitionReader) -> PythonDefinitions:
    """Return what a module defines; or an agent with its tools that are functions; or a tool.

    Raises:
        LoadError: the module cannot be imported, or one of its activities cannot be read.
    """
    match source:
        case Tool():
            one = PythonActivity(source.name, source.activity, _source(source), is_tool=True)
            return PythonDefinitions([one])
        case Agent():
            tools = (read_python(each, read_definition) for each in source.tools)
            return sum(tools, PythonDefinitions(agents=[_source(source)]))
    module = import_module(source)
    own_file = module.__file__ or source
    found = PythonDefinitions()
    for value in vars(module).values():
        if isinstance(value, Agent | Tool):
            found += read_python(value, read_definition)
            continue
        definition = None if inspect.isclass(value) else read_definition(value)
        if definition is not None:
            found += PythonDefinitions([_read_activity(value, definition, own_file)])
    if not (found.activities or found.agents):
        fix = "decorate a function with `@tool` or `@activity.defn`, or leave the module out"
        raise LoadError([FileProblem(own_file, None, "it has no tools and no agents", fix)])
    return found


def _source(written: Agent[Any] | AnyTool) -> Source:
    file, line = written.place
    return Source(file, written.to_json(), {(): line})


def _read_activity(
    run: Callable[..., Any], definition: ActivityDefinition, own_file: str
) -> PythonActivity:
    code = getattr(inspect.unwrap(getattr(run, "__func__", run)), "__code__", None)
    # An activity that the module imports is in another file.
    file, line = (own_file, 1) if code is None else (code.co_filename, code.co_firstlineno)
    try:
        name, types = definition.name, definition.arg_types or []
        if name is None:
            reason = "this activity is dynamic"
            fix = "give it a name: it would answer for every activity that this worker lacks"
            raise UnreadableError(line, reason, fix)
        is_callable = len(types) == 1 or takes_context(types)
        if is_callable and inspect.isclass(types[0]) and issubclass(types[0], BaseModel):
            schema = _tool_schema(name, run, types, line)
            return PythonActivity(name, run, Source(file, schema, {(): line}), is_tool=True)
    except UnreadableError as error:
        raise LoadError([error.in_file(file)]) from error
    return PythonActivity(name, run, Source(file, None, {(): line}), is_tool=False)


def import_module(name: str) -> ModuleType:
    """Import a module by dotted name, or by the path of its `.py` file.

    Raises:
        LoadError: the module does not exist, or raises; the error has the line in the
            module.
    """
    path = Path(name)
    if path.suffix == ".py":
        folder, load = str(path.resolve().parent), partial(_import_file, path)
    elif _DOTTED.match(name):
        folder, load = str(Path.cwd()), partial(importlib.import_module, name)
    else:
        fix = "write its dotted name, or the path of its `.py` file"
        raise LoadError([FileProblem(name or '""', None, "this is no Python module", fix)])
    # At the end, where it shadows no module of the worker.
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError([_import_problem(name, error)]) from error


def load_object(place: str, kind: type[T], /, **arguments: Any) -> T:
    """Return the object `MODULE:NAME`; a class or a function of that name is called for it.

    Raises:
        LoadError: there is no such module or name, or the object is of another kind.
    """
    module_name, _, name = place.partition(":")
    known = vars(import_module(module_name))
    if name not in known:
        fix = suggest_names(name, [each for each in known if isinstance(known[each], kind)])
        reason = f"it has no `{name}`" if name else "`:NAME` is missing"
        raise LoadError([FileProblem(module_name, None, reason, fix)])
    found = known[name]
    try:
        found = found(**arguments) if callable(found) and not isinstance(found, kind) else found
    except Exception as error:
        raise LoadError([_import_problem(place, error, "called")]) from error
    if not isinstance(found, kind):
        reason = f"it is `{type(found).__name__}`, and no `{kind.__name__}`"
        fix = "name an object of that class, or a function without parameters that returns one"
        raise LoadError([FileProblem(place, None, reason, fix)])
    return found


def load_converter(place: str | None) -> DataConverter:
    """Return the data converter `MODULE:NAME`; without a name, the SDK's own.

    Raises:
        LoadError: it does not load, or runs cannot use it.
    """
    if not place:
        return DataConverter.default
    converter = load_object(place, DataConverter)
    try:
        with_pydantic(converter)
    except ValueError as error:
        raise LoadError([FileProblem(place, None, str(error), "")]) from None
    return converter


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    full = str(path.resolve())
    name = f"{path.stem}_{sha256(full.encode())[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # the name ends in `.py`
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_problem(name: str, error: BaseException, use: str = "imported") -> FileProblem:
    try:
        # Without the place, which is reported separately.
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = "it has no message"
    message = " ".join(text.split())[:MAX_MESSAGE_CHARS]
    reason = f"it cannot be {use}: {type(error).__name__}: {message}"
    match error:
        case SyntaxError() if error.filename:
            return FileProblem(error.filename, error.lineno, reason, "fix it there")
        case ModuleNotFoundError() if f"{name}.".startswith(f"{error.name}."):
            fix = "check the name, and where it is run"
            return FileProblem(name, None, "there is no such module", fix)
        case FileNotFoundError() if not error.errno:
            return FileProblem(name, None, "there is no such file", path_suggestion(Path(name)))
    theirs = _user_frame(traceback.extract_tb(error.__traceback__))
    if theirs is None:
        return FileProblem(name, None, reason, "fix the module")
    return FileProblem(theirs.filename, theirs.lineno, reason, "fix it there")


def stuck_import_problem(
    stack: Iterable[traceback.FrameSummary], timeout: timedelta
) -> FileProblem:
    """Return the problem of an import that exceeds its time limit, with its current line."""
    theirs = _user_frame(stack)
    reason = f"loading has not ended in {format_duration(timeout)}"
    if theirs is None:
        return FileProblem("holdfast", None, reason, "give it more time with `--timeout`")
    fix = "make requests and wait in activities, not while the module is imported"
    return FileProblem(theirs.filename, theirs.lineno, f"{reason}: it is at this line", fix)


def _user_frame(frames: Iterable[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """Return the frame of the user's module: the first after our own."""
    imported = dropwhile(lambda frame: frame.filename != __file__, frames)
    theirs = (
        frame
        for frame in imported
        if "importlib" not in frame.filename and frame.filename != __file__
    )
    return next(theirs, None)


def _tool_schema(
    name: str, run: Callable[..., Any], types: Sequence[type], line: int
) -> dict[str, Any]:
    model = types[0]
    try:
        schema = arguments_schema(model, f"`{model.__name__}`")
    except TypeError as error:
        reason, _, fix = str(error).rpartition("; ")
        raise UnreadableError(line, reason, fix) from error
    try:
        # `json_schema_extra` may hold values that only Python has.
        schema = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        reason = f"the `json_schema_extra` of `{model.__name__}` is no JSON: {error}"
        raise UnreadableError(line, reason, "use texts, numbers, lists and dictionaries") from error
    if description := inspect.getdoc(run):
        schema["description"] = description
    options = schema.get("_activity", {})
    if not isinstance(options, dict) or "type" in options:
        reason = f"`_activity` of `{name}` names an activity, but the function is the activity"
        raise UnreadableError(line, reason, "give options alone, such as startToCloseTimeout")
    if takes_context(types):
        options = {**options, "input": "call"}
    elif (passed := options.get("input", "arguments")) != "arguments":
        others = "`input: call` passes three" if passed == "call" else "`input` passes other values"
        reason = f"`{name}` takes one parameter, and {others}"
        fix = "leave out `input`, or take `(arguments, tool, context: CallContext)`"
        raise UnreadableError(line, reason, fix)
    return {**schema, "_activity": {**options, "type": name}}


def takes_context(types: Sequence[type] | None) -> bool:
    """Return whether an activity with such parameters receives a call, its tool and its context."""
    return types is not None and list(types[2:]) == [CallContext]


def decode_arguments(payloads: Sequence[Payload], types: list[type]) -> list[Any]:
    """Return the arguments of an activity; where it takes a context, those of the call first.

    Raises:
        ApplicationError: a pydantic model rejects them; it names the field, and is not retried. The
            SDK would retry, and report no more than `Failed decoding arguments`.
    """
    converter = activity.payload_converter()
    if takes_context(types):
        call, tool, data = converter.from_payloads(payloads)
        # A list as `input`, or a workflow of theirs, passes the arguments and the context itself.
        context = data.pop(CallContext.key, None) if isinstance(data, dict) else None
        if context is not None:
            payloads = converter.to_payloads([call["arguments"], tool, {**context, "data": data}])
    try:
        return converter.from_payloads(payloads, types)
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
