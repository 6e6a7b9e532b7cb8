"""What waits in a run, as the pages of lists and calls read it."""

from typing import Final

from holdfast.schemas.decision import PendingApproval
from holdfast.workflows.engine.approvals.question import digest_of

_MAX_ROUNDS: Final = 50


def is_whole(waiting: PendingApproval) -> bool:
    """Whether all of a question is shown: what is too large for an answer of its run is cut, and is
    no more what its digest is of."""
    # How often a question was asked is a part of its digest, and is told nowhere else.
    rounds = range(1, 2 if waiting.kind == "call" else _MAX_ROUNDS)
    told = (waiting.tool, waiting.arguments, waiting.kind)
    return any(digest_of(*told, round_) == waiting.digest for round_ in rounds)
