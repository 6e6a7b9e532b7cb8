"""A Gemini answer: events of a stream, or a whole answer.

Every event has the form of a whole answer, and holds more of its parts. A call comes whole, its
arguments an object; newer models give it an id, older ones none. The last event has the reason why
the model stopped.
"""

from typing import Any

from holdfast.providers.answer_reader import (
    AnswerReader,
    read_counts,
    read_object,
    read_objects,
    read_text,
)
from holdfast.providers.base import ProviderRefused
from holdfast.providers.streamed_answer import well_formed
from holdfast.providers.transport.error_response import shortened
from holdfast.schemas.internal.solution import Solution, Usage

_INPUT = ("promptTokenCount", "toolUsePromptTokenCount")
_OUTPUT = ("candidatesTokenCount", "thoughtsTokenCount")
_FIELDS = ("candidates", "promptFeedback", "usageMetadata")
_USUAL = ("STOP", "MAX_TOKENS")
# The model wrote a call that Gemini itself could not read; the rest may be a piece of it.
_BROKEN = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")


class GeminiAnswerReader(AnswerReader):
    """One answer, as it arrives."""

    format_name = "Gemini answer"
    marker = '"candidates"'

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read more of the answer, or the whole of it.

        Raises:
            ProviderRefused: the request was blocked.
        """
        if not any(isinstance(value.get(name), dict | list) for name in _FIELDS):
            return False
        self.answer.model = read_text(value.get("modelVersion")) or self.answer.model
        if isinstance(value.get("usageMetadata"), dict):
            self.answer.usage = _usage(value["usageMetadata"])
        for candidate in read_objects(value.get("candidates")):
            if candidate.get("index", 0) in (0, None):
                self._read_candidate(candidate)
        feedback = read_object(value.get("promptFeedback"))
        reason = read_text(feedback.get("blockReason"))
        if reason and not value.get("candidates"):
            # An error: the same request would be blocked again.
            message = read_text(feedback.get("blockReasonMessage"))
            raise ProviderRefused(400, _notice(f"the request was blocked, {reason}", message))
        return True

    def solution(self) -> Solution:
        """Return the whole answer, with its signatures beside it."""
        parts = self.order.items()
        is_signed = any("signature" in part for part in parts)
        self.answer.provider_data = parts if is_signed else None
        return super().solution()

    def _read_candidate(self, candidate: dict[str, Any]) -> None:
        for part in read_objects(read_object(candidate.get("content")).get("parts")):
            # A part may also be a summary of the reasoning, which is no answer.
            if part.get("thought") is True:
                continue
            signature = well_formed(read_text(part.get("thoughtSignature")))
            signed = {"signature": signature} if signature else {}
            call = part.get("functionCall")
            if isinstance(call, dict):
                draft = self.add_call(call.get("name"), call.get("id"))
                self.add_arguments(draft, call.get("args"))
                self.order.add("call", **signed)
            else:
                self.add_text(read_text(part.get("text")), **signed)
        reason = read_text(candidate.get("finishReason"))
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self.read_stop(reason)
            self.is_broken |= reason in _BROKEN
            message = read_text(candidate.get("finishMessage"))
            notice = _notice(f"Gemini ended the answer with {reason}", message)
            if reason not in _USUAL and notice not in self.answer.notices:
                self.answer.notices.append(notice)


def _notice(text: str, message: str) -> str:
    return shortened(f"{text}: {message}" if message else text)


def _usage(usage: dict[str, Any]) -> Usage:
    """Read the counts, of which zero is absent.

    Reasoning is output, and the input of Google's own tools is input.
    """
    counts = read_counts(usage)
    inputs = [counts[name] for name in _INPUT if name in counts]
    outputs = [counts[name] for name in _OUTPUT if name in counts]
    return Usage(
        input_tokens=sum(inputs) if inputs else None,
        output_tokens=sum(outputs) if inputs or outputs else None,
        cached_tokens=counts.get("cachedContentTokenCount"),
    )
