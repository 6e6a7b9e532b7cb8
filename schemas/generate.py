"""How a request to a model travels between a run and the activity that makes it.

History holds `Pointer` alone. `Page` is what the run answers, by query, to `PageOf`: the part of
its log that the activity does not hold yet, under a megabyte at a time.
"""

from typing import Annotated, Any

from pydantic import Field

from schemas.agent import ModelSettings, ToolChoice
from schemas.base import Lenient
from schemas.tool import Schema


class Pointer(Lenient):
    """The input of `generate`: a place in the run's log, and the digest of all up to there."""

    turn: int
    entries: int
    digest: str


class PageOf(Lenient):
    """Which part of the log is wanted: the entries after `after`, up to `upto`.

    `offset` goes on in the middle of the entry `after + 1`, in characters.
    """

    after: Annotated[int, Field(ge=0)] = 0
    upto: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)] = 0


class ToolOffer(Lenient):
    """A tool as a model is shown it."""

    name: str
    description: str
    parameters: Schema


class Ask(Lenient):
    """What does not stand in the log: with what settings the model is asked, this time."""

    model: ModelSettings
    instructions: str
    tools: list[ToolOffer] = []
    tool_choice: ToolChoice = "auto"
    output: Schema | bool | None = None
    tail: str | None = None


class Page(Lenient):
    """A part of a log.

    An item is a whole entry with a message as JSON text, or `#` and the digest of an entry that the
    model does not see. `cut` says that the last item goes on in the next page.
    """

    items: list[str]
    cut: bool = False
    ask: Ask | None = None

    def to_json(self) -> dict[str, Any]:
        """The page, without what is absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
