"""The messages of a request as one list: as they were encoded, or as a stricter model takes them.

The templates of some models (Gemma's, Mistral's) take users and answers in turns alone, the user
first, instructions at the beginning alone, and an answer between results and what a user says. A
server that renders one refuses any other order.
"""

import json
from typing import Any

from holdfast.providers.base import Request
from holdfast.providers.content import BEGUN_BY_ANSWER, as_system, encoded

# What the model says between results and a user.
_HEARD = "I have the results."
# As what a model's thoughts are sent back to it, in the formats of which this is the order.
_THOUGHTS = ("reasoning_content", "thinking")

Message = dict[str, Any]


def conversation(request: Request) -> list[bytes]:
    """The messages of a request, the instructions before them, what changes behind them."""
    ask = request.ask
    messages = [*_said("system", ask.instructions), *request.fragments, *_said("user", ask.tail)]
    if not (request.in_turns or request.thoughtless):
        return messages
    made: list[Message] = [json.loads(message) for message in messages]
    if request.thoughtless:
        made = [{key: message[key] for key in message if key not in _THOUGHTS} for message in made]
    return [encoded(message) for message in (in_turns(made) if request.in_turns else made)]


def in_turns(messages: list[Message]) -> list[Message]:
    """The messages, put in turns: neighbours of one role are joined, and what must stand between
    two others is said."""
    made: list[Message] = []
    for message in messages:
        if message["role"] == "system" and made:
            message = {"role": "user", "content": as_system(message["content"])}
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
            made.append({"role": "user", "content": BEGUN_BY_ANSWER})
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
    return [encoded({"role": role, "content": text})] if text else []
