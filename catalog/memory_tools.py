"""Memory, as the tools of an agent that has one."""

from typing import Any

from holdfast.catalog.registry import DefinitionRegistry
from holdfast.schemas import names
from holdfast.schemas.internal.memory import (
    DEFAULT_FOUND,
    MAX_FOUND,
    MAX_KEY_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_VALUE_BYTES,
    MemoryOwner,
)
from holdfast.schemas.tool import ActivityBinding, Tool

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


def memory_tools(agent: str, world: DefinitionRegistry) -> list[Tool]:
    """The tools by which an agent reads, searches and writes its own memory.

    No person is asked: what is written concerns nobody but the agent. What is read was written by
    a model, of who knows what: it is not to be trusted.
    """
    owner = MemoryOwner(agent=agent, inline=world.inline)
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
