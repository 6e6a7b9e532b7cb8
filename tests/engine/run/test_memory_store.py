"""What an agent keeps: written once for each write, found again, and bounded."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.schemas import names
from holdfast.schemas.base import json_size
from holdfast.schemas.internal.memory import (
    MAX_ENTRIES,
    MAX_KEY_CHARACTERS,
    MAX_MEMORY_BYTES,
    MAX_VALUE_BYTES,
    MemoryOwner,
    MemorySearch,
    MemoryState,
    MemoryWrite,
)
from holdfast.workflows.engine.state.memory_store import (
    MAX_APPLIED,
    MAX_KEYS_SHOWN,
    Memory,
    WriteRefused,
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MAX_PAYLOAD_BYTES = 2_000_000


class Kept:
    """A memory, and writes to it, each with an id of its own unless it has one."""

    def __init__(self, **entries: str) -> None:
        self.memory = Memory(MemoryState(owner=MemoryOwner(agent="desk"), writes_a_run=1))
        self.writes = 0
        for key, value in entries.items():
            self.write(key, value)

    def write(
        self, key: str, value: str | None, write_id: str | None = None, **more: Any
    ) -> dict[str, Any]:
        self.writes += 1
        write = MemoryWrite(key=key, value=value, **more)
        write_id = write_id or f"run/t{self.writes}c1"
        self.memory.check(write, write_id)
        return self.memory.write(write, write_id, NOON)

    def value(self, key: str) -> Any:
        return self.memory.read(key).get("value")

    def keys(self) -> list[str]:
        return list(self.memory.read(None).get("keys", []))

    def found(self, query: str, **more: Any) -> list[str]:
        return [each["key"] for each in self.search(query, **more).get("found", [])]

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        return self.memory.search(MemorySearch(query=query, **more))


def test_what_is_written_is_read_with_its_time() -> None:
    kept = Kept()
    assert kept.write("ann", "likes tea") == {"key": "ann", "kept": True, "entries": 1}
    said = {"key": "ann", "value": "likes tea", "writtenAt": "2026-01-02T12:00:00.000Z"}
    assert kept.memory.read("ann") == said


def test_a_write_replaces_what_was_there_and_null_deletes_it() -> None:
    kept = Kept(ann="tea", bob="coffee")
    kept.write("ann", "cocoa")
    assert kept.value("ann") == "cocoa"
    assert kept.write("ann", None) == {"key": "ann", "kept": False, "entries": 1}
    assert kept.write("nobody", None)["entries"] == 1
    assert kept.keys() == ["bob"]


def test_what_is_not_there_is_answered_by_the_keys_the_newest_first() -> None:
    kept = Kept(ann="tea", bob="coffee")
    kept.write("ann", "cocoa")
    said = {"key": "cat", "value": None, "entries": 2, "keys": ["ann", "bob"]}
    assert kept.memory.read("cat") == said
    assert kept.memory.read(None) == {"entries": 2, "keys": ["ann", "bob"]}


def test_a_text_is_appended_on_a_line_of_its_own() -> None:
    kept = Kept()
    for text in ("likes tea", "with milk"):
        assert kept.write("ann", text, append=True)["kept"]
    assert kept.value("ann") == "likes tea\nwith milk"


def test_a_write_on_a_condition_is_refused_where_another_text_is_kept() -> None:
    kept = Kept(ann="tea")
    for expected in ("", "coffee"):
        with pytest.raises(WriteRefused, match="not the one in `ifValue`; read it") as refused:
            kept.write("ann", "cocoa", if_value=expected)
        assert refused.value.type == "memory_conflict"
    kept.write("ann", "cocoa", if_value="tea")
    kept.write("bob", "milk", if_value="")
    assert (kept.value("ann"), kept.value("bob")) == ("cocoa", "milk")


def test_keys_are_listed_by_what_they_begin_with_and_page_by_page() -> None:
    kept = Kept(**{f"order/{n}": "x" for n in range(MAX_KEYS_SHOWN + 2)}, ann="tea")
    first = kept.memory.read(None, "order/")
    assert (first["keys"][0], len(first["keys"]), first["more"]) == ("order/101", 100, 2)
    last = {"entries": 103, "keys": ["order/1", "order/0"]}
    assert kept.memory.read(None, "order/", MAX_KEYS_SHOWN) == last


# A write that comes again.


def test_an_append_that_comes_again_is_applied_once_whatever_its_condition() -> None:
    kept = Kept()
    for _ in range(2):
        kept.write("ann", "tea", "again", append=True, if_value="")
    assert kept.value("ann") == "tea"


def test_only_the_last_writes_are_known_again_however_long_their_ids() -> None:
    kept = Kept()
    for n in range(MAX_APPLIED + 5):
        kept.write("ann", str(n), f"{'i' * 10_000}{n}")
    state = kept.memory.state.to_json()
    assert len(state["applied"]) == MAX_APPLIED
    assert json_size(state) < 40 * MAX_APPLIED


def test_a_write_that_comes_again_is_not_refused_though_there_is_no_room_any_more() -> None:
    kept = Kept()
    kept.write("ann", "x", "again")
    kept.write("ann", None)
    with pytest.raises(WriteRefused):
        fill(kept, "x" * MAX_VALUE_BYTES)
    assert kept.write("ann", "x" * MAX_VALUE_BYTES, "again")["kept"]
    assert kept.value("ann") is None


# Bounds.


def fill(kept: Kept, text: str = "x", key_characters: int = 0, padding: str = " ") -> None:
    for n in range(MAX_ENTRIES):
        kept.write(f"k{n}".ljust(key_characters, padding), text)


def test_it_holds_a_bounded_number_of_entries_and_reports_what_makes_room() -> None:
    kept = Kept()
    fill(kept)
    with pytest.raises(WriteRefused, match=r"full: it has 1000 entries; delete .*write null"):
        kept.write("one more", "x")
    kept.write("k7", "another")
    kept.write("k8", None)
    kept.write("one more", "x")


def test_it_holds_so_many_bytes_and_a_replaced_text_makes_room() -> None:
    kept = Kept()
    texts = MAX_MEMORY_BYTES // (MAX_VALUE_BYTES + 10)
    for n in range(texts):
        kept.write(f"k{n}", "x" * MAX_VALUE_BYTES)
    with pytest.raises(WriteRefused, match=r"would have 5\d+ bytes of 500000"):
        kept.write("one more", "x" * MAX_VALUE_BYTES)
    kept.write("k0", "y" * MAX_VALUE_BYTES)
    kept.write("k0", "x")
    kept.write("one more", "x" * (MAX_VALUE_BYTES - 10))


def test_what_is_appended_to_has_so_many_bytes_in_all() -> None:
    kept = Kept(ann="x" * MAX_VALUE_BYTES)
    with pytest.raises(WriteRefused, match="would have 16002 bytes of 16000; append to another"):
        kept.write("ann", "y", append=True)
    assert kept.value("ann") == "x" * MAX_VALUE_BYTES


@pytest.mark.parametrize("value", ["x" * (MAX_VALUE_BYTES + 1), "ß" * (MAX_VALUE_BYTES // 2 + 1)])
def test_a_text_has_so_many_bytes(value: str) -> None:
    with pytest.raises(ValidationError, match="keep at most 16000"):
        MemoryWrite(key="ann", value=value)


@pytest.mark.parametrize("character", ["é", "\u4e2d", "\U0001f600", "\x01", '"', "x"])
def test_the_fullest_memory_fits_into_one_payload(character: str) -> None:
    """Temporal writes JSON in ASCII."""
    kept = Kept()
    text = character * ((MAX_VALUE_BYTES - 20) // len(character.encode()))
    with pytest.raises(WriteRefused):
        fill(kept, text, MAX_KEY_CHARACTERS, character)
    assert len(json.dumps(kept.memory.state.to_json())) < MAX_PAYLOAD_BYTES


# Searching.


def test_the_entry_with_the_most_words_comes_first_and_a_key_counts_for_more() -> None:
    kept = Kept(a="Ann drinks TEA", b="tea and cake, says Ann", ann="no hot drinks", d="nothing")
    assert kept.found("ann tea cake") == ["b", "ann", "a"]
    assert kept.search("ann tea cake")["matches"] == 3


def test_a_part_of_a_word_is_found_after_the_whole_word() -> None:
    kept = Kept(a="the refund", b="two refunds", c="退款单")
    assert kept.found("refund") == ["a", "b"]
    assert kept.found("退款") == ["c"]


def test_case_makes_no_difference_in_any_language() -> None:
    assert Kept(a="Große", b="groß").found("GROSSE") == ["a"]


@pytest.mark.parametrize("query", ["zebra", "?!", " "])
def test_what_occurs_nowhere_finds_nothing(query: str) -> None:
    assert Kept(a="tea").search(query) == {"entries": 1, "matches": 0, "found": []}


# As a whole.


WRITES = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from("abc"),
        st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
    ),
    max_size=30,
)


@given(WRITES)
def test_it_is_the_same_whether_or_not_it_continued_as_new_after_each_write(
    writes: list[tuple[int, str, str | None]],
) -> None:
    stayed, went_on = Kept(), Kept()
    for number, key, value in writes:
        stayed.write(key, value, str(number))
        went_on.write(key, value, str(number))
        went_on.memory = Memory(MemoryState.read(went_on.memory.state.to_json()))
    assert went_on.memory.state == stayed.memory.state
    assert went_on.keys() == stayed.keys()
    assert went_on.memory.size_bytes == stayed.memory.size_bytes


# Whose it is.


def test_a_memory_is_no_run() -> None:
    """Lists of runs, and what is done to them, leave it alone."""
    assert names.MEMORY_WORKFLOW not in names.WORKFLOWS


def test_a_memory_is_under_the_agents_name_and_the_principals() -> None:
    assert MemoryOwner(agent="desk").workflow_id == "memory.desk"
    assert MemoryOwner(agent="desk", principal="ann").workflow_id == "memory.desk.ann"
    assert MemoryOwner(agent="desk", inline=True).workflow_id == "memory-inline.desk"


PEOPLE = st.none() | st.text(min_size=1, max_size=200)
OWNERS = st.tuples(st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.-]{0,127}\Z"), PEOPLE, st.booleans())


@given(OWNERS, OWNERS)
def test_no_two_owners_share_a_memory(
    one: tuple[str, str | None, bool], other: tuple[str, str | None, bool]
) -> None:
    ids = [names.memory_id(agent, who, inline=inline) for agent, who, inline in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)
    assert all(each.isascii() and each.isprintable() and len(each) < 1_000 for each in ids)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a.b", None, False), ("a", "b", False)),
        (("a", "b.c", False), ("a.b", "c", False)),
        (("inline.a", None, False), ("a", None, True)),
        (("a", "%2E", False), ("a", ".", False)),
        (("a", "x" * 200, False), ("a", "x" * 199 + "y", False)),
        (("a", "é" * 200, False), ("a", "é" * 199 + "è", False)),
        (("a", "~", False), ("a", "%7E", False)),
        (("a", "A", False), ("a", "a", False)),
    ],
)
def test_owners_that_are_written_alike_are_distinguished(
    one: tuple[str, str | None, bool], other: tuple[str, str | None, bool]
) -> None:
    ids = {names.memory_id(agent, who, inline=inline) for agent, who, inline in (one, other)}
    assert len(ids) == 2
    assert all(len(each) < 1_000 for each in ids)  # as Temporal has it


def test_a_memory_is_of_the_principal_whose_id_it_has_and_of_no_other() -> None:
    for who in ("ann", "b.c", "x" * 300, "\ud800"):
        ids = [names.memory_id("desk", who, inline=inline) for inline in (False, True)]
        assert all(names.is_memory_of(each, who) for each in ids)
        assert not any(names.is_memory_of(each, "desk") for each in ids)
    assert not names.is_memory_of("memory.ann", "ann")  # an agent's, for no principal
    assert not names.is_memory_of("a-run.desk.ann", "ann")


def test_a_principal_with_half_a_character_has_a_memory_too() -> None:
    assert names.memory_id("a", "\ud800", inline=False) == "memory.a.%ED%A0%80"
