"""The pending activities of a run: their failures, and the progress in their heartbeats.

A failed attempt leaves no other trace until its activity has ended, as late as its retries allow.
Partial answers and progress are formatted for people here, too.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic_core import from_json
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter
from temporalio.exceptions import FailureError

from holdfast.client.errors import EncryptedError, HoldfastError
from holdfast.runtime.text_safety import arguments_line, as_json, format_clock, one_line
from holdfast.schemas import names

# A longer update is left out: each heartbeat repeats it.
MAX_UPDATE_BYTES: Final = 64_000
_FAILURE_CHARS: Final = 300
_NAME_CHARS: Final = 80
_CALL_CHARS: Final = 2_000
_UPDATE_CHARS: Final = 300
UNTAKEN_TIME: Final = timedelta(seconds=5)
_SCHEDULED: Final = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
_STARTED: Final = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
_CALL: Final = re.compile(r"(t[0-9]+c[0-9]+(?:\.[0-9]+)?)(-again[0-9]*)?")


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

    def is_of_turn(self, turn: int | None) -> bool:
        return self.call is None and not self.summary and self.turn in (turn, None)


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
        return int(self.call_id[1:].partition("c")[0])


@dataclass(frozen=True)
class PendingActivity:
    """An activity of a run that has not ended.

    `last_failure` is the failure of the last attempt, `next_attempt_at` the time of the next one,
    `progress` the last update of the call that it executes.
    """

    id: str
    type: str
    since: datetime | None
    queue: str = ""
    attempt: int = 1
    is_started: bool = True
    is_paused: bool = False
    last_failure: str = ""
    next_attempt_at: datetime | None = None
    progress: CallProgress | None = None

    def next_attempt(self) -> str:
        """Return the attempt after a failed one, and its time: `attempt 3 of t1c1 at 14:03:07`.

        Of one that no worker has taken, it names the task queue.
        """
        is_answer, at = self.type == names.GENERATE, self.next_attempt_at
        what = "the model's answer" if is_answer else one_line(self.id, _FAILURE_CHARS)
        if not self.last_failure:
            return f"a worker on task queue {one_line(self.queue, _FAILURE_CHARS)} to take {what}"
        when = f" at {format_clock(at.isoformat())} UTC" if at else " (running)" * self.is_started
        return f"attempt {self.attempt} of {what}{' (paused)' if self.is_paused else when}"


def new_failure_lines(failing: Iterable[PendingActivity], shown: dict[str, str]) -> list[str]:
    """Return a line for each failure that is not in `shown`, the last of each activity; add it.

    An activity that no worker has taken is one too.
    """
    new = [one for one in failing if shown.get(one.id) != one.last_failure]
    shown.update((one.id, one.last_failure) for one in new)
    why = "; the last one failed: "
    return [f"for {one.next_attempt()}{one.last_failure and why + one.last_failure}" for one in new]


def is_untaken(one: PendingActivityInfo) -> bool:
    """Return whether no worker has taken an activity since some seconds: maybe none polls."""
    is_new = one.state == _SCHEDULED and one.attempt == 1 and not one.HasField("last_failure")
    return is_new and datetime.now(UTC) - one.scheduled_time.ToDatetime(UTC) > UNTAKEN_TIME


async def read_activity(one: PendingActivityInfo, converter: DataConverter) -> PendingActivity:
    """Return an activity as Temporal describes it, without what cannot be decrypted here."""
    is_started, failure, update = one.state == _STARTED, "", None
    if one.HasField("last_failure"):
        try:
            error = await converter.decode_failure(one.last_failure)
            failure = error.message if isinstance(error, FailureError) else str(error)
        except EncryptedError as unreadable:
            failure = str(unreadable)
    with suppress(EncryptedError):  # the query of the run reports it
        update = await update_in(one, converter)
    return PendingActivity(
        id=one.activity_id,
        type=one.activity_type.name,
        since=_moment(one, "last_started_time" if is_started else "scheduled_time"),
        queue=one.activity_options.task_queue.name,
        attempt=one.attempt,
        is_started=is_started,
        is_paused=one.paused,
        last_failure=one_line(failure, _FAILURE_CHARS),
        next_attempt_at=None if is_started else _moment(one, "next_attempt_schedule_time"),
        progress=update,
    )


def _moment(one: PendingActivityInfo, field: str) -> datetime | None:
    stamp: Timestamp = getattr(one, field)
    return stamp.ToDatetime(UTC) if one.HasField(field) else None  # type: ignore[arg-type]


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
    if (answer := answer_progress("", value)) is None:
        return None
    return CallProgress(call[1], answer.attempt, {"text": answer.text, "offset": answer.offset})


def answer_text(streaming: AnswerProgress) -> str:
    """Return the model's answer, or its end, without the calls that it is writing."""
    if streaming.composed:
        return composed_text(streaming.text, streaming.offset)
    return f"… {streaming.text}" if streaming.offset else streaming.text


def call_lines(streaming: AnswerProgress) -> list[str]:
    """Return the calls that the model is writing, one per line."""
    return [
        one_line(f"{call.get('tool', '')} {call.get('arguments', '')}", _CALL_CHARS)
        if isinstance(call, Mapping)
        else ""
        for call in streaming.calls
    ]


def progress_line(update: CallProgress) -> str:
    """Return the progress of a call in one line; of a partial text, the end."""
    match update.details:
        case str() as text:
            return one_line(text, _UPDATE_CHARS)
        case {"text": str() as text, "offset": int()}:
            return one_line(text[-_UPDATE_CHARS:], _UPDATE_CHARS)
    return one_line(as_json(update.details), _UPDATE_CHARS)


def composed_text(text: str, offset: int) -> str:
    """Return a composed answer for people; `text` is its end, after `offset` characters."""
    try:
        answer = None if offset else from_json(text, allow_partial="trailing-strings")
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.keys().isdisjoint(("calls", "output")):
        return f"(an answer of {offset + len(text):,} characters so far)" if text else ""
    calls, lines, name = answer.get("calls"), [], ""
    for call in calls if isinstance(calls, list) else ():
        arguments = call if isinstance(call, dict) else {}
        arguments = {name: value for name, value in arguments.items() if value is not None}
        name = one_line(str(arguments.pop("_tool", "")), _NAME_CHARS)
        lines.append(f"{name} {arguments_line(arguments)}".rstrip())
    output = answer.get("output")
    if "output" not in answer:
        # The last call may be incomplete.
        lines[-1:] = [f"{name} …"] if name else []
    elif output is not None:
        lines.append(output if isinstance(output, str) else as_json(output))
    return "\n".join(lines)
