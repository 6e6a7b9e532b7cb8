"""Chat completions as an answer: chunks of a stream, or one whole completion.

Servers vary: some ignore `stream`, some never give a finish reason. By the format, a piece belongs
to the call at its `index`. Servers send no index; index 0 for every call; no id, or one id twice; a
call's name in pieces, or again with every piece; arguments before the name, or as an object. Each
piece is added to the only call that it can belong to.
"""

from typing import Any

from holdfast.providers.answer_reader import (
    AnswerReader,
    arguments_text,
    read_count,
    read_counts,
    read_object,
    read_objects,
    read_text,
)
from holdfast.providers.streamed_answer import MAX_NAME_CHARACTERS, CallDraft, StreamedAnswer
from holdfast.schemas.internal.solution import Solution, Usage

# No part of OpenAI's own format. DeepSeek's and Kimi's models reject a request that does not return
# the reasoning of an answer with it ("Thinking mode", "Tool calls" in DeepSeek's reference), an
# empty one too; other servers pass it to the model again or ignore it.
REASONING = "reasoning_content"

_DONE = "[DONE]"


class OpenAIAnswerReader(AnswerReader):
    """One completion, as it arrives."""

    format_name = "chat completion"
    marker = '"choices"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._by_index: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}
        self._last: CallDraft | None = None

    def solution(self) -> Solution:
        """Return the whole answer, with its reasoning beside it."""
        if self.answer.reasoning.pieces:
            self.answer.provider_data = {REASONING: str(self.answer.reasoning)}
        return super().solution()

    def read(self, data: str) -> None:
        """Read the data of one event, the word that ends the stream, or a whole completion."""
        if data.strip() == _DONE:
            self.is_finished = self.is_done = True
        else:
            super().read(data)

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read a chunk, or a completion."""
        if not isinstance(value.get("choices"), list):
            return False
        self.answer.model = read_text(value.get("model")) or self.answer.model
        if isinstance(value.get("usage"), dict):
            self.answer.usage = read_usage(value["usage"], "prompt", "completion")
        for choice in read_objects(value["choices"]):
            if choice.get("index", 0) not in (0, None):
                continue
            message = choice.get("message")
            is_whole = isinstance(message, dict)
            self._read_delta(read_object(message if is_whole else choice.get("delta")))
            self.read_stop(choice.get("finish_reason"))
            self.is_finished |= is_whole
        return True

    def _read_delta(self, delta: dict[str, Any]) -> None:
        if isinstance(delta.get(REASONING), str):
            self.answer.reasoning.add(delta[REASONING])
        for content in (delta.get("content"), delta.get("refusal")):
            parts = [read_text(part.get("text")) for part in read_objects(content)]
            self.answer.add_text(read_text(content) or "".join(parts))
        for call in read_objects(delta.get("tool_calls")):
            self._read_call(call)
        if isinstance(delta.get("function_call"), dict):
            self._read_call({"index": 0, "function": delta["function_call"]})

    def _read_call(self, call: dict[str, Any]) -> None:
        """Read an item of `tool_calls`; a field of another form counts as absent."""
        function = read_object(call.get("function"))
        index, provider_id = read_count(call.get("index")), read_text(call.get("id")) or None
        name, arguments = read_text(function.get("name")), function.get("arguments")
        arguments = "" if arguments is None else arguments_text(arguments)
        draft = self._last
        if index is not None:
            draft = self._by_index.get(index)
        elif provider_id is not None:
            draft = self._by_id.get(provider_id)
        if draft is None or _is_another_call(draft, index, provider_id, name, arguments):
            draft = self.answer.add_call(name, provider_id)
        else:
            draft.provider_id = draft.provider_id or provider_id
            if not draft.name or (name != draft.name and not draft.arguments.bytes):
                draft.name = (draft.name + name)[:MAX_NAME_CHARACTERS]
        self._last = draft
        if index is not None:
            self._by_index[index] = draft
        if provider_id is not None:
            self._by_id[provider_id] = draft
        self.answer.add_arguments(draft, arguments)


def _is_another_call(
    draft: CallDraft, index: int | None, provider_id: str | None, name: str, arguments: str
) -> bool:
    if not name:
        return False
    if provider_id and draft.provider_id and provider_id != draft.provider_id:
        return True
    if index is None and (provider_id is None or name != draft.name):
        return True
    return bool(arguments) and draft.has_whole_arguments


def read_usage(usage: dict[str, Any], taken: str, made: str) -> Usage:
    """Read the usage, of which the formats name the input `taken`, and the output `made`.

    DeepSeek and Kimi each have a field of their own for cached tokens.
    """
    counts = read_counts(usage) | read_counts(usage.get(f"{taken}_tokens_details"))
    return Usage(
        input_tokens=counts.get(f"{taken}_tokens"),
        output_tokens=counts.get(f"{made}_tokens"),
        cached_tokens=counts.get("cached_tokens", counts.get("prompt_cache_hit_tokens")),
        written_tokens=counts.get("cache_write_tokens"),
    )
