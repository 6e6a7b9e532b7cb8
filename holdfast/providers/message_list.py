"""The messages of a request as one list, made of messages that were encoded once each.

Formats with messages of free order (`openai`, `ollama`) send them as they are. The templates of
some models (Gemma's, Mistral's) take users and answers in turns only, the user first, instructions
at the beginning only, and an answer between results and the user: a server that renders one rejects
any other order. Formats that join all parts of a role (`anthropic`, `gemini`) join the encoded
bytes where two lists of parts meet.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

from holdfast.providers.base import IdForm, ProviderRequest, ToolNames
from holdfast.providers.contents import encode_json, system_text, text_of
from holdfast.providers.json_fields import read_object, read_objects
from holdfast.schemas.base import parsed_or_none
from holdfast.schemas.message import AskedCall, ChatMessage

# The user's first words where some formats and models do not take an answer.
ANSWER_FIRST = "(the conversation begins with an answer)"
# The model's words between results and the user.
_RESULTS_RECEIVED = "I have the results."
# The fields of a model's reasoning in the formats that `alternate_roles` is for.
_REASONING_FIELDS = ("reasoning_content", "thinking")
# The fields that only blocks of thoughts have, in the Messages API and in Converse.
_FIELDS_OF_THOUGHTS = {"thinking", "data", "reasoningContent"}
_CLOSING = b"]}"
# The fields of an answer and of its calls that every server has.
_FIELDS = {"role", "content", "tool_calls"}
_CALL_FIELDS = {"id", "type", "function"}
# The fields of encoded messages that hold the ids of calls.
_ID_FIELDS = ("tool_call_id", "call_id")

Message = dict[str, Any]


def answer_or_result(
    message: ChatMessage,
    names: ToolNames,
    reasoning: str,
    call_fields: Callable[[int, AskedCall], dict[str, Any]],
) -> Message:
    """Return a message that is not the user's; `reasoning` is the field of a model's reasoning."""
    encoded: Message = {"role": message.role, "content": text_of(message.content)}
    if message.role == "tool":
        encoded["tool_call_id"] = message.provider_id or message.call_id
    thoughts = read_object(message.provider_data).get(reasoning)
    if message.role == "assistant" and isinstance(thoughts, str):
        encoded[reasoning] = thoughts
    if message.calls:
        encoded["tool_calls"] = [
            {
                "id": call.provider_id,
                "type": "function",
                "function": {"name": names.to_provider(call.tool), **call_fields(index, call)},
            }
            for index, call in enumerate(message.calls)
        ]
    return encoded


def list_messages(request: ProviderRequest) -> list[bytes]:
    """Return the messages of a request: instructions first, the changing tail last."""
    ask = request.ask
    messages = [*_text("system", ask.instructions), *request.fragments, *_text("user", ask.tail)]
    omitted = {*(_REASONING_FIELDS if request.omits_reasoning else ()), *request.omitted_fields}
    if not (omitted or request.alternates_roles or request.id_form):
        return messages
    decoded: list[Message] = [json.loads(message) for message in messages]
    if omitted:
        decoded = [without_fields(message, omitted) for message in decoded]
    if request.id_form is not None:
        decoded = [with_ids(message, request.id_form) for message in decoded]
    if request.alternates_roles:
        decoded = alternate_roles(decoded)
    return [encode_json(message) for message in decoded]


def with_ids(message: dict[str, Any], form: IdForm) -> dict[str, Any]:
    """Return an encoded message, or an item of it, with ids that fit."""
    fitted: dict[str, Any] = {
        name: form.fitted(message[name]) for name in _ID_FIELDS if name in message
    }
    if "tool_calls" in message:
        calls = message["tool_calls"]
        fitted["tool_calls"] = [{**call, "id": form.fitted(call["id"])} for call in calls]
    return {**message, **fitted}


def fragments_with_ids(fragments: Iterable[bytes], form: IdForm) -> tuple[bytes, ...]:
    return tuple(encode_json(with_ids(json.loads(each), form)) for each in fragments)


def further_fields(fragments: Iterable[bytes]) -> set[str]:
    """Return the names of the fields in encoded answers that not every server of the format has.

    That of an unsigned thought is the signature which it lacks.
    """
    found: set[str] = set()
    for fragment in fragments:
        message = read_object(parsed_or_none(fragment.decode()))
        # Items of the Responses API, which have a type, have only the fields of the format.
        if message.get("role") == "assistant" and "type" not in message:
            found |= message.keys() - _FIELDS
            for part in (*read_objects(message.get("tool_calls")), *_thoughts(message)):
                found |= {"signature"} if "thinking" in part else part.keys() - _CALL_FIELDS
    return found


def _thoughts(message: Message, *, signed: bool = False) -> list[Message]:
    """Return the blocks of unsigned thoughts in an encoded message, and of `signed` ones."""
    blocks = read_objects(message.get("content"))
    if signed:
        return [each for each in blocks if each.keys() & _FIELDS_OF_THOUGHTS]
    return [each for each in blocks if each.keys() == {"type", "thinking"}]


def _without_thoughts(fragment: bytes, *, signed: bool) -> bytes:
    """Return an encoded message without unsigned thoughts, and `signed` ones; or nothing."""
    message = json.loads(fragment)
    if not (thoughts := _thoughts(message, signed=signed)):
        return fragment
    content = [each for each in message["content"] if each not in thoughts]
    return encode_json({**message, "content": content}) if content else b""


def with_thought(fragment: bytes) -> bytes:
    """Return an encoded message; an answer of chat completions without a thought has a blank one.

    Kimi's and DeepSeek's models count an empty one as missing, and accept a space.
    """
    message = json.loads(fragment)
    is_answer = message.get("role") == "assistant" and not isinstance(message["content"], list)
    if not is_answer or message.get("reasoning_content"):
        return fragment
    return encode_json({**message, "reasoning_content": " "})


def without_fields(message: Message, names: Collection[str]) -> Message:
    """Return a message without fields of these names, its own and its calls'."""
    kept = {key: value for key, value in message.items() if key not in names}
    if "tool_calls" in kept:
        kept["tool_calls"] = [without_fields(call, names) for call in kept["tool_calls"]]
    return kept


def alternate_roles(messages: list[Message]) -> list[Message]:
    """Return the messages in turns: neighbours of one role joined, missing turns inserted."""
    turns: list[Message] = []
    for message in messages:
        if message["role"] == "system" and turns:
            message = {"role": "user", "content": system_text(message["content"])}
        last = turns[-1] if turns else {"role": "system"}
        match last["role"], message["role"]:
            case ("user", "user") | ("assistant", "assistant"):
                turns[-1] = _joined(last, message)
                continue
            case "tool", "user":
                turns.append({"role": "assistant", "content": _RESULTS_RECEIVED})
            case "system", "assistant":
                turns.append({"role": "user", "content": ANSWER_FIRST})
        turns.append(message)
    return turns


def encode_parts(opening: bytes, parts: list[Any]) -> tuple[bytes, ...]:
    """Encode a message of these parts; without parts, none.

    `opening` is the beginning of all messages of one role, up to the bracket of their list of
    parts, such as `{"role":"user","content":[`.
    """
    return (opening + encode_json(parts)[1:-1] + _CLOSING,) if parts else ()


def merge_neighbours(fragments: Iterable[bytes], openings: Sequence[bytes]) -> list[bytes]:
    """Join each run of neighbours with the same opening, in linear time.

    No opening is the beginning of another one. A fragment without an opening is left as it is.
    """

    def opening_of(fragment: bytes) -> bytes:
        return next((each for each in openings if fragment.startswith(each)), b"")

    messages: list[bytes] = []
    for opening, run in groupby(fragments, opening_of):
        neighbours = list(run)
        # Most messages have no neighbour: megabytes of them are not copied in every turn.
        if opening and len(neighbours) > 1:
            parts = (each[len(opening) : -len(_CLOSING)] for each in neighbours)
            neighbours = [opening + b",".join(parts) + _CLOSING]
        messages += neighbours
    return messages


def joined_messages(
    request: ProviderRequest,
    openings: tuple[bytes, bytes],
    texts: Callable[[str], list[Any]],
    mark: bytes = b"",
    closing: bytes = _CLOSING,
) -> list[bytes]:
    """Return the messages of a request: the user first, neighbours joined, the changing tail last.

    `openings` are those of the user and of the model. A `mark` is put before the `closing` of the
    last two messages of the user: the ends of this request and of the one before it.
    """
    user, model = openings
    fragments = list(request.fragments)
    if request.omits_reasoning or "signature" in request.omitted_fields:
        changed = (_without_thoughts(each, signed=request.omits_reasoning) for each in fragments)
        fragments = [*filter(None, changed)]
    if fragments and fragments[0].startswith(model):
        fragments[:0] = encode_parts(user, texts(ANSWER_FIRST))
    messages = merge_neighbours(fragments, openings)
    if mark:
        users = [index for index, each in enumerate(messages) if each.startswith(user)]
        for index in users[-2:]:
            messages[index] = messages[index].removesuffix(closing) + mark + closing
    tail = encode_parts(user, texts(request.ask.tail or ""))
    return [*messages[:-1], *merge_neighbours([*messages[-1:], *tail], openings)]


def _joined(one: Message, other: Message) -> Message:
    contents = [each["content"] for each in (one, other) if each["content"]]
    content: Any = "\n\n".join(contents) if all(isinstance(each, str) for each in contents) else []
    if isinstance(content, list):
        for each in contents:
            content += [{"type": "text", "text": each}] if isinstance(each, str) else each
    images = [*one.get("images", ()), *other.get("images", ())]
    return {**one, **other, "content": content} | ({"images": images} if images else {})


def _text(role: str, text: str | None) -> list[bytes]:
    return [encode_json({"role": role, "content": text})] if text else []
