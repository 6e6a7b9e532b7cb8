"""Memory: the data that an agent keeps beyond its runs, with its requests and answers.

A memory is a workflow of its own. Its bounds are defined here: all of it has to fit into the input
with which that workflow continues as new.
"""

from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from holdfast.schemas import names
from holdfast.schemas.base import Lenient, Strict

MAX_ENTRIES = 1_000
MAX_KEY_CHARACTERS = 200
MAX_VALUE_BYTES = 16_000
# As JSON in UTF-8. Temporal writes it in ASCII, which takes at most three times as much: with all
# else, less than the two megabytes that a payload may have.
MAX_MEMORY_BYTES = 500_000
MAX_QUERY_CHARACTERS = 500
MAX_FOUND = 20
DEFAULT_FOUND = 5
# After so many writes a memory continues as new, so that it is soon read by a worker that does not
# hold it: replayed from its beginning.
MAX_WRITES_A_RUN = 200
# What is answered for a memory that holds nothing, and for one that was never written.
EMPTY: Final = {"entries": 0, "note": "the memory is empty"}

Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARACTERS)]


class MemoryOwner(Lenient):
    """Whose memory it is. `inline`: the agent was written in a request, and named itself."""

    agent: str
    inline: bool = False
    principal: str | None = None

    @property
    def workflow_id(self) -> str:
        return names.memory_id(self.agent, self.principal, inline=self.inline)


def _small(value: str) -> str:
    size_bytes = len(value.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_VALUE_BYTES:
        raise ValueError(f"the text has {size_bytes} bytes; keep at most {MAX_VALUE_BYTES}")
    return value


Text = Annotated[str, AfterValidator(_small)]


class MemoryWrite(Strict, use_attribute_docstrings=True):
    """What is to be kept under a key from now on; null is nothing."""

    key: Key
    """What to keep it under: short, and easy to find."""
    value: Text | None
    """The text; null to delete."""
    append: bool = False
    """Add the text to what is kept, on a new line."""
    if_value: Text | SkipJsonSchema[None] = None
    """Write only if this is the text that is kept now; empty: if none is. Otherwise the call fails,
    and nothing is changed."""

    @model_validator(mode="after")
    def _appends_a_text(self) -> Self:
        if self.append and self.value is None:
            raise ValueError("`append` adds a text; write a `value`, or leave `append` out")
        return self


class MemoryRead(Strict, use_attribute_docstrings=True):
    """Which entry is wanted, or which keys."""

    key: Key | SkipJsonSchema[None] = None
    """What the entry is kept under."""
    prefix: Annotated[str, Field(max_length=MAX_KEY_CHARACTERS)] = ""
    """Without a key: what the keys begin with."""
    skip: Annotated[int, Field(ge=0)] = 0
    """Without a key: how many of the newest to leave out."""


class MemorySearch(Strict, use_attribute_docstrings=True):
    """What is looked for."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
    """The words to look for."""
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = DEFAULT_FOUND
    """The most entries (default: 5)."""


class MemoryEntry(Lenient):
    """One text that is kept, and since when."""

    value: str
    written_at: str


class MemoryState(Lenient):
    """What a memory begins with, and what it takes along when it continues as new.

    Its entries from the oldest to the newest, and marks of the last writes.

    `writes_a_run` stands here, and stays what it was: a run that were replayed with another would
    not do again what it did.
    """

    owner: MemoryOwner
    writes_a_run: int
    entries: dict[str, MemoryEntry] = {}
    applied: list[str] = []
