"""A conversation in composed calling, as a provider is shown it: without calls and results.

There the model's calls stand in the text of its answer, and the provider is offered no tools. What
it would take for a call or for the result of one is said in words, so that no format needs to know.
"""

from holdfast.providers.base import EncodedMessage, Encoder
from holdfast.schemas.agent import Calling
from holdfast.schemas.message import ChatMessage, Content, TextPart


def encoder_for(calling: Calling, encode: Encoder) -> Encoder:
    """How messages are encoded where models call tools in this way."""
    if calling == "native":
        return encode

    def composed(message: ChatMessage) -> EncodedMessage:
        return encode(without_native_calls(message))

    return composed


def without_native_calls(message: ChatMessage) -> ChatMessage:
    """The message with its calls left to its text, or with a result as what a user says."""
    if message.role == "tool" and message.call_id is not None:
        return ChatMessage(
            role="user", content=_introduced(_introduction(message), message.content)
        )
    return message.model_copy(update={"calls": []}) if message.calls else message


def _introduction(message: ChatMessage) -> str:
    what = "Error" if message.is_error else "Result"
    return f"{what} of {message.call_id} ({message.tool}):"


def _introduced(introduction: str, content: Content) -> Content:
    if isinstance(content, str):
        return f"{introduction} {content}"
    return [TextPart(text=introduction), *content]
