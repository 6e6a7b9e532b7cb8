"""Progress in the heartbeats of a run's activities: the growing answer, and running calls."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from holdfast.client.errors import HoldfastError
from holdfast.schemas import names

# A longer update is left out: each heartbeat repeats it.
MAX_UPDATE_BYTES: Final = 64_000
_CALL: Final = re.compile(r"(t[0-9]+c[0-9]+)(-again[0-9]*)?")


@dataclass(frozen=True)
class AnswerProgress:
    """The partial answer of a model, from the heartbeat of the activity that requests it.

    `text` is the last part of the answer, after `offset` characters. `calls` are the calls that the
    model is writing; where the answer is `composed`, they are in the text. `key` differs for each
    request and each attempt at it. The answer is that of this `turn`, unless it answers a `call` or
    is a `summary` of earlier messages.
    """

    key: str
    attempt: int
    text: str
    offset: int
    calls: list[Any]
    composed: bool = False
    turn: int | None = None
    call: str | None = None
    summary: bool = False


@dataclass(frozen=True)
class CallProgress:
    """The latest progress of a running call, in this `attempt` at it.

    For a call that the model answers, `details` are the end of the partial answer: `{"text",
    "offset"}`.
    """

    call_id: str
    attempt: int
    details: Any

    @property
    def turn(self) -> int:
        """Return the turn of the call."""
        return int(self.call_id[1:].partition("c")[0])


async def read_answer_progress(
    activities: Iterable[PendingActivityInfo], converter: DataConverter
) -> AnswerProgress | None:
    """Return the latest heartbeat of the first activity that requests an answer of a model.

    Raises:
        EncryptedError: it cannot be decrypted here.
    """
    asking = next((one for one in activities if one.activity_type.name == names.GENERATE), None)
    if asking is None or not asking.heartbeat_details.payloads:
        return None
    [details, *_] = await converter.decode(asking.heartbeat_details.payloads)
    attempt = details.get("attempt") if isinstance(details, dict) else None
    return answer_progress(f"{asking.activity_id}/{attempt}", details)


def answer_progress(key: str, details: Any) -> AnswerProgress | None:
    """Return the progress of a request in the details of its heartbeat.

    Details that a worker of another version wrote are None.
    """
    match details:
        case {"text": str() as text, "offset": int() as offset, "attempt": int() as attempt}:
            return AnswerProgress(
                key=key,
                attempt=attempt,
                text=text,
                offset=offset,
                calls=list(details.get("calls") or []),
                composed=details.get("composed") is True,
                turn=details.get("turn"),
                call=details.get("call"),
                summary=details.get("summary") is True,
            )
    return None


async def update_in(activity: PendingActivityInfo, converter: DataConverter) -> CallProgress | None:
    """Return the latest progress of a call's activity, None for another activity."""
    call, payloads = _CALL.fullmatch(activity.activity_id), activity.heartbeat_details
    if call is None or not payloads.payloads or payloads.ByteSize() > MAX_UPDATE_BYTES:
        return None
    try:
        details = await converter.decode(payloads.payloads)
    except HoldfastError:
        raise  # it is encrypted with a key that is not known here
    except Exception:
        return None  # in a format of another program
    value = details[0] if len(details) == 1 else details
    if activity.activity_type.name != names.GENERATE:
        return CallProgress(call[1], activity.attempt, value)
    match value:
        case {"text": str() as text, "offset": int() as offset, "attempt": int() as attempt}:
            return CallProgress(call[1], attempt, {"text": text, "offset": offset})
    return None
