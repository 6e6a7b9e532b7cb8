"""The conversation is read from the run: only what is new, whole, and with the right digest."""

import base64
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from holdfast.activities.model.conversation_cache import ConversationCache, PagePrefetch, RunKey
from holdfast.activities.model.conversation_reader import ConversationChanged, ConversationReader
from holdfast.providers.base import EncodedMessage, Provider, ToolNames, tool_names
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import HttpProvider
from holdfast.runtime.attachments import file_part
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.run_files import RunFiles
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationEdits,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.log_entry import MessageEntry, TurnStartEntry
from holdfast.schemas.message import ChatMessage, FilePart
from holdfast.workflows.engine.log.log import Log
from tests.activities.model.logged_run import RUN, LoggedRun, take_any
from tests.providers.fakes import TOOLS, ask, chat_message, target

PNG = b"\x89PNG\r\n\x1a\n"
NO_NETWORK = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500)))


class CountingProvider(HttpProvider):
    encoded = 0

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        self.encoded += 1
        return super().encode(message, names)


class Pair:
    def __init__(
        self,
        size: int = 1_000_000,
        limit_bytes: int = 1_000_000,
        files: RunFiles | None = None,
        asked: Ask | None = None,
    ) -> None:
        self.run = LoggedRun(asked, size=size)
        self.model = CountingProvider(OpenAIFormat(), target(), NO_NETWORK)
        prefetch = PagePrefetch(ConversationCache(limit_bytes))
        self.reader = ConversationReader(self.run.page, prefetch, None, files)

    def provider(self, _: Ask) -> Provider:
        return self.model

    async def read(self, entries: int | None = None) -> list[bytes]:
        """Read up to an entry, as a turn that begins there does."""
        self.run.wanted.clear()
        request = await self.reader.read(RUN, self.run.pointer(entries), self.provider, take_any)
        fragments = request.fragments
        return list(fragments)


async def test_a_later_turn_asks_for_what_is_new_alone_and_encodes_nothing_twice() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "one"))
    pair.run.note()
    first = await pair.read()
    pair.run.append(chat_message("assistant", "two"), chat_message("user", "three"))
    second = await pair.read()
    assert second[: len(first)] == first
    assert pair.run.wanted == [ConversationPageRequest(after=2, upto=4)]
    assert pair.model.encoded == 3


@given(size=st.integers(1, 400))
async def test_entries_are_whole_however_the_pages_cut_them(size: int) -> None:
    messages = [
        chat_message("user", "†" * 70),
        chat_message("assistant", "😀é" * 30),
        chat_message("user", "end"),
    ]
    whole, cut = Pair(), Pair(size)
    for pair in (whole, cut):
        pair.run.append(messages[0])
        pair.run.note()
        pair.run.append(*messages[1:])
    assert await cut.read() == await whole.read()


async def test_a_conversation_that_does_not_match_is_read_again_from_its_beginning() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "one"), chat_message("assistant", "two"))
    await pair.read()
    pair.run.items.clear()
    pair.run.append(
        chat_message("user", "another"),
        chat_message("assistant", "two"),
        chat_message("user", "three"),
    )
    fragments = await pair.read()
    assert b"another" in fragments[0]
    assert pair.run.wanted == [
        ConversationPageRequest(after=2, upto=3),
        ConversationPageRequest(after=0, upto=3),
    ]


async def test_a_digest_that_never_matches_fails_after_the_second_reading() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "one"))
    pointer = ConversationPointer(turn=1, entries=1, digest="f" * 64)
    with pytest.raises(ConversationChanged, match="digest does not match"):
        await pair.reader.read(RUN, pointer, pair.provider, take_any)
    assert len(pair.run.wanted) == 2


async def test_holding_more_than_the_pointer_has_reads_again() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "one"), chat_message("user", "two"))
    await pair.read()
    assert len(await pair.read(1)) == 1
    assert pair.run.wanted == [ConversationPageRequest(after=0, upto=1)]


async def test_a_conversation_encoded_for_another_kind_of_provider_is_read_again() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "one"))
    await pair.read()
    pair.model.kind = "other"
    await pair.read()
    assert pair.run.wanted == [
        ConversationPageRequest(after=1, upto=1),
        ConversationPageRequest(after=0, upto=1),
    ]


async def test_a_name_that_clashes_with_another_is_sent_as_it_is_offered() -> None:
    pair = Pair()
    tools = [{**TOOLS[0], "name": name} for name in ("rag.query", "rag_query")]
    called = {"id": "t1c1", "providerId": "c", "tool": "rag.query", "arguments": {}}
    pair.run.append(chat_message("assistant", calls=[called]))
    [plain] = await pair.read()
    pair.run.ask = ask(tools=tools)
    [apart] = await pair.read()
    assert b'"rag_query"' in plain
    assert tool_names(pair.run.ask.tools).to_provider("rag.query").encode() in apart
    assert b'"rag_query"' not in apart


async def test_a_conversation_too_large_to_be_held_is_used_and_read_whole_each_time() -> None:
    pair = Pair(limit_bytes=2_000)
    pair.run.append(chat_message("user", "x" * 3_000))
    assert await pair.read() == await pair.read()
    assert pair.run.wanted == [ConversationPageRequest(after=0, upto=1)]


@pytest.mark.parametrize(
    "page",
    [
        ConversationPage(items=[], ask=ask()),
        ConversationPage(items=[""], cut=True, ask=ask()),
        ConversationPage(items=["no JSON"], ask=ask()),
        ConversationPage(items=["[1]"], ask=ask()),
        ConversationPage(items=['{"message": {"role": "nobody"}}'], ask=ask()),
        ConversationPage(items=[]),
    ],
)
async def test_a_run_that_answers_nonsense_does_not_hang_the_reader(page: ConversationPage) -> None:
    class Nonsense:
        async def page(self, *_: Any) -> ConversationPage:
            return page

    pair = Pair()
    pair.run.append(chat_message("user", "one"))
    with pytest.raises(ConversationChanged):
        await ConversationReader(Nonsense().page, PagePrefetch(ConversationCache())).read(
            RUN, pair.run.pointer(), pair.provider, take_any
        )


async def test_the_log_of_a_run_answers_as_is_asked() -> None:
    """The one counterpart that there is, with pages cut where it cuts them."""
    log = Log(lambda: datetime(2026, 3, 1, tzinfo=UTC))
    log.append(MessageEntry(message=chat_message("user", "Grüße")))
    log.append(TurnStartEntry(turn=1))
    log.append(
        MessageEntry(message=chat_message("user", [{"type": "text", "text": "😀†" * 500_000}]))
    )

    class Queried:
        async def page(self, _: RunKey, want: ConversationPageRequest) -> ConversationPage:
            items, cut = log.page(want)
            page = ConversationPage(items=items, cut=cut, ask=ask() if want.offset == 0 else None)
            return ConversationPage.read(json.loads(json.dumps(page.to_json())))

    pointer = ConversationPointer(turn=1, entries=3, digest=log.digest)
    reader = ConversationReader(Queried().page, PagePrefetch(ConversationCache()))
    request = await reader.read(RUN, pointer, Pair().provider, take_any)
    fragments = request.fragments
    assert [json.loads(each)["content"] for each in fragments] == ["Grüße", "😀†" * 500_000]


async def test_the_messages_by_which_a_call_is_answered_are_read_apart_and_not_held() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "one"), chat_message("assistant", "two"))
    await pair.read()
    run = LoggedRun()
    run.append(chat_message("user", "which mood?"))
    small = run.pointer().model_copy(update={"call": "t1c1"})
    whole, pair.run.items = pair.run.items, run.items

    for _ in range(2):
        pair.run.wanted.clear()
        request = await pair.reader.read(RUN, small, pair.provider, take_any)
        fragments = request.fragments
        assert b"which mood?" in b"".join(fragments)
        assert pair.run.wanted == [ConversationPageRequest(upto=1, call="t1c1")]
    pair.run.items = whole
    pair.run.append(chat_message("user", "three"))
    await pair.read()
    assert pair.run.wanted == [ConversationPageRequest(after=2, upto=3)], (
        "the run's own conversation is still held"
    )


async def test_a_call_that_is_no_longer_answered_is_not_asked_about() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", "another question"))
    small = ConversationPointer(turn=1, entries=1, digest="of what was asked", call="t1c1")

    with pytest.raises(ConversationChanged):
        await pair.reader.read(RUN, small, pair.provider, take_any)
    assert len(pair.run.wanted) == 1


PICTURE = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
DOCUMENT = {"type": "document", "data": "JVBERi0xLjc="}


def accepting(*types: str) -> Pair:
    pair = Pair()
    pair.run.ask = ask(model={"accepts": list(types)})
    return pair


async def test_an_image_that_the_model_does_not_accept_is_a_text_and_reported_once() -> None:
    pair = accepting("document")
    pair.run.append(chat_message("user", [{"type": "text", "text": "Look:"}, PICTURE, PICTURE]))
    request = await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)
    content = json.loads(request.fragments[0])["content"]
    assert content == "\n\n".join(["Look:", *["(a picture, which you cannot see)"] * 2])
    assert request.notices == (
        "the model `gpt-test` does not accept images: a text was sent in place of 2",
    )
    again = await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)
    assert again == request  # an attempt that is made again reports it, too
    pair.run.append(chat_message("assistant", "I cannot."), chat_message("user", "Try."))
    later = await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)
    assert later.fragments[0] == request.fragments[0]
    assert later.notices == ()


async def test_a_document_that_the_model_does_not_accept_is_an_error_that_names_it() -> None:
    pair = accepting("image")
    pair.run.append(chat_message("user", [DOCUMENT, PICTURE]))
    with pytest.raises(
        ApplicationError, match="the model `gpt-test` of endpoint `openai` does not"
    ):
        await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)


async def test_messages_are_hidden_replaced_and_added_in_one_request_alone() -> None:
    pair = accepting()
    pair.run.append(
        chat_message("user", [DOCUMENT]),
        chat_message("user", [PICTURE]),
        chat_message("user", "three"),
    )
    edits = ConversationEdits(
        hidden=[1],
        replaced={2: chat_message("user", "two")},
        added=[chat_message("user", [PICTURE])],
    )
    as_it_is, pair.run.ask = pair.run.ask, pair.run.ask.model_copy(update={"edits": edits})
    request = await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)
    contents = [json.loads(fragment)["content"] for fragment in request.fragments]
    assert contents == ["two", "three", "(a picture, which you cannot see)"]
    assert len(request.notices) == 1, "of what is sent alone"
    pair.run.ask = as_it_is
    with pytest.raises(ApplicationError, match="does not accept documents"):
        await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)


async def test_a_model_is_sent_what_its_format_carries_by_default() -> None:
    pair = Pair()
    pair.run.append(chat_message("user", [DOCUMENT, PICTURE]))
    request = await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take_any)
    assert [part["type"] for part in json.loads(request.fragments[0])["content"]] == [
        *("file", "image_url")
    ]
    assert request.notices == ()


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(FolderStore(tmp_path / "store"))


async def keep(files: RunFiles, run: str, part: FilePart) -> FilePart:
    return await files.keep(run, part)


async def test_files_of_the_store_are_sent_as_those_of_the_message(
    files: RunFiles, tmp_path: Path
) -> None:
    parts = [file_part("a.png", PNG), file_part("a.txt", b"Bill 7"), file_part("a.pdf", b"%PDF-1")]
    stored = [await keep(files, RUN.workflow_id, part) for part in parts]
    inline, kept = Pair(), Pair(files=files)
    inline.run.append(chat_message("user", [part.to_json() for part in parts]))
    kept.run.append(chat_message("user", [part.to_json() for part in stored]))
    sent = await kept.read()
    assert sent == await inline.read()
    shutil.rmtree(tmp_path / "store")
    assert await kept.read() == sent, "it was read once"


async def test_what_a_hook_adds_has_its_files(files: RunFiles) -> None:
    part = await keep(files, RUN.workflow_id, file_part("a.png", PNG))
    added = [chat_message("user", [part.to_json()])]
    pair = Pair(files=files, asked=ask(edits=ConversationEdits(added=added)))
    pair.run.append(chat_message("user", "See:"))
    assert base64.b64encode(PNG) in (await pair.read())[-1]


async def test_a_request_takes_the_bytes_of_its_files_before_it_reads_one(files: RunFiles) -> None:
    part = file_part("a.png", PNG + b"\0" * 30_000)
    kept = (await keep(files, RUN.workflow_id, part)).to_json()
    pair = Pair(
        files=files, asked=ask(edits=ConversationEdits(added=[chat_message("user", [kept])]))
    )
    pair.run.append(chat_message("user", "See:"), chat_message("user", [kept, kept]))
    taken = list[int]()

    class WaitingError(Exception):
        pass

    async def take(size_bytes: int) -> None:
        taken.append(size_bytes)
        raise WaitingError

    with pytest.raises(WaitingError):
        await pair.reader.read(RUN, pair.run.pointer(), pair.provider, take)
    assert 3 * 40_000 < taken[0] < 3 * 40_000 + 5_000
    assert pair.model.encoded == 1, "the text before them alone"
    with_files = await pair.read()
    assert sum(map(len, with_files)) > 3 * 40_000


@pytest.mark.parametrize(
    ("lost", "why", "is_final"),
    [
        (
            "deleted",
            r"the file a.png of the run: .* has no file runs/.*; put it back from a copy",
            True,
        ),
        ("another run's", r"has no file runs/", True),
        ("unreadable", r"cannot be read: .*; let the worker and the command read it", False),
        ("no store", r"no store is set here; set HOLDFAST_STORE to the `--store`", True),
        (
            "too large",
            r"too large for the rest of the conversation; fork the run at an earlier",
            True,
        ),
    ],
)
async def test_a_request_without_its_file_fails_with_one_line(
    files: RunFiles, tmp_path: Path, lost: str, why: str, is_final: bool
) -> None:
    run = "other" if lost == "another run's" else RUN.workflow_id
    part = (await keep(files, run, file_part("a.png", PNG))).to_json()
    [file] = [each for each in (tmp_path / "store").rglob("*") if each.is_file()]
    if lost in ("deleted", "unreadable"):
        file.unlink()
    if lost == "unreadable":
        file.mkdir()
    if lost == "too large":
        # Many parts may name one file.
        part["stored"]["sizeBytes"] = 60_000_000
    added = [chat_message("user", [part])] if lost == "too large" else []
    asked = ask(edits=ConversationEdits(added=added))
    pair = Pair(files=None if lost == "no store" else files, asked=asked)
    pair.run.append(chat_message("user", [part]))
    with pytest.raises(ApplicationError, match=why) as failed:
        await pair.read()
    assert failed.value.non_retryable is is_final


async def test_a_file_that_the_model_does_not_take_is_not_read(files: RunFiles) -> None:
    stored = {"sha256": "0" * 64, "sizeBytes": 10}
    pair = Pair(files=files, asked=ask(model={"endpoint": "e", "name": "m", "accepts": []}))
    image = {"type": "image", "mediaType": "image/png", "stored": stored}
    pair.run.append(chat_message("user", [image]))
    assert b"a picture, which you cannot see" in (await pair.read())[0]
