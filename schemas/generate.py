"""How a request to a model travels between a run and the activity that makes it.

History holds `Pointer` alone. `Page` is what the run answers, by query, to `PageOf`: the part of
its log that the activity does not hold yet, under a megabyte at a time.
"""

from typing import Annotated, Any

from pydantic import Field

from schemas.agent import Calling, ModelSettings, ToolChoice
from schemas.base import Lenient
from schemas.tool import Schema


class Pointer(Lenient):
    """The input of `generate`: a place in the run's log, and the digest of all up to there.

    With a `call`, it is a place in the small log of the request by which that call is answered.
    """

    turn: int
    entries: int
    digest: str
    call: str | None = None


class PageOf(Lenient):
    """Which part of the log is wanted: the entries after `after`, up to `upto`.

    `offset` goes on in the middle of the entry `after + 1`, in characters. `call` is the pointer's.
    """

    after: Annotated[int, Field(ge=0)] = 0
    upto: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)] = 0
    call: str | None = None


class ToolOffer(Lenient):
    """A tool as a model is shown it."""

    name: str
    description: str
    parameters: Schema


class Ask(Lenient):
    """What does not stand in the log: with what settings the model is asked, this time.

    `output` is the schema of an answer in JSON, which the instructions hold where it is
    `output_told`: where they do not, whoever asks sees to it that the model reads it. With
    `null_is_absent`, a property that is missing in the answer is as good as one that is null. In
    `composed` calling the calls stand in the answer's text, and are no calls of the provider's.
    """

    model: ModelSettings
    calling: Calling = "native"
    instructions: str
    tools: list[ToolOffer] = []
    tool_choice: ToolChoice = "auto"
    output: Schema | bool | None = None
    output_told: bool = True
    null_is_absent: bool = False
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
