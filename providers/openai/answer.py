"""Chat completions, on the way back: chunks of a stream, or one whole completion, into an answer.

The format is what servers make of it: some ignore `stream`, some never say how an answer ended.
"""

from typing import Any

from holdfast.providers.answer_reading import AnswerReader, read_count
from holdfast.providers.openai.calls import StreamedCalls
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

# No part of OpenAI's own format. DeepSeek's and Kimi's models refuse a request that does not bring
# the thoughts of an answer back with it ("Thinking mode", "Tool calls" in DeepSeek's reference),
# an empty one too; other servers give them to the model again or pass them over.
REASONING = "reasoning_content"

_DONE = "[DONE]"
_STOP: dict[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filtered",
}


class OpenAIAnswerReader(AnswerReader):
    """One completion, as it arrives."""

    format_name = "chat completion"
    marker = '"choices"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._calls = StreamedCalls(answer)

    def solution(self) -> Solution:
        """The whole answer, with its thoughts beside it.

        Raises:
            CutOff: it is not whole.
            Unreadable: nothing in it was of the format.
        """
        if self.answer.has_reasoning:
            self.answer.provider_data = {REASONING: self.answer.reasoning}
        return super().solution()

    def read(self, data: str) -> None:
        """The data of one event, the word that ends the stream, or a whole completion."""
        if data.strip() == _DONE:
            self.is_finished = self.is_done = True
        else:
            super().read(data)

    def read_event(self, value: dict[str, Any]) -> bool:
        """A chunk, or a completion."""
        if not isinstance(value.get("choices"), list):
            return False
        self._chunk(value)
        return True

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if isinstance(chunk.get("model"), str):
            self.answer.model = chunk["model"]
        if isinstance(chunk.get("usage"), dict):
            self.answer.usage = _usage(chunk["usage"])
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
            self.stop_reason = _STOP.get(reason)

    def _delta(self, delta: dict[str, Any]) -> None:
        if isinstance(delta.get(REASONING), str):
            self.answer.add_reasoning(delta[REASONING])
        self.answer.add_text(_text(delta.get("content")))
        self.answer.add_text(_text(delta.get("refusal")))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._calls.read(call)
        if isinstance(delta.get("function_call"), dict):
            self._calls.read({"index": 0, "function": delta["function_call"]})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: dict[str, Any]) -> Usage:
    """DeepSeek's models and Kimi's told what was cached before OpenAI had a place for it, each in
    its own."""
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached = (
        details.get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"),
    )
    return Usage(
        input_tokens=read_count(usage.get("prompt_tokens")),
        output_tokens=read_count(usage.get("completion_tokens")),
        cached_tokens=next(
            (said for each in cached if (said := read_count(each)) is not None), None
        ),
        written_tokens=read_count(details.get("cache_write_tokens")),
    )
