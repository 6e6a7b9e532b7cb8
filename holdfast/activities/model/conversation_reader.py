"""Reads a run's conversation page by page, from the end of the cached part.

The result is right if its digest chain ends in the digest of the request. If it does not, the
cached part is dropped and everything is read again, once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from holdfast.activities.model.conversation_cache import (
    CachedConversation,
    CachedMessage,
    PagePrefetch,
    RunKey,
    TakeBytes,
    fragments,
)
from holdfast.activities.model.shared_pages import SharedPages, page_secret
from holdfast.providers.base import EncodedMessage, Encoder, Provider, ProviderRequest, tool_names
from holdfast.providers.contents import media_of, text_of
from holdfast.providers.model_errors import model_error
from holdfast.runtime.attachments import MAX_NAME_CHARS, MAX_REQUEST_BYTES
from holdfast.runtime.storage.run_files import RunFiles
from holdfast.runtime.storage.store import LostValueError, StoreError
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.base import readable_json
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.message import ChatMessage, DocumentPart, FilePart, TextPart

MAX_PAGES = 10_000
# In the JSON of an entry, of a part that is in the store; in a text, the quotes are escaped.
_STORED = '"stored":{"sha256":'
_UNSEEN = "(a picture, which you cannot see)"
_NO_IMAGES = "the model `{}` does not accept images: a text was sent in place of {}{}"
_NO_DOCUMENTS = (
    "the model `{}` of endpoint `{}` does not accept documents{}: send their text, or name a"
    " model that does (`accepts` of the agent's `model`, and its provider's format)"
)


class RunNotOpen(Exception):
    """The run does not exist any more, or is closed."""


class RunUnresponsive(Exception):
    """The run did not answer several queries."""


class ConversationChanged(Exception):
    """The run's conversation does not have the digest of the request."""


ProviderOf = Callable[[Ask], Provider]
# Queries a run for a page of its log; raises `RunNotOpen` or `RunUnresponsive`.
QueryPage = Callable[[RunKey, ConversationPageRequest], Awaitable[ConversationPage]]


class ConversationReader:
    """Reads conversations up to a pointer: from the cache, the prefetched page, and the run.

    In place of a page that is not prefetched, `shared` pages are read, where there are any. The
    `files` are those of runs in the store.
    """

    def __init__(
        self,
        query_page: QueryPage,
        prefetch: PagePrefetch,
        shared: SharedPages | None = None,
        files: RunFiles | None = None,
    ) -> None:
        self._query_page, self._shared = query_page, shared
        self._files = files or RunFiles()
        self._prefetch, self._cache = prefetch, prefetch.conversations

    async def read(
        self, run: RunKey, pointer: ConversationPointer, provider_of: ProviderOf, take: TakeBytes
    ) -> ProviderRequest:
        """Return the request for the conversation up to the pointer; `take` waits for its bytes.

        Raises:
            ApplicationError: the model does not take a part of it; not retried.
            RunNotOpen, RunUnresponsive: the run does not answer.
            ConversationChanged: read again, it still does not have the pointer's digest.
        """
        async for conversation, page in self._beginnings(run, pointer):
            ask = await self._extend(run, conversation, pointer, provider_of, take, page)
            if ask is not None and conversation.digest == pointer.digest:
                if pointer.call is None:
                    self._cache.keep(run, conversation)
                return _request(conversation, pointer, ask, _encoder(ask, provider_of(ask)))
        raise ConversationChanged(
            "the conversation's digest does not match that of the request: the run's log up to"
            f" entry {pointer.entries} has changed since the request was made"
        )

    async def _beginnings(
        self, run: RunKey, pointer: ConversationPointer
    ) -> AsyncIterator[tuple[CachedConversation, ConversationPage | None]]:
        """Yield a beginning of the conversation, and the page behind it if no query is needed.

        The few messages by which a call is answered are not cached: they are read once.
        """
        cached = CachedConversation() if pointer.call else self._cache.take(run)
        if cached.since != pointer.since:
            cached = CachedConversation(pointer.since, pointer.origin)
        page, prefetched = None, self._prefetch.take(run.workflow_id, pointer)
        if prefetched is not None and prefetched.after == cached.entries:
            page = prefetched.page
        elif self._shared is not None:
            page = await self._shared.read(page_secret(run, pointer), cached.entries)
        if pointer.call is None or page is not None:
            yield cached, page
        yield CachedConversation(pointer.since, pointer.origin), None

    async def _extend(
        self,
        run: RunKey,
        conversation: CachedConversation,
        pointer: ConversationPointer,
        provider_of: ProviderOf,
        take: TakeBytes,
        page: ConversationPage | None,
    ) -> Ask | None:
        """Read on from the cached part; None if that cannot lead to the pointer."""
        if conversation.entries > pointer.entries:
            return None
        page = page or await self._query_page(run, pointer.page_after(conversation.entries))
        if page.ask is None:
            return None
        provider = provider_of(page.ask)
        accepted, clashes = _accepted(provider, page.ask.model), tool_names(page.ask.tools).clashes
        encoding = (provider.kind, page.ask.calling, *accepted, *clashes)
        if conversation.encoding not in (None, encoding):
            return None
        conversation.encoding = encoding
        encode = _encoder(page.ask, provider)
        ask, beginning = page.ask, ""
        later = list[str]()  # from the first file of the store on
        for _ in range(MAX_PAGES):
            items = list(page.items)
            if items:
                items[0] = beginning + items[0]
            # The last entry may continue in the next page.
            beginning = items.pop() if page.cut and items else ""
            try:
                for item in items:
                    if later or _STORED in item:
                        later.append(item)
                    else:
                        conversation.append(item, encode)
            except (KeyError, TypeError, ValueError):
                return None
            entries = conversation.entries + len(later)
            if entries >= pointer.entries or not any(page.items):
                break
            page = await self._query_page(run, pointer.page_after(entries, len(beginning)))
        return await self._with_files(run, conversation, later, ask, provider, take)

    async def _with_files(
        self,
        run: RunKey,
        conversation: CachedConversation,
        items: Sequence[str],
        ask: Ask,
        provider: Provider,
        take: TakeBytes,
    ) -> Ask | None:
        """Append entries with their files of the store, once their bytes and all others fit."""
        accepted, encode = _accepted(provider, ask.model), _encoder(ask, provider)
        try:
            stored = [json.loads(item)["message"] for item in items if _STORED in item]
            messages = [*map(ChatMessage.read, stored)]
            size_bytes = conversation.size_bytes + sum(map(len, items))
            await take(_size_with_files(size_bytes, (*messages, *ask.edits.added), accepted))
            for item in items:
                is_stored = _STORED in item
                filled = await self._filled(run, messages.pop(0), accepted) if is_stored else None
                # Large files take a while, which must not hold up the loop.
                await asyncio.to_thread(conversation.append, item, encode, filled)
        except (KeyError, TypeError, ValueError):
            return None
        added = [await self._filled(run, one, accepted) for one in ask.edits.added]
        edits = ask.edits.model_copy(update={"added": added})
        return ask.model_copy(update={"edits": edits}) if added else ask

    async def _filled(
        self, run: RunKey, message: ChatMessage, accepted: Collection[str]
    ) -> ChatMessage:
        """Return a message with its files of the store."""
        try:
            types = ("text", *accepted)
            content = await self._files.fill(run.workflow_id, message.content, types)
        except StoreError as error:
            is_lost = isinstance(error, LostValueError)
            raise model_error(str(error), retried=not is_lost) from None
        return message.model_copy(update={"content": content})


def _size_with_files(
    size_bytes: int, messages: Sequence[ChatMessage], accepted: Collection[str]
) -> int:
    """Return the size of a conversation with the files of messages, in base64.

    Raises:
        ApplicationError: a file is too large for a request; not retried.
    """
    parts = [each for one in messages for each in one.content if isinstance(each, FilePart)]
    for part in parts:
        if part.stored is None or part.type not in ("text", *accepted):
            continue
        if (size_bytes := size_bytes + part.stored.size_bytes * 4 // 3) > MAX_REQUEST_BYTES:
            wrong = f"the file {part.name or part.type} of the run: it is too large for the rest of"
            raise model_error(f"{wrong} the conversation; fork the run at an earlier turn")
    return size_bytes


def _accepted(provider: Provider, model: ModelSettings) -> tuple[str, ...]:
    """Return the kinds of parts besides text that a model is sent."""
    return tuple(
        each for each in provider.carries if model.accepts is None or each in model.accepts
    )


def _encoder(ask: Ask, provider: Provider) -> Encoder:
    """Return the encoder of a request's messages: with what its model accepts, and can call.

    In composed calling, the model's calls are in the text of its answer, and the provider is
    offered no tools. Calls and results become text, so that no format needs to know.
    """
    model, names, accepted = ask.model, tool_names(ask.tools), _accepted(provider, ask.model)

    def encode(message: ChatMessage) -> EncodedMessage:
        if ask.calling == "composed":
            message = without_native_calls(message)
        refused = [part for part in media_of(message.content) if part.type not in accepted]
        if not refused:
            return provider.encode(message, names)
        files = [one_line(part.name, MAX_NAME_CHARS) for part in refused if part.name]
        named = f" ({', '.join(files)})" if files else ""
        if any(isinstance(part, DocumentPart) for part in refused):
            return EncodedMessage(problem=_NO_DOCUMENTS.format(model.name, model.endpoint, named))
        content = [TextPart(text=_UNSEEN) if part in refused else part for part in message.content]
        encoded = provider.encode(message.model_copy(update={"content": content}), names)
        return replace(encoded, notices=(_NO_IMAGES.format(model.name, len(refused), named),))

    return encode


def _request(
    conversation: CachedConversation, pointer: ConversationPointer, ask: Ask, encode: Encoder
) -> ProviderRequest:
    """Return the request with the conversation as the run changed it for this request.

    Raises:
        ApplicationError: the model does not take a part of it; not retried.
    """
    edits, sent = ask.edits, list[CachedMessage]()
    for message in conversation.messages(pointer.upto or None):
        if message.number in edits.replaced:
            new = encode(edits.replaced[message.number])
            sent.append(message._replace(encoded=new))
        elif message.number not in edits.hidden:
            sent.append(message)
    sent += (CachedMessage(0, added.role, encode(added)) for added in edits.added)
    problem = next((message.encoded.problem for message in sent if message.encoded.problem), None)
    if problem is not None:
        raise model_error(problem)
    last = max((n for n, message in enumerate(sent) if message.role == "assistant"), default=0)
    notices = (notice for message in sent[last:] for notice in message.encoded.notices)
    return ProviderRequest(ask, fragments(sent), notices=tuple(notices))


def without_native_calls(message: ChatMessage) -> ChatMessage:
    """Return the message with its calls in its text, or a result as a message of the user."""
    if message.role == "tool" and message.call_id is not None:
        what = "Error" if message.is_error else "Result"
        introduction = f"{what} of {message.call_id} ({message.tool}):"
        content = message.content
        if isinstance(content, str):
            return ChatMessage(role="user", content=f"{introduction} {content}")
        return ChatMessage(role="user", content=[TextPart(text=introduction), *content])
    if not message.calls:
        return message
    if message.said is not None:
        return message.model_copy(update={"calls": []})
    # Native calls, of a run that changed to composed calling after them.
    calls = [{"_tool": call.tool, **call.arguments} for call in message.calls]
    written = readable_json({"calls": calls, "output": None})
    content = "\n".join(filter(None, (text_of(message.content), written)))
    return ChatMessage(role=message.role, content=content)
