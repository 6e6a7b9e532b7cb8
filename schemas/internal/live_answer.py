"""What a worker and a viewer process send to each other: the answers that models are writing.

The worker opens a WebSocket to the process, at `LIVE_ANSWERS_PATH`, with the shared key as its
bearer token. The process sends each `WatchChange` as JSON. The worker sends pieces of answers: the
details of a heartbeat of `generate`, whose text begins at the position that the process has, with
the `run`, the `key` of the request, and whether the request has `ended`. They are encoded as the
payloads of the run are, as the Protobuf message `Payloads`.
"""

from typing import Annotated, Final

from pydantic import Field

from holdfast.schemas.base import Lenient

LIVE_ANSWERS_PATH: Final = "/live-answers"
# The variable that holds the shared key.
VIEWERS_KEY: Final = "HOLDFAST_VIEWERS_KEY"
# Where the viewers of this machine leave their addresses and keys, beside the database of `--dev`.
VIEWERS_FOLDER: Final = "viewers"
# The worker keeps and sends no more of one answer.
MAX_LIVE_CHARACTERS = 1_000_000


class AnswerPosition(Lenient):
    """How much a viewer process has of a run's answer: `offset` characters of the request `key`."""

    run: str
    key: str = ""
    offset: Annotated[int, Field(ge=0)] = 0


class WatchChange(Lenient):
    """The runs that the viewer process watches from now on, and those that it no longer watches."""

    watch: list[AnswerPosition] = []
    leave: list[str] = []
