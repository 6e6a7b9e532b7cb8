"""The messages of a request as one list: as they were encoded, or as a stricter model takes them.

The templates of some models (Gemma's, Mistral's) take users and answers in turns alone, the user
first, instructions at the beginning alone, and an answer between results and what a user says. A
server that renders one refuses any other order.
"""

import json
from typing import Any

from holdfast.providers.base import ProviderRequest
from holdfast.providers.content import ANSWER_FIRST, encode_json, system_text

# What the model says between results and a user.
_HEARD = "I have the results."
# As what a model's thoughts are sent back to it, in the formats of which this is the order.
_THOUGHTS = ("reasoning_content", "thinking")

Message = dict[str, Any]


def list_messages(request: ProviderRequest) -> list[bytes]:
    """The messages of a request, the instructions before them, what changes behind them."""
    ask = request.ask
    messages = [*_said("system", ask.instructions), *request.fragments, *_said("user", ask.tail)]
    if not (request.alternates_roles or request.omits_reasoning):
        return messages
    made: list[Message] = [json.loads(message) for message in messages]
    if request.omits_reasoning:
        made = [{key: message[key] for key in message if key not in _THOUGHTS} for message in made]
    return [
        encode_json(message)
        for message in (alternate_roles(made) if request.alternates_roles else made)
    ]


def alternate_roles(messages: list[Message]) -> list[Message]:
    """The messages, put in turns: neighbours of one role are joined, and what must stand between
    two others is said."""
    made: list[Message] = []
    for message in messages:
        if message["role"] == "system" and made:
            message = {"role": "user", "content": system_text(message["content"])}
        _append(message, made)
    return made


def _append(message: Message, made: list[Message]) -> None:
    last = made[-1] if made else {"role": "system"}
    match last["role"], message["role"]:
        case ("user", "user") | ("assistant", "assistant"):
            made[-1] = _joined(last, message)
            return
        case "tool", "user":
            made.append({"role": "assistant", "content": _HEARD})
        case "system", "assistant":
            made.append({"role": "user", "content": ANSWER_FIRST})
    made.append(message)


def _joined(one: Message, other: Message) -> Message:
    contents = [each["content"] for each in (one, other) if each["content"]]
    images = [*one.get("images", ()), *other.get("images", ())]
    content: Any = [part for each in contents for part in _parts(each)]
    if all(isinstance(each, str) for each in contents):
        content = "\n\n".join(contents)
    return {**one, **other, "content": content} | ({"images": images} if images else {})


def _parts(content: Any) -> list[Message]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _said(role: str, text: str | None) -> list[bytes]:
    return [encode_json({"role": role, "content": text})] if text else []
