"""What a worker and a viewer process send to each other: answers of models, queries, and results.

The worker opens a WebSocket to the process, at `LIVE_ANSWERS_PATH`, with the shared key as its
bearer token. The process sends each `WatchChange` as JSON. The worker sends pieces of answers: the
details of a heartbeat of `generate`, whose text begins at the position that the process has, with
the `run`, the `key` of the request, and whether the request has `ended`. It also sends a
`QueryResult` for each query. They are encoded as the payloads of the run are, as the Protobuf
message `Payloads`.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from holdfast.schemas import names
from holdfast.schemas.base import Lenient

LIVE_ANSWERS_PATH: Final = "/live-answers"
# The variable that holds the shared key.
VIEWERS_KEY: Final = "HOLDFAST_VIEWERS_KEY"
# Where the viewers of this machine leave their addresses and keys, beside the database of `--dev`.
VIEWERS_FOLDER: Final = "viewers"
# The worker keeps and sends no more of one answer.
MAX_LIVE_CHARACTERS = 1_000_000
# The queries that can be sent. Their arguments are numbers, since they are not encoded; and what a
# person decides on is not among them: any process with the shared key can answer.
LIVE_QUERIES: Final = frozenset((names.STATUS, names.CONTEXT, names.EVENTS))
# A larger result is read from Temporal.
MAX_RESULT_BYTES: Final = 512 * 1024


class AnswerPosition(Lenient):
    """How much a viewer process has of a run's answer: `offset` characters of the request `key`."""

    run: str
    key: str = ""
    offset: Annotated[int, Field(ge=0)] = 0


class LiveQuery(Lenient):
    """A query of a run, which every worker answers that is connected."""

    id: int
    run: str
    name: str
    args: list[Any] = []


class QueryResult(Lenient):
    """The answer to a query, of a run at this run id and length of its history.

    A worker that does not have the run in its cache answers without a `position`.
    """

    query: int
    position: tuple[str, int] | None = None
    result: Any = None


class WatchChange(Lenient):
    """The runs that the viewer process watches from now on, and those that it no longer watches.

    `queries` are to be answered at once.
    """

    watch: list[AnswerPosition] = []
    leave: list[str] = []
    queries: list[LiveQuery] = []
