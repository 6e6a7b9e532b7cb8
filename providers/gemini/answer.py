"""A Gemini answer, on the way back: events of a stream, or a whole answer, into an answer.

Every event has the form of a whole answer, and holds more of its parts. A call comes whole, its
arguments an object; newer models give it an id, older ones none. The last event says why the model
stopped.
"""

from typing import Any

from holdfast.providers.answer_reading import AnswerReader, arguments_text, read_count, read_text
from holdfast.providers.base import ProviderRefused
from holdfast.providers.gemini.parts import PartOrder
from holdfast.providers.streamed_answer import StreamedAnswer, well_formed
from holdfast.providers.transport.error_response import shortened
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

_FORM = ("candidates", "promptFeedback", "usageMetadata")
_STOP: dict[str, StopReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "ESCALATION": "filtered",
    "PUP_LIMITED_DISABLED": "filtered",
    "MODEL_ARMOR": "filtered",
}
_USUAL = ("STOP", "MAX_TOKENS")
# The model wrote a call that Gemini itself could not read. What stands beside it may be a piece of
# it, so none of the answer is taken for one: the run tells the model that its answer was empty.
_BROKEN = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")


class GeminiAnswerReader(AnswerReader):
    """One answer, as it arrives."""

    format_name = "Gemini answer"
    marker = '"candidates"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._order = PartOrder()
        self._reason = ""

    def read_event(self, value: dict[str, Any]) -> bool:
        """More of the answer, or the whole of it.

        Raises:
            Refused: there is none, because of what was asked.
        """
        if not any(isinstance(value.get(name), dict | list) for name in _FORM):
            return False
        if isinstance(value.get("modelVersion"), str):
            self.answer.model = value["modelVersion"]
        if isinstance(value.get("usageMetadata"), dict):
            self.answer.usage = _usage(value["usageMetadata"])
        candidates, feedback = value.get("candidates"), value.get("promptFeedback")
        for candidate in candidates if isinstance(candidates, list) else ():
            if isinstance(candidate, dict) and candidate.get("index", 0) in (0, None):
                self._candidate(candidate)
        if isinstance(feedback, dict) and read_text(feedback.get("blockReason")) and not candidates:
            raise _blocked(feedback)
        return True

    def solution(self) -> Solution:
        """The whole answer; an empty one where it holds a broken call."""
        self.answer.provider_data = self._order.data()
        solution = super().solution()
        if self._reason not in _BROKEN:
            return solution
        nothing: dict[str, Any] = {"text": "", "calls": [], "provider_data": None}
        return solution.model_copy(update=nothing | {"stop_reason": "stop"})

    def _candidate(self, candidate: dict[str, Any]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            # A part may also be a summary of thoughts, which are no answer.
            if isinstance(part, dict) and part.get("thought") is not True:
                self._part(part)
        reason = read_text(candidate.get("finishReason"))
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self._finish(reason, read_text(candidate.get("finishMessage")))

    def _part(self, part: dict[str, Any]) -> None:
        signature = well_formed(read_text(part.get("thoughtSignature")))
        if isinstance(part.get("functionCall"), dict):
            self._call(part["functionCall"])
            self._order.call(signature)
        else:
            piece = read_text(part.get("text"))
            self.answer.add_text(piece)
            self._order.text(well_formed(piece), signature)

    def _call(self, call: dict[str, Any]) -> None:
        draft = self.answer.add_call(read_text(call.get("name")), read_text(call.get("id")) or None)
        self.answer.add_arguments(draft, arguments_text(call.get("args")))

    def _finish(self, reason: str, message: str) -> None:
        self.is_finished = True
        self._reason = reason
        self.stop_reason = _STOP.get(reason)
        notice = _with(f"Gemini ended the answer with {reason}", message)
        if reason not in _USUAL and notice not in self.answer.notices:
            self.answer.notices.append(notice)


def _blocked(feedback: dict[str, Any]) -> ProviderRefused:
    """As an error: asked again, the same would be blocked again."""
    told = f"the request was blocked, {feedback['blockReason']}"
    return ProviderRefused(400, _with(told, read_text(feedback.get("blockReasonMessage"))))


def _with(told: str, message: str) -> str:
    return shortened(f"{told}: {message}" if message else told)


def _usage(usage: dict[str, Any]) -> Usage:
    """Thoughts are output, and what was read for Google's own tools is input. A count that is
    nothing is not written."""
    read = _sum(usage, "promptTokenCount", "toolUsePromptTokenCount")
    said = _sum(usage, "candidatesTokenCount", "thoughtsTokenCount")
    return Usage(
        input_tokens=read,
        output_tokens=0 if said is None and read is not None else said,
        cached_tokens=read_count(usage.get("cachedContentTokenCount")),
    )


def _sum(usage: dict[str, Any], *names: str) -> int | None:
    counts = [read_count(usage.get(name)) for name in names]
    known = [each for each in counts if each is not None]
    return sum(known) if known else None
