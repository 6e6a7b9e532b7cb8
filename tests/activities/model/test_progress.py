"""The heartbeat shows the end of what was said, and stays small however much that is."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from holdfast.activities.model import progress as progress_module
from holdfast.activities.model.progress import (
    MAX_SHOWN_CALLS,
    Progress,
    RedactingSink,
    send_heartbeats,
)
from holdfast.runtime.secrets import Secrets


def test_the_end_of_a_long_text_is_shown_with_what_stands_before_it() -> None:
    progress = Progress(attempt=1)
    for number in range(10_000):
        progress.text(f"{number:04} ")
    details = progress.details()
    assert len(details["text"]) == 16_000
    assert details["text"].endswith("9998 9999 ")
    assert details["offset"] == 50_000 - 16_000


def test_of_each_call_the_end_of_its_arguments_is_shown() -> None:
    progress = Progress(attempt=1)
    progress.call(0, "refund", '{"n": 1}')
    for _ in range(100):
        progress.call(1, "mail", "x" * 99 + "y")
    first, second = progress.details()["calls"]
    assert first == {"tool": "refund", "arguments": '{"n": 1}'}
    assert second == {"tool": "mail", "arguments": ("x" * 99 + "y") * 20}


def test_of_many_calls_the_last_are_shown() -> None:
    progress = Progress(attempt=3)
    for index in range(1_000):
        progress.call(index, f"tool_{index}", "€" * 3_000)
    details = progress.details()
    assert [call["tool"] for call in details["calls"]][-1] == "tool_999"
    assert len(details["calls"]) == MAX_SHOWN_CALLS
    assert len(json.dumps(details)) < 500_000


def test_half_a_character_is_shown_as_such_until_the_other_half_comes() -> None:
    progress = Progress(attempt=1)
    progress.text("\ud83d")
    assert progress.details()["text"] == "�"
    progress.text("\ude00")
    assert progress.details()["text"] == "😀"


def test_what_is_secret_is_not_shown_whatever_pieces_it_comes_in() -> None:
    key = "sk-live-0123"
    progress = Progress(attempt=1)
    sink = RedactingSink(progress, Secrets([key]))
    for piece in ("It is sk-", "live-01", "23 ", "indeed; sk"):
        sink.text(piece)
    for index in (0, 1):
        sink.call(index, f"use_{key}", '{"key": "sk-li')
    sink.call(0, "use", 've-0123"}')
    sink.call(1, f"use_{key}", 'fe"}')
    details = progress.details()
    assert details["text"] == "It is [secret] indeed; "
    assert [call["arguments"] for call in details["calls"]] == [
        '{"key": "[secret]"}',
        '{"key": "sk-life"}',
    ]
    assert key not in json.dumps(details)


async def test_the_first_heartbeat_waits_for_no_news_and_the_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "MIN_PAUSE_SECONDS", 0.001)
    beats: list[dict[str, Any]] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = beats.append

    async def silent() -> None:
        progress = Progress(attempt=1)
        async with asyncio.timeout(5), send_heartbeats(progress, timedelta(hours=1)):
            while not beats:
                await asyncio.sleep(0.001)
            for _ in range(20):  # in which it could beat again, and has nothing to tell
                await asyncio.sleep(0.001)
            progress.text("Hello")
            while len(beats) < 2:
                await asyncio.sleep(0.001)

    await environment.run(silent)
    assert [beat["text"] for beat in beats] == ["", "Hello"]
