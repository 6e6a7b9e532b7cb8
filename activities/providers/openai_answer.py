"""Chat completions, on the way back: chunks of a stream, or one whole completion, into an answer.

The format is what servers make of it: some ignore `stream`, some never say how an answer ended.
Whatever does not have its form is passed over, as long as anything has.
"""

import json
from typing import Any

from activities.providers.answer import Answer
from activities.providers.base import CutOff, Unreadable
from activities.providers.openai_calls import Calls
from activities.providers.refusal import refusal_in
from schemas.solution import Solution, StopReason, Usage

_DONE = "[DONE]"
_MAX_QUOTED_CHARACTERS = 200
_STOP: dict[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filtered",
}


class Completion:
    """One completion, as it arrives."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls = Calls(answer)
        self._stop: StopReason | None = None
        self._recognised = False
        self._foreign = ""
        self.is_finished = False
        self.is_done = False

    def take(self, data: str) -> None:
        """The data of one event, or a whole completion.

        Raises:
            Refused: the data is an error.
            Unreadable: it is not JSON.
        """
        if data.strip() == _DONE:
            self.is_finished = self.is_done = True
            return
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise Unreadable(_quoted(data)) from None
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        refusal = refusal_in(value)
        if refusal is not None:
            raise refusal
        if isinstance(value, dict) and isinstance(value.get("choices"), list):
            self._chunk(value)
        else:
            self._foreign = self._foreign or data

    def end(self, rest: str, stray: str) -> None:
        """No more comes. `rest` stood after the last whole event, and may be cut off; `stray` is
        what stood where no event can."""
        try:
            if rest:
                self.take(rest)
        except Unreadable:
            is_begun = rest.startswith("{") and '"choices"' in rest
            self._foreign = self._foreign or ("" if is_begun else rest)
        self._foreign = self._foreign or stray

    def stop_reading(self, why: str) -> None:
        """The answer is too large: what came so far is all of it."""
        self._answer.notices.append(why)
        self._stop = "length"
        self.is_finished = self.is_done = True

    def solution(self) -> Solution:
        """The whole answer.

        Raises:
            CutOff: it is not whole.
            Unreadable: nothing in it was a completion.
        """
        if not self.is_finished and self._foreign and not self._recognised:
            raise Unreadable(_quoted(self._foreign))
        if not self.is_finished:
            raise CutOff("the answer broke off before its end")
        return self._answer.solution(self._stop)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        self._recognised = True
        if isinstance(chunk.get("model"), str):
            self._answer.model = chunk["model"]
        if isinstance(chunk.get("usage"), dict):
            self._answer.usage = _usage(chunk["usage"])
        for choice in chunk["choices"]:
            if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        message = choice.get("message")
        delta = choice.get("delta")
        if isinstance(message, dict):
            self._delta(message)
            self.is_finished = True
        elif isinstance(delta, dict):
            self._delta(delta)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.is_finished = True
            self._stop = _STOP.get(reason)

    def _delta(self, delta: dict[str, Any]) -> None:
        self._answer.say(_text(delta.get("content")))
        self._answer.say(_text(delta.get("refusal")))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._calls.take(call)
        if isinstance(delta.get("function_call"), dict):
            self._calls.take({"index": 0, "function": delta["function_call"]})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details")
    return Usage(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens") if isinstance(details, dict) else None),
    )


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _quoted(data: str) -> str:
    short = " ".join(data[: 2 * _MAX_QUOTED_CHARACTERS].split())[:_MAX_QUOTED_CHARACTERS]
    return f"the answer is no chat completion; it begins: {short}"
