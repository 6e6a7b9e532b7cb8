"""The log: append-only, numbered, and read in pages that fix it by its digest."""

import json
from typing import Any

import pytest

from holdfast.schemas.base import canonical_json, json_size, sha256
from holdfast.schemas.internal.model_request import ConversationPage, ConversationPageRequest
from holdfast.schemas.log_entry import (
    Entry,
    MessageEntry,
    NoticeEntry,
    ToolCallEntry,
    ToolEndEntry,
    ToolStartEntry,
    TurnStartEntry,
    WriteEntry,
)
from holdfast.schemas.message import ChatMessage
from holdfast.workflows.engine.log.log import PAGE_BYTES, Log
from tests.engine.driver import (
    Play,
    call,
    everything,
    noon,
    read_again,
    reply,
    ticking,
    tool,
)

MEGABYTE = 1_000_000


def message(content: str, role: Any = "user") -> MessageEntry:
    return MessageEntry(message=ChatMessage(role=role, content=content))


def log_of(*entries: Entry) -> Log:
    log = Log(noon)
    for entry in entries:
        log.append(entry)
    return log


def digest_of(record: dict[str, Any]) -> str:
    return sha256(canonical_json({key: value for key, value in record.items() if key != "at"}))


def result(call_id: str, content: Any) -> list[Entry]:
    message = ChatMessage(role="tool", call_id=call_id, provider_id=call_id, content=content)
    return [ToolEndEntry(turn=1, call_id=call_id, tool="look"), MessageEntry(message=message)]


def test_times_are_shown_and_not_digested() -> None:
    """A replay may see a workflow task some milliseconds later than its first execution did."""

    def played(clock: Any) -> Play:
        play = Play(
            tool("pay", side_effects=True),
            model=[reply("", call("pay")), reply("done")],
            decisions={"t1c1": [{"decision": "approve", "by": "ann"}]},
            clock=clock,
        )
        return play.to_end()

    early, late = played(noon), played(ticking())
    assert early.records() != late.records()
    assert early.log.digest == late.log.digest


@pytest.mark.parametrize("letter", ["x", '"', "\\", "é", "…", "𝄞", "\n", "\x01"])
@pytest.mark.parametrize("characters", [10, 200_000, 500_000])
def test_the_digest_can_be_recomputed_from_pages(letter: str, characters: int) -> None:
    content = letter * characters
    log = log_of(message("before"), TurnStartEntry(turn=1), message(content), message("after"))

    digest, entries = read_again(log)

    assert digest == log.digest
    assert json.loads(entries[1])["message"]["content"] == content


@pytest.mark.parametrize("letter", ["x", '"', "\\", "é", "𝄞", "\x01"])
def test_no_page_is_over_a_megabyte(letter: str) -> None:
    sizes = (600_000, 200_000, 200_000, 10, 100_000)
    log = log_of(*[message(letter * size) for size in sizes])
    after, offset = 0, 0
    while after < len(log):
        items, cut = log.page(ConversationPageRequest(after=after, upto=len(log), offset=offset))
        assert json_size(ConversationPage(items=items, cut=cut).to_json()) < MEGABYTE
        whole = items[:-1] if cut else items
        offset = len(items[-1]) + (offset if len(items) == 1 else 0) if cut else 0
        after += len(whole)


def test_of_an_entry_that_the_model_does_not_see_a_page_holds_the_digest_alone() -> None:
    log = log_of(NoticeEntry(text="x" * 1000))

    assert log.page(ConversationPageRequest(upto=1)) == (
        ["#" + digest_of(log.records(0, 1)[0])],
        False,
    )


def test_reading_is_bounded_in_entries_and_in_bytes() -> None:
    log = log_of(*[message("x" * 1000) for _ in range(2000)])

    assert len(log.records(0, 10)) == 10
    page = log.records(0, 1000)
    assert 0 < json_size(page) <= PAGE_BYTES + len(page)
    assert [record["n"] for record in everything(log.records, 2000)] == list(range(1, 2001))


@pytest.mark.parametrize(
    "content",
    ["x" * 3 * MEGABYTE, "é" * 2 * MEGABYTE, "\x01" * MEGABYTE],
    ids=["ascii", "two bytes", "escaped"],
)
def test_an_entry_of_three_megabytes_is_shortened_and_marked(content: str) -> None:
    log = log_of(message("before"), message(content), message("after"))
    found = everything(log.records, 3)

    assert [record["n"] for record in found] == [1, 2, 3]
    assert all(json_size(record) < MEGABYTE for record in found)
    assert found[1]["cut"] == json_size(
        log.records(1, 1)[0] | {"message": {"role": "user", "content": content}}
    ) - len(',"cut":') - len(str(found[1]["cut"]))
    assert found[1]["message"]["content"].startswith(content[:1000])
    assert found[1]["message"]["content"].endswith(f"({len(content)} characters)")


@pytest.mark.parametrize(
    "value",
    [
        [[[1] * 80] * 80] * 80,
        {f"key{n}": "v" * 100 for n in range(10_000)},
        {"k" * MEGABYTE: "v"},
        [{"a": "x" * 3000}] * 1000,
    ],
    ids=["nested", "many keys", "a long key", "many rows"],
)
def test_whatever_an_entry_holds_a_page_of_the_log_is_bounded(value: Any) -> None:
    log = log_of(WriteEntry(path="†state.a", value=value))

    assert json_size(log.records(0, 1)) < MEGABYTE
    assert log.records(0, 1)[0]["type"] == "write"


def test_events_have_numbers_of_their_own_without_gaps() -> None:
    log = log_of(
        message("go"),
        TurnStartEntry(turn=1),
        message("", "assistant"),
        ToolCallEntry(turn=1, call_id="t1c1", tool="look"),
        ToolStartEntry(turn=1, call_id="t1c1", tool="look"),
        *result("t1c1", "found"),
        NoticeEntry(text="note"),
        TurnStartEntry(turn=2),
    )

    events = log.events(0, 100)
    assert [event["n"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert log.events(3, 1) == [events[3]]


def test_the_end_of_a_call_carries_its_result_for_those_who_read_events() -> None:
    log = log_of(*result("t1c1", "one"), *result("t1c2", ""), message("go"))

    assert [event["result"] for event in log.events(0, 10)] == ["one", ""]
    assert all("result" not in record for record in log.records(0, 10))
    assert read_again(log)[0] == log.digest
