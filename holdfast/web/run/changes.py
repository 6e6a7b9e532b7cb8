"""`GET /run/{run}/changes`: an event stream of a run's progress and of the text of its model.

    changed   the run has progressed; `answered`: the streamed answer is in the log now
    token     more of an answer: {key, turn, attempt, text, calls}; `gap`: some text is missing
              before it; `whole`: all of it so far
    update    the progress of a running call: {call, text}
    trouble   the run cannot be read now: {text}
    over      no more events: the run has ended

`id` is the run's position; a client that reconnects with it misses nothing.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.client.run import Run
from holdfast.client.stream.deltas import CallUpdates
from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.client.stream.live_text import answer_text, call_lines, progress_line
from holdfast.runtime.text_safety import clean
from holdfast.web.http.streaming import frame
from holdfast.web.run.snapshot import place


async def run_frames(run: Run, seen: str) -> AsyncGenerator[str, None]:
    """Yield the frames of a run until it ends; `seen` is the position of the page."""
    answer, updates, is_over, is_troubled = SentAnswer(), CallUpdates(), False, False
    async with aclosing(run.looks()) as looks:
        while not is_over:
            look = await anext(looks)
            if isinstance(look, HoldfastError):
                if not is_troubled:
                    yield _frame("trouble", {"text": clean(str(look))})
                is_over, is_troubled = look.exit_code != UNREACHABLE, True
                continue
            is_over, is_troubled = look.closed, False
            here, is_answered = place(*look.position, look.attempts), answer.is_over(look.streaming)
            found = list[str]()
            if here != seen or is_answered:
                seen = here
                found.append(_frame("changed", {"answered": is_answered}, here))
            if look.streaming is not None and (more := answer.more(look.streaming)):
                found.append(_frame("token", more))
            # All pages load the news at once: new text precedes that, but follows an older answer.
            for each in found if is_answered else reversed(found):
                yield each
            for one in updates.new(look.updates):
                yield _frame("update", {"call": one.call_id, "text": progress_line(one)})
    yield _frame("over", {})


def _frame(event: str, data: dict[str, Any], id_: str = "") -> str:
    return frame(event, json.dumps(data), id_)


class SentAnswer:
    """The part of a streamed answer that was sent."""

    def __init__(self) -> None:
        self._key, self._end, self._has_gap = "", 0, False
        self._calls: list[Any] = []

    def is_over(self, streaming: AnswerProgress | None) -> bool:
        """Report whether the previous answer is complete: there is another one, or none."""
        key = "" if streaming is None else streaming.key
        over = self._key not in ("", key)
        if key != self._key:
            self._key, self._end, self._has_gap, self._calls = key, 0, False, []
        return over

    def more(self, streaming: AnswerProgress) -> dict[str, Any]:
        """Return the new part of an answer, or nothing.

        In composed calling, it is all of it; so it is where text was missing, and is there now.
        """
        start, is_filled = max(self._end, streaming.offset), self._has_gap and not streaming.offset
        text, new = streaming.text[start - streaming.offset :], dict[str, Any]()
        if text or is_filled:
            new = {"text": clean(text), "gap": start > self._end}
            if streaming.composed or is_filled:
                new = {"whole": clean(answer_text(streaming))}
            self._has_gap = not is_filled and (self._has_gap or start > self._end)
            self._end = start + len(text)
        if streaming.calls != self._calls:
            self._calls = streaming.calls
            new["calls"] = call_lines(streaming)
        is_of_turn = streaming.call is None and not streaming.summary
        about = {"key": streaming.key, "turn": streaming.turn if is_of_turn else None}
        return {**about, "attempt": streaming.attempt, **new} if new else {}
