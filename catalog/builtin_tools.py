"""The tools that read an agent's knowledge and its memory, and the knowledge files of a catalog."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from holdfast.catalog.registry import DefinitionRegistry
from holdfast.runtime.addresses import AddressError, allowed_address
from holdfast.runtime.settings_files.file_problems import InvalidValueError, UnreadableError
from holdfast.runtime.settings_files.source import read_text
from holdfast.schemas import names
from holdfast.schemas.agent import Knowledge
from holdfast.schemas.internal.memory import (
    DEFAULT_FOUND,
    MAX_FOUND,
    MAX_KEY_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_VALUE_BYTES,
    MemoryOwner,
)
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.tool import ActivityBinding, KnowledgeSource, Tool
from holdfast.validation.problems import ValueProblem

_READ = (
    "Read from your memory, which outlives this run. With a key: what is kept under it. Without:"
    " the keys there are, the newest first."
)
_SEARCH = (
    "Search your memory, which outlives this run, for entries in whose key or text any of the"
    " words occurs. The best come first."
)
_WRITE = (
    "Keep a text in your memory, which outlives this run, for later ones to read. What was kept"
    f" under the key before is replaced; null deletes it. A text has at most {MAX_VALUE_BYTES}"
    " bytes."
)
_KEY = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS}
_PARAMETERS: dict[str, dict[str, Any]] = {
    names.MEMORY_READ: {
        "type": "object",
        "properties": {"key": {**_KEY, "description": "What the entry is kept under."}},
    },
    names.MEMORY_SEARCH: {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_QUERY_CHARACTERS,
                "description": "The words to look for.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_FOUND,
                "description": f"The most entries; {DEFAULT_FOUND} unless said.",
            },
        },
        "required": ["query"],
    },
    names.MEMORY_WRITE: {
        "type": "object",
        "properties": {
            "key": {**_KEY, "description": "What to keep it under: short, and easy to find."},
            "value": {"type": ["string", "null"], "description": "The text; null to delete."},
        },
        "required": ["key", "value"],
    },
}

MAX_KNOWLEDGE_BYTES = 256_000


def knowledge_tool(written: Knowledge, world: DefinitionRegistry) -> Tool:
    """Make the tool that returns this knowledge to the model.

    A local activity returns a file or a text. Its input is not recorded, so that history holds a
    text once for the agent and once for each call, and the worker that runs the run reads the file.
    The content of an address belongs to another party and is untrusted.

    Raises:
        InvalidValueError: the knowledge is invalid; the error has every problem.
    """
    faults = list(_faults(written, world))
    if faults:
        raise InvalidValueError(faults)
    return Tool(
        name=written.name,
        description=written.description or f"Returns what there is to know: {written.name}.",
        parameters={"type": "object", "properties": {}},
        activity=ActivityBinding(type=names.FETCH_KNOWLEDGE, local=written.url is None),
        knowledge=KnowledgeSource(file=written.file, url=written.url, text=written.text),
        untrusted=written.url is not None,
    )


def _faults(written: Knowledge, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    if written.file is not None:
        yield from (fault.under("file") for fault in _file_faults(written.file, world))
    if written.url is not None:
        try:
            allowed_address(written.url, world.knowledge_urls)
        except AddressError as error:
            yield error.as_value_problem().under("url")
    if written.text is not None:
        yield from (fault.under("text") for fault in _text_faults(written.text))


def _text_faults(text: str) -> Iterator[ValueProblem]:
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if not text.strip():
        yield ValueProblem((), "the text is empty", "write something in it")
    elif size_bytes > MAX_KNOWLEDGE_BYTES:
        yield ValueProblem((), f"{size_bytes} bytes are too many", f"at most {MAX_KNOWLEDGE_BYTES}")


def _file_faults(file: str, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    if world.is_inline or world.folder is None:
        fix = "write its text here (`text`), or have an agent in the worker's catalog"
        yield ValueProblem((), "only an agent of the catalog can name a file", fix)
        return
    try:
        read_knowledge(world.folder, file)
    except UnreadableError as error:
        yield ValueProblem((), error.reason, error.fix.replace(f"{world.folder.resolve()}/", ""))


def read_knowledge(folder: Path, file: str) -> str:
    """Read a text file of the catalog in `folder`.

    Raises:
        UnreadableError: the file is outside of the folder, is too large, or is not readable text.
    """
    path = _within(folder, file)
    # Opening a pipe would block until a process writes into it.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UnreadableError(None, f"{quote_value(file)} is no file", "name a file")
    text = read_text(path, MAX_KNOWLEDGE_BYTES)
    if not text.strip():
        raise UnreadableError(
            None, f"the file {quote_value(file)} is empty", "write something in it"
        )
    return text


def _within(folder: Path, file: str) -> Path:
    if PurePosixPath(file).is_absolute() or PureWindowsPath(file).anchor:
        reason = f"the path {quote_value(file)} is absolute"
        raise UnreadableError(None, reason, "write it as seen from the catalog's folder")
    try:
        path = (folder / file).resolve()
        # From Python 3.13 on, a circular link raises no error.
        if path.is_symlink():
            raise ValueError("circular link")
    except (OSError, ValueError, RuntimeError) as error:
        raise UnreadableError(None, f"{quote_value(file)} is no path", "name a file") from error
    if not path.is_relative_to(folder.resolve()):
        reason = f"{quote_value(file)} is outside of the catalog's folder"
        raise UnreadableError(None, reason, "put the file itself into the folder")
    return path


def memory_tools(agent: str, world: DefinitionRegistry) -> list[Tool]:
    """Make the tools with which an agent reads, searches and writes its own memory.

    Writing needs no approval, since it affects the agent alone. Reading returns untrusted data: a
    model wrote it, from unknown sources.
    """
    owner = MemoryOwner(agent=agent, inline=world.is_inline)
    return [
        _tool(names.MEMORY_READ, _READ, owner, untrusted=True),
        _tool(names.MEMORY_SEARCH, _SEARCH, owner, untrusted=True),
        _tool(names.MEMORY_WRITE, _WRITE, owner, untrusted=False),
    ]


def _tool(name: str, description: str, owner: MemoryOwner, *, untrusted: bool) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters=_PARAMETERS[name],
        activity=ActivityBinding(type=name),
        memory=owner,
        untrusted=untrusted,
    )
