"""An Ollama chat, on the way back: pieces of one message, or the whole of it, into an answer.

A call comes whole, its arguments an object. Newer servers give it an id, older ones none.
"""

from typing import Any

from holdfast.providers.answer_reading import AnswerReader, arguments_text, read_count, read_text
from holdfast.schemas.internal.solution import Usage

# The server took the model in or put it away, and asked it nothing.
_NOT_ASKED = ("load", "unload")


class OllamaAnswerReader(AnswerReader):
    """One answer, as it arrives."""

    format_name = "Ollama chat"
    marker = '"model"'

    def read_event(self, value: dict[str, Any]) -> bool:
        """A piece of the message, the last one `done`. In old servers that one has no message."""
        message = value.get("message")
        if not isinstance(message, dict) and not self._recognised:
            return False
        if isinstance(value.get("model"), str):
            self.answer.model = value["model"]
        if isinstance(message, dict):
            self._message(message)
        if value.get("done") is True:
            self._end(value)
        return True

    def _message(self, message: dict[str, Any]) -> None:
        if read_text(message.get("thinking")):
            self.answer.add_reasoning(message["thinking"])
        self.answer.add_text(read_text(message.get("content")))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and isinstance(call.get("function"), dict):
                self._call(call, call["function"])

    def _call(self, call: dict[str, Any], function: dict[str, Any]) -> None:
        draft = self.answer.add_call(
            read_text(function.get("name")), read_text(call.get("id")) or None
        )
        self.answer.add_arguments(draft, arguments_text(function.get("arguments")))

    def _end(self, value: dict[str, Any]) -> None:
        reason = value.get("done_reason")
        self.is_done = True
        self.is_finished = reason not in _NOT_ASKED
        self.stop_reason = "length" if reason == "length" else None
        self.answer.usage = Usage(
            input_tokens=read_count(value.get("prompt_eval_count")),
            output_tokens=read_count(value.get("eval_count")),
        )
        # Those that led to calls are sent back with them.
        if self.answer.calls and self.answer.has_reasoning:
            self.answer.provider_data = {"thinking": self.answer.reasoning}
