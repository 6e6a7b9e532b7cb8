"""An Ollama chat as an answer: pieces of one message, or the whole of it.

A call comes whole, its arguments an object. Newer servers give it an id, older ones none.
"""

from typing import Any, ClassVar

from holdfast.providers.answer.answer_reader import AnswerReader, UsageCounts
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import WholeCall
from holdfast.providers.json_fields import read_object, read_objects, read_text

# The server loaded or unloaded the model without a request to it.
_NO_ANSWER = ("load", "unload")


class OllamaAnswerReader(AnswerReader):
    """One Ollama chat, as it arrives."""

    format_name = "Ollama chat"
    marker = '"model"'
    whole_endings = ("stop", "tool_calls", *_NO_ANSWER)
    counts: ClassVar[UsageCounts] = {
        "input_tokens": ("prompt_eval_count",),
        "output_tokens": ("eval_count",),
    }

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read a piece of the message, the last one `done`; in old servers it has no message."""
        message = value.get("message")
        if "done" not in value or not (isinstance(message, dict) or self._recognised):
            return False
        self.answer.model = read_text(value.get("model")) or self.answer.model
        is_done = value.get("done") is True
        if isinstance(message, dict):
            if thinking := read_text(message.get("thinking")):
                self.answer.reasoning.add(thinking)
            self.answer.add_text(read_text(message.get("content")))
            calls = [
                WholeCall.read(function.get("name"), call.get("id"), function.get("arguments"))
                for call in read_objects(message.get("tool_calls"))
                if (function := read_object(call.get("function")))
            ]
            self.add_whole_calls(calls, is_closing=is_done)
        if is_done:
            self.is_done = True
            self.read_stop(value.get("done_reason"))
            # Old servers give no reason.
            self.is_finished = value.get("done_reason") not in _NO_ANSWER
            self.read_usage(value)
        return True

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return the reasoning that led to calls: no other is sent back."""
        reasoning = self.answer.reasoning
        return {"thinking": str(reasoning)} if calls and reasoning.pieces else None
