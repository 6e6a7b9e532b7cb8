"""The heartbeat shows the end of the text, and stays small however long that is."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from temporalio.testing import ActivityEnvironment

from holdfast.activities.model.progress import (
    MAX_HEARTBEAT_CALLS,
    MAX_SHOWN_CALLS,
    Progress,
    send_heartbeats,
)
from holdfast.runtime.secrets import Secrets


def test_the_end_of_a_long_text_is_shown_with_its_offset() -> None:
    progress = Progress("t1/1", attempt=1)
    for number in range(10_000):
        progress.text(f"{number:04} ")
    details = progress.details()
    assert len(details["text"]) == 500
    assert details["text"].endswith("9998 9999 ")
    assert details["offset"] == 50_000 - 500


def test_of_each_call_the_end_of_its_arguments_is_shown() -> None:
    progress = Progress("t1/1", attempt=1)
    progress.call(0, "refund", '{"n": 1}')
    for _ in range(100):
        progress.call(1, "mail", "x" * 99 + "y")
    first, second = progress.details()["calls"]
    assert first == {"tool": "refund", "arguments": '{"n": 1}'}
    assert second == {"tool": "mail", "arguments": ("x" * 99 + "y") * 5}


def test_of_many_calls_the_last_are_shown() -> None:
    progress = Progress("t1/1", attempt=3)
    for index in range(1_000):
        progress.call(index, f"tool_{index}", "€" * 3_000)
    details = progress.details()
    assert [call["tool"] for call in details["calls"]][-1] == "tool_999"
    assert len(details["calls"]) == MAX_HEARTBEAT_CALLS
    assert len(progress.piece(0)["calls"]) == MAX_SHOWN_CALLS
    assert len(json.dumps(details)) < 12_000


def test_half_a_character_is_shown_as_such_until_the_other_half_comes() -> None:
    progress = Progress("t1/1", attempt=1)
    progress.text("\ud83d")
    assert progress.details()["text"] == ""
    progress.text("\ude00")
    assert progress.details()["text"] == "😀"


def test_what_is_secret_is_not_shown_whatever_pieces_it_comes_in() -> None:
    key = "sk-live-0123"
    progress = Progress("t1/1", attempt=1, secrets=Secrets([key]))
    for piece in ("It is sk-", "live-01", "23 ", "indeed; sk"):
        progress.text(piece)
    for index in (0, 1):
        progress.call(index, f"use_{key}", '{"key": "sk-li')
    progress.call(0, "use", 've-0123"}')
    progress.call(1, f"use_{key}", 'fe"}')
    details = progress.details()
    assert details["text"] == "It is [secret] indeed; "
    assert [call["arguments"] for call in details["calls"]] == [
        '{"key": "[secret]"}',
        '{"key": "sk-life"}',
    ]
    assert key not in json.dumps(details)


async def beats_of(progress: Progress, timeout: timedelta, pieces: int, most: int) -> list[Any]:
    """The heartbeats of an activity that receives pieces of an answer, until there are so many."""
    beats: list[Any] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = beats.append

    async def receive() -> None:
        async with asyncio.timeout(120), send_heartbeats(progress, timeout):
            for _ in range(pieces):
                progress.text("x")
                await asyncio.sleep(0.001)
            while len(beats) < most:
                await asyncio.sleep(0.001)

    await environment.run(receive)
    return beats


async def test_heartbeats_do_not_follow_the_stream() -> None:
    """Each is an Action: an answer that ends before a third of the timeout costs none."""
    assert await beats_of(Progress("t1/1", attempt=1), timedelta(hours=1), pieces=50, most=0) == []
    beats = await beats_of(Progress("t1/1", attempt=1), timedelta(seconds=1.5), pieces=50, most=2)
    assert len(beats) < 50
    assert beats[-1]["text"] == "x" * 50


async def test_a_long_wait_for_a_turn_is_in_a_heartbeat_at_once() -> None:
    """The worker may die at any time; the next attempt ignores the wait."""
    progress = Progress("t1/1", attempt=1, waited_seconds=9_000)
    [beat] = await beats_of(progress, timedelta(hours=1), pieces=0, most=1)
    assert beat["waitedSeconds"] == 9_000
