"""What waits in a run, as the pages of lists and calls read it."""

from typing import Final

from pydantic import ValidationError

from remote.errors import RUN_FAILED, CommandError
from remote.run import RemoteRun
from schemas.decision import Waiting
from workflows.engine.approval import digest_of

_MAX_ROUNDS: Final = 50


async def waiting_in(run: RemoteRun) -> list[Waiting]:
    """The questions that wait in a run.

    Raises:
        CommandError: as `RemoteRun.waiting` does, and where a run of another version says what is
            not known here.
    """
    try:
        return await run.waiting()
    except ValidationError:
        wrong = "what waits in it cannot be read by this version of the inbox"
        raise CommandError(wrong, "decide with that of its worker", RUN_FAILED) from None


def is_whole(waiting: Waiting) -> bool:
    """Whether all of a question is shown: what is too large for an answer of its run is cut, and is
    no more what its digest is of."""
    # How often a question was asked is a part of its digest, and is told nowhere else.
    rounds = range(1, 2 if waiting.kind == "call" else _MAX_ROUNDS)
    told = (waiting.tool, waiting.arguments, waiting.kind)
    return any(digest_of(*told, round_) == waiting.digest for round_ in rounds)
