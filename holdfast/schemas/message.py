"""Messages: from a person to a run, and from a run to a model.

A person's message is `{"role", "content"}`. The conversation that a model receives holds the same
messages, and those that only the engine writes: an assistant's calls, a tool's result.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from holdfast.schemas.base import Explicit, Json, Lenient, Shallow, Strict
from holdfast.schemas.phrases import INSTANCE_PATTERN


class _Part(Strict):
    type: str

    @model_serializer(mode="wrap")
    def _with_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the part with its type, which identifies it, also where defaults are left out."""
        return {"type": self.type, **handler(self)}


class StoredFile(Strict):
    """The content of a file that is in the store, among the files of the run that has the message.

    A message cannot name another run's file: the run is no part of this.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The SHA-256 of its bytes."""
    size_bytes: Annotated[int, Field(ge=0)]
    """The number of its bytes."""


class TextPart(_Part):
    """A piece of text."""

    type: Literal["text"] = "text"
    """It is text."""
    text: str
    """The text; of a stored one, its beginning."""
    name: str | None = None
    """The name of its file, which the model reads too."""
    stored: StoredFile | None = None
    """Its file in the store, which the model reads in place of `text`."""


class _Media(_Part):
    media_type: str | None = None
    """Such as image/png."""
    data: str | None = None
    """The content in base64."""
    url: str | None = None
    """Its address."""
    name: str | None = None
    """The name of its file."""
    stored: StoredFile | None = None
    """Its file in the store."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        what = "an image" if self.type == "image" else f"a {self.type}"
        if [self.url, self.data, self.stored].count(None) != 2:
            raise ValueError(f"{what} has either `url`, or `data` (base64) with `mediaType`")
        if self.url is None and self.media_type is None:
            raise ValueError(f"{what} given as `data` needs its `mediaType`, such as image/png")
        return self


class ImagePart(_Media):
    """A picture: its base64 data with a media type, or the address of one."""

    type: Literal["image"] = "image"
    """It is a picture."""


class DocumentPart(_Media):
    """A document in PDF: its base64 data, or the address of one."""

    type: Literal["document"] = "document"
    """It is a document."""
    media_type: Literal["application/pdf"] = "application/pdf"
    """A PDF."""


class DataPart(_Part):
    """A value with a name, which calls read as `†<kind>.…`."""

    type: Literal["data"] = "data"
    """It is a value."""
    kind: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
    """The name that calls read it by."""
    data: Json
    """The value."""
    schema_: Annotated[dict[str, Any] | bool | None, Field(alias="schema"), Shallow] = None
    """The schema of the value."""
    description: str | None = None
    """What it is, for the model."""
    instance: Annotated[str | None, Field(alias="_instance", pattern=INSTANCE_PATTERN)] = None
    """Whose value it is, in a run with instances; unset, it is for all."""


Media = ImagePart | DocumentPart
FilePart = TextPart | Media
Part = Annotated[TextPart | Media | DataPart, Field(discriminator="type")]
Content = str | list[Part]


class Message(Strict):
    """A person's message: in a run's `context`, or by the signal `message`."""

    role: Literal["system", "user", "assistant", "tool"] = "user"
    """The author."""
    content: Content
    """The content: a text, or a list of parts."""


class EarlierCall(Strict):
    """A call that was made before the run, as its transcript has it."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """What its result names it by."""
    tool: Annotated[str, Field(min_length=1, max_length=128)]
    """The tool."""
    arguments: dict[str, Json] = {}
    """What it was called with."""


class ContextMessage(Message):
    """A message from before the run: a text or data, a model's calls, or the result of one."""

    content: Content = ""
    """The content: a text, or a list of parts."""
    calls: list[EarlierCall] = []
    """The calls of an `assistant`: their results are the next messages, in the same order."""
    call_id: str | None = None
    """The call that a message of the role `tool` is the result of."""
    is_error: bool = False
    """Whether that call failed."""

    @model_validator(mode="after")
    def _has_content(self) -> "ContextMessage":
        is_empty = "content" not in self.model_fields_set and not self.calls
        if is_empty and self.role != "tool":
            raise ValueError("`content` is missing; add it")
        return self


class Delivered(Message):
    """A message to a run, and when it is to be read. It is the result of no call."""

    role: Literal["system", "user", "assistant"] = "user"
    """The author."""
    delivery: Literal["steer", "followUp"] = "steer"
    """`steer`: before the next turn; `followUp`: when the run would end."""
    audience: Literal["model", "people"] = "model"
    """`people`: it is in the log at once, as a remark, and no model ever reads it."""
    skill: str | None = None
    """In a conversation, the agent's skill from this message on."""

    @model_validator(mode="after")
    def _is_read_with_its_skill(self) -> "Delivered":
        if self.skill is not None and self.audience == "people":
            raise ValueError("`skill` changes nothing in a message for people; leave it out")
        return self


class Withdrawal(Strict):
    """Which message is taken back: one that the run has not read yet."""

    message: Annotated[int, Field(ge=1)]
    """Its number, as `status` lists it under `queued`."""


class QueuedMessage(Explicit):
    """A message that no model has read, for people; `text` is the beginning of its content."""

    number: int
    """Its number among the messages to the run, from 1."""
    role: Literal["system", "user", "assistant"]
    """The author."""
    delivery: Literal["steer", "followUp"]
    """When it is read."""
    text: str
    """The beginning of its content."""


class AskedCall(Lenient):
    """A call in an assistant's message, as the model is shown it again.

    `arguments` is always an object: a text that did not parse is never sent to a provider again.
    `written` is that text, kept for people. `provider_id` is what providers know the call by,
    unique in the run.
    """

    id: str
    provider_id: str
    tool: str
    arguments: dict[str, Any]
    written: str | None = None


class ChatMessage(Lenient):
    """One message of the conversation that a model is shown, in no provider's format.

    `provider_data` is what a provider requires with its own answer; nothing else reads it.
    In composed calling, the calls are in the content; `said` is what else is in it, the text
    and the output, for people. `instance` is that of the call that returned it, if it had one.
    `imported`: these calls were made, or this result came, before the run and not in it.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: Content = ""
    calls: list[AskedCall] = []
    call_id: str | None = None
    provider_id: str | None = None
    tool: str | None = None
    is_error: bool = False
    said: str | None = None
    instance: str | None = None
    imported: bool = False
    provider_data: Json = None
