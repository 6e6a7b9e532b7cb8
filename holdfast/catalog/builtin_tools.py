"""The tools that read an agent's knowledge and its memory, and the knowledge files of a catalog."""

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

from holdfast.catalog import registry
from holdfast.catalog.mcp_tools import is_mcp, read_entry
from holdfast.runtime.addresses import AddressError, allowed_address
from holdfast.runtime.settings_files.file_problems import InvalidValueError, UnreadableError
from holdfast.runtime.settings_files.source import read_text
from holdfast.schemas import names
from holdfast.schemas.agent import Knowledge
from holdfast.schemas.base import Strict
from holdfast.schemas.internal import memory
from holdfast.schemas.json_schema import UntitledSchema
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.tool import ActivityBinding, KnowledgeSource, ResolvedTool, binding_of
from holdfast.validation.problems import ValueProblem, under

_MEMORY_TOOLS: dict[str, tuple[type[Strict], str]] = {
    names.MEMORY_READ: (
        memory.MemoryRead,
        "Read from your memory, which remains after this run. With a key: the text under it."
        " Without: the keys, the newest first, or those that begin with a prefix.",
    ),
    names.MEMORY_SEARCH: (
        memory.MemorySearch,
        "Search your memory, which remains after this run, for entries whose key or text has any of"
        " the words. The best are first.",
    ),
    names.MEMORY_WRITE: (
        memory.MemoryWrite,
        "Store a text in your memory, which remains after this run, for later runs. It replaces the"
        " text under the key, or is appended to it; null deletes it. The text under a key has at"
        f" most {memory.MAX_VALUE_BYTES} bytes.",
    ),
}

MAX_KNOWLEDGE_BYTES = 256_000
_NOT_PARAMETERS = ("title", "description")


def knowledge_tool(
    written: Knowledge, world: registry.DefinitionRegistry, tools: registry.ToolsByActivity
) -> ResolvedTool:
    """Make the tool that returns this knowledge to the model.

    A local activity returns all but an address. Its input is not recorded, so that history holds a
    text once for the agent and once for each call, and the worker that runs the run reads the file.
    The content of an address or a resource belongs to another party and is untrusted. An activity
    has the rules of the one of these `tools` that runs it.

    Raises:
        InvalidValueError: the knowledge is invalid; the error has every problem.
    """
    faults = [*_source_problems(written, world)]
    is_fetched = written.url is not None and not is_mcp(written.url)
    binding = ActivityBinding(type=names.FETCH_KNOWLEDGE, local=not is_fetched)
    rules = ResolvedTool(name=written.name, parameters={})
    if written.activity is not None:
        binding = binding_of(written.activity)
        same = tools.of(binding)
        rules = next(iter(same), rules)
        activity, schema = written.activity, rules.parameters
        found = [*registry.activity_problems(activity, world, schema, is_once=False)]
        found += registry.effect_problems(same)
        if len(same) > 1:
            reason = f"{', '.join(f'`{tool.name}`' for tool in same)} run this activity"
            fix = "name an activity of one tool, whose rules hold, or of none"
            found.append(ValueProblem((), reason, fix))
        for tool in same:
            if required := tool.parameters.get("required"):
                reason = f"`{tool.name}`, which this runs, needs `{required[0]}`"
                found.append(ValueProblem((), reason, "name an activity that needs no arguments"))
        faults += under(found, "activity")
    if faults:
        raise InvalidValueError(faults)
    return rules.model_copy(
        update={
            "name": written.name,
            "label": None,
            "description": written.description
            or f"Returns the text of the knowledge: {written.name}.",
            "parameters": {"type": "object", "properties": {}},
            "activity": binding,
            "knowledge": KnowledgeSource(
                kind=next(kind for kind in written.one_of if getattr(written, kind) is not None),
                file=written.file,
                url=written.url,
                text=written.text,
            ),
            "untrusted": rules.untrusted or written.untrusted or written.url is not None,
        }
    )


def _source_problems(
    written: Knowledge, world: registry.DefinitionRegistry
) -> Iterator[ValueProblem]:
    if written.file is not None and (world.is_inline or world.folder is None):
        reason = "only an agent of the catalog can name a file"
        fix = "write its text here (`text`), or have an agent in the worker's catalog"
        yield ValueProblem(("file",), reason, fix)
    elif written.file is not None and world.folder is not None:
        try:
            read_knowledge(world.folder, written.file)
        except UnreadableError as error:
            fix = error.fix.replace(f"{world.folder.resolve()}/", "")
            yield ValueProblem(("file",), error.reason, fix)
    if written.url is not None:
        yield from under(_address_problems(written.url, world), "url")
    if written.text is not None:
        size_bytes = len(written.text.encode("utf-8", "surrogatepass"))
        if not written.text.strip():
            yield ValueProblem(("text",), "the text is empty", "write something in it")
        elif size_bytes > MAX_KNOWLEDGE_BYTES:
            reason = f"{size_bytes} bytes are too many"
            yield ValueProblem(("text",), reason, f"at most {MAX_KNOWLEDGE_BYTES}")


def _address_problems(url: str, world: registry.DefinitionRegistry) -> Iterator[ValueProblem]:
    try:
        if is_mcp(url):
            read_entry(url, world)
        else:
            allowed_address(url, world.knowledge_urls)
    except AddressError as error:
        yield ValueProblem((), error.reason, error.fix)
    except InvalidValueError as error:
        yield from error.faults
    if is_mcp(url) and world.is_inline:
        reason = "only an agent of the catalog can name a resource of a server"
        yield ValueProblem((), reason, "have an agent in the worker's catalog")


def read_knowledge(folder: Path, file: str) -> str:
    """Read a text file of the catalog in `folder`.

    Raises:
        UnreadableError: the file is outside of the folder, is too large, or is not readable text.
    """
    shown = quote_value(file)
    if PureWindowsPath(file).anchor:  # also of a POSIX path
        fix = "write it as seen from the catalog's folder"
        raise UnreadableError(None, f"the path {shown} is absolute", fix)
    try:
        path = (folder / file).resolve()
        # From Python 3.13 on, a circular link raises no error.
        if path.is_symlink():
            raise ValueError("circular link")
    except (OSError, ValueError, RuntimeError) as error:
        raise UnreadableError(None, f"{shown} is no path", "name a file") from error
    if not path.is_relative_to(folder.resolve()):
        fix = "put the file itself into the folder"
        raise UnreadableError(None, f"{shown} is outside of the catalog's folder", fix)
    # Opening a pipe would block until a process writes into it.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UnreadableError(None, f"{shown} is no file", "name a file")
    text = read_text(path, MAX_KNOWLEDGE_BYTES)
    if not text.strip():
        raise UnreadableError(None, f"the file {shown} is empty", "write something in it")
    return text


def memory_tools(agent: str, world: registry.DefinitionRegistry) -> list[ResolvedTool]:
    """Make the tools with which an agent reads, searches and writes its own memory.

    Writing needs no approval, since it affects the agent alone. Reading returns untrusted data: a
    model wrote it, from unknown sources.
    """
    owner = memory.MemoryOwner(agent=agent, inline=world.is_inline)
    return [
        ResolvedTool(
            name=name,
            description=description,
            parameters={key: each for key, each in schema.items() if key not in _NOT_PARAMETERS},
            activity=ActivityBinding(type=name),
            memory=owner,
            memory_use="write" if name == names.MEMORY_WRITE else "read",
            untrusted=name != names.MEMORY_WRITE,
        )
        for name, (arguments, description) in _MEMORY_TOOLS.items()
        for schema in [arguments.model_json_schema(schema_generator=_UnsetIsAbsent)]
    ]


class _UnsetIsAbsent(UntitledSchema):
    """Describe a field without its default: what is unset is left out, and is not null."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])
