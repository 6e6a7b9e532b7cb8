"""Chat completions as an answer: chunks of a stream, or one whole completion.

Servers vary: some ignore `stream`, some never give a finish reason. By the format, a piece belongs
to the call at its `index`. Servers send no index; index 0 for every call; no id, or one id twice; a
call's name in pieces, or again with every piece; arguments before the name, at another index, or as
an object. Each piece is added to the only call that it can belong to. A `message` is a whole, also
beside a `delta`: it fills what the pieces left out.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.providers.answer.answer_reader import AnswerReader, UsageCounts
from holdfast.providers.answer.call_draft import MAX_NAME_CHARACTERS, CallDraft, arguments_text
from holdfast.providers.answer.call_matching import WholeCall, are_repeated, matched_calls
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import FailedAnswer
from holdfast.providers.json_fields import read_object, read_objects, read_place, read_text
from holdfast.providers.openai.extra_fields import ExtraFields
from holdfast.providers.transport.error_response import error_in_event
from holdfast.schemas.internal.solution import Solution

_DONE = "[DONE]"
_CALLS = "tool_calls"
_OTHER_CHOICE = "the server sent a second choice, with calls: they were not read"
_OTHER_CHOICE_READ = "the server sent the calls in a second choice"
DETAILS_OF_USAGE = ("prompt_tokens_details", "input_tokens_details")
# The names of OpenAI's formats first: gateways pass on those of other providers.
COUNTS: UsageCounts = {
    "input_tokens": ("prompt_tokens", "input_tokens"),
    "output_tokens": ("completion_tokens", "output_tokens"),
    "cached_tokens": ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    "written_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
}


class OpenAIAnswerReader(AnswerReader):
    """One completion, as it arrives."""

    format_name = "chat completion"
    marker = '"choices"'
    whole_endings = (
        *("stop", _CALLS, "tool_call", "function_call", "eos", "eos_token", "end_of_sequence"),
        *("end_turn", "tool_use", "stop_sequence", "complete", "completed", "done"),
    )
    counts = COUNTS

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._by_place: dict[str, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}
        self._last: CallDraft | None = None
        self._extra = ExtraFields()
        # The newest whole message, and the calls of further choices.
        self._whole: dict[str, Any] = {}
        self._other_calls: list[dict[str, Any]] = []
        self._ends_with_calls = False

    def solution(self) -> Solution:
        """Return the whole answer."""
        self._read_whole(self._whole)
        if self._other_calls:
            is_answer = self._ends_with_calls and not self.answer.kept_calls
            self.answer.notices.append(_OTHER_CHOICE_READ if is_answer else _OTHER_CHOICE)
            for call in self._other_calls if is_answer else ():
                self._read_call(call)
        return super().solution()

    def data_beside(self, calls: list[CallDraft]) -> Any:
        return self._extra.beside(calls)

    def read(self, data: str) -> None:
        """Read the data of one event, the word that ends the stream, or a whole completion."""
        if data.strip() == _DONE:
            self.is_finished = self.is_done = True
        else:
            super().read(data)

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read a chunk, or a completion.

        Raises:
            FailedAnswer: the server failed within the answer.
        """
        if not isinstance(value.get("choices"), list):
            return False
        self.answer.model = read_text(value.get("model")) or self.answer.model
        choices = read_objects(value["choices"])
        for holder in (value, value.get("x_groq"), *choices):
            if usage := read_object(read_object(holder).get("usage")):
                self.read_usage(usage, *map(usage.get, DETAILS_OF_USAGE))
        for choice in choices:
            if choice.get("index", 0) in (0, None):
                self._read_choice(choice)
            else:
                message = read_object(choice.get("message") or choice.get("delta"))
                self._other_calls += _calls(message)
        return True

    def _read_choice(self, choice: dict[str, Any]) -> None:
        if error := choice.get("error") and error_in_event({"error": choice["error"]}):
            why = f"the server failed within the answer: {error.message}"
            raise FailedAnswer(why, self.usage)
        message, delta = choice.get("message"), choice.get("delta")
        reason = choice.get("finish_reason")
        self.read_stop(reason)
        self._ends_with_calls |= reason == _CALLS
        if isinstance(delta, dict):
            self._extra.add(delta)
            for text in _texts(delta):
                self.answer.add_text(text)
            calls = _calls(delta)
            known = self.answer.kept_calls if calls and reason else []
            repeated = are_repeated(known, [*map(_whole_call, calls)])
            for call, is_repeated in zip(calls, repeated, strict=True):
                if not is_repeated:
                    self._read_call(call)
        if isinstance(message, dict):
            if not isinstance(delta, dict):
                self.is_finished = True
                # A second choice without an index of its own.
                self._read_whole(self._whole)
                self._whole = {}
            self._whole |= {name: each for name, each in message.items() if each}

    def _read_whole(self, message: dict[str, Any]) -> None:
        """Read a whole message, of which pieces may have arrived before."""
        self._extra.add_missing(message)
        self.answer.add_whole_text("".join(_texts(message)))
        calls = _calls(message)
        wholes = [_whole_call(call) for call in calls]
        found = matched_calls(self.answer.kept_calls, wholes)
        for call, whole, known in zip(calls, wholes, found, strict=True):
            draft = known or self.add_call(whole.name, whole.provider_id)
            draft.identify(whole.provider_id, whole.name)
            # The text of a whole call without arguments is empty.
            if whole.arguments == "" and not draft.has_pieces:
                draft.add_piece("")
            self.answer.add_whole_arguments(draft, whole.arguments)
            self._extra.add_call(draft, call)

    def _read_call(self, call: dict[str, Any]) -> None:
        """Read an item of `tool_calls`; a field of another form counts as absent."""
        place, (name, provider_id, arguments) = read_place(call.get("index")), _whole_call(call)
        text = "" if arguments is None else arguments_text(arguments)
        draft = self._draft_of(place, name, provider_id, text)
        if draft is None:
            draft = self.add_call(name, provider_id)
        elif draft.name and name != draft.name and not draft.has_pieces:
            draft.name = (draft.name + name)[:MAX_NAME_CHARACTERS]
        draft.identify(provider_id, name)
        self._last = draft
        if place is not None:
            self._by_place[place] = draft
        if provider_id:
            self._by_id[provider_id] = draft
        if arguments is not None:
            self.answer.add_arguments(draft, text)
        self._extra.add_call(draft, call)

    def _draft_of(
        self, place: str | None, name: str, provider_id: str, arguments: str
    ) -> CallDraft | None:
        """Return the call to which a piece with these marks belongs; None if it begins one."""
        draft, of_id = self._by_place.get(place or ""), self._by_id.get(provider_id)
        if place is None:
            draft = of_id if provider_id else self._last
        elif draft is None:
            return None if name else of_id
        elif of_id is not None and not draft.may_have_id(provider_id):
            draft = of_id
        if draft is None or not name:
            return draft
        is_known = self.answer.is_tool(name) and self.answer.is_tool(draft.name)
        is_other = (
            not draft.may_have_id(provider_id)
            or (place is None and not provider_id)
            or (name != draft.name and (place is None or is_known))
            or (draft.is_whole and not draft.can_equal(name, arguments))
        )
        return None if is_other else draft


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a message, in the old form, too."""
    calls, old = read_objects(message.get("tool_calls")), message.get("function_call")
    return [*calls, {"index": 0, "function": old}] if isinstance(old, dict) else calls


def _texts(message: dict[str, Any]) -> Iterator[str]:
    for content in (message.get("content"), message.get("refusal")):
        if isinstance(content, str):
            yield content
        elif content:
            yield from (read_text(part.get("text")) for part in read_objects(content))


def _whole_call(call: dict[str, Any]) -> WholeCall:
    function = read_object(call.get("function"))
    return WholeCall.read(function.get("name"), call.get("id"), function.get("arguments"))
