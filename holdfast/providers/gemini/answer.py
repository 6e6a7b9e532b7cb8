"""A Gemini answer: events of a stream, or a whole answer.

Every event has the form of a whole answer, and holds more of its parts. A call comes whole, its
arguments an object, which is absent where it is empty; newer models give it an id, older ones none.
The last event has the reason why the model stopped.
"""

from typing import Any, ClassVar

from holdfast.providers.answer.answer_reader import AnswerReader, UsageCounts
from holdfast.providers.answer.bounded_text import well_formed
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import WholeCall
from holdfast.providers.base import ProviderRefused
from holdfast.providers.json_fields import read_counts, read_object, read_objects, read_text
from holdfast.providers.transport.error_response import shortened

_FIELDS = ("candidates", "promptFeedback", "usageMetadata")
# Arguments by path, of the option `streamFunctionCallArguments`.
_IN_PARTS = ("partialArgs", "willContinue")
_PARTS_NOT_READ = "Gemini sent a call's arguments in parts, which are not read"


class GeminiAnswerReader(AnswerReader):
    """One answer, as it arrives."""

    format_name = "Gemini answer"
    marker = '"candidates"'
    whole_endings = ("stop",)
    # The input of Google's own tools is input, and reasoning is output.
    counts: ClassVar[UsageCounts] = {
        "input_tokens": (("promptTokenCount", "toolUsePromptTokenCount"),),
        "output_tokens": (("candidatesTokenCount", "thoughtsTokenCount"),),
        "cached_tokens": ("cachedContentTokenCount",),
    }
    # The request lacks what it must have, or the model called too often; or no reason is given.
    refused_endings = ("missing_thought_signature", "too_many_tool_calls", "other")

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read more of the answer, or the whole of it.

        Raises:
            ProviderRefused: the request was blocked.
        """
        if not any(isinstance(value.get(name), dict | list) for name in _FIELDS):
            return False
        self.answer.model = read_text(value.get("modelVersion")) or self.answer.model
        if usage := read_counts(value.get("usageMetadata")):
            self.read_usage({"candidatesTokenCount": 0} | usage)  # it is absent where it is zero
        for candidate in read_objects(value.get("candidates")):
            if candidate.get("index", 0) in (0, None):
                self._read_candidate(candidate)
        feedback = read_object(value.get("promptFeedback"))
        reason = read_text(feedback.get("blockReason"))
        if reason and not value.get("candidates"):
            # An error: the same request would be blocked again.
            message = read_text(feedback.get("blockReasonMessage"))
            why = f"the request was blocked, {reason}"
            raise ProviderRefused(400, shortened(f"{why}: {message}" if message else why))
        return True

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return the parts of the answer, if any is signed."""
        parts = self.order.items(calls)
        return parts if any("signature" in part for part in parts) else None

    def _read_candidate(self, candidate: dict[str, Any]) -> None:
        reason = read_text(candidate.get("finishReason"))
        if reason != "FINISH_REASON_UNSPECIFIED":
            self.read_stop(reason, read_text(candidate.get("finishMessage")))
        parts = read_objects(read_object(candidate.get("content")).get("parts"))
        # A part may also be a summary of the reasoning, which is no answer.
        parts = [part for part in parts if part.get("thought") is not True]
        calls = [_whole_call(part["functionCall"]) for part in parts if "functionCall" in part]
        drafts = iter(self.add_whole_calls(calls, is_closing=bool(reason)))
        for part in parts:
            signature = well_formed(read_text(part.get("thoughtSignature")))
            signed = {"signature": signature} if signature else {}
            if "functionCall" not in part:
                self.add_text(read_text(part.get("text")), **signed)
            elif (draft := next(drafts)) is not None:
                self.order.add("call", call=draft, **signed)
                if (
                    _is_in_parts(part["functionCall"])
                    and _PARTS_NOT_READ not in self.answer.notices
                ):
                    self.answer.notices.append(_PARTS_NOT_READ)


def _is_in_parts(call: Any) -> bool:
    return any(name in read_object(call) for name in _IN_PARTS)


def _whole_call(call: Any) -> WholeCall:
    call = read_object(call)
    arguments = None if _is_in_parts(call) else call.get("args") or {}
    return WholeCall.read(call.get("name"), call.get("id"), arguments)
