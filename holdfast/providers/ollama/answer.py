"""An Ollama chat as an answer: pieces of one message, or the whole of it.

A call comes whole, its arguments an object. Newer servers give it an id, older ones none.
"""

from typing import Any

from holdfast.providers.answer_reader import AnswerReader, read_counts, read_objects, read_text
from holdfast.schemas.internal.solution import Usage

# The server loaded or unloaded the model without a request to it.
_NO_ANSWER = ("load", "unload")


class OllamaAnswerReader(AnswerReader):
    """One Ollama chat, as it arrives."""

    format_name = "Ollama chat"
    marker = '"model"'

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read a piece of the message, the last one `done`; in old servers it has no message."""
        message = value.get("message")
        if "done" not in value or not (isinstance(message, dict) or self._recognised):
            return False
        self.answer.model = read_text(value.get("model")) or self.answer.model
        if isinstance(message, dict):
            if thinking := read_text(message.get("thinking")):
                self.answer.reasoning.add(thinking)
            self.answer.add_text(read_text(message.get("content")))
            for call in read_objects(message.get("tool_calls")):
                function = call.get("function")
                if isinstance(function, dict):
                    draft = self.add_call(function.get("name"), call.get("id"))
                    self.add_arguments(draft, function.get("arguments"))
        if value.get("done") is True:
            self.is_done = True
            self.read_stop(value.get("done_reason"))
            # Old servers give no reason.
            self.is_finished = value.get("done_reason") not in _NO_ANSWER
            counts = read_counts(value)
            self.answer.usage = Usage(
                input_tokens=counts.get("prompt_eval_count"), output_tokens=counts.get("eval_count")
            )
            # Only reasoning that led to calls is sent back, with them.
            if self.answer.calls and self.answer.reasoning.pieces:
                self.answer.provider_data = {"thinking": str(self.answer.reasoning)}
        return True
