"""Server-sent events as a client reads them, and what those of a run add up to."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Sent:
    """One frame; `comment` is one that is none, and says something to people."""

    id: str = ""
    event: str = ""
    data: Any = None
    comment: str = ""
    retry: str = ""


async def sent(response: httpx.Response) -> AsyncIterator[Sent]:
    """The frames of a response, as they come."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield _frame(fields)
            fields = {}


def _frame(fields: dict[str, str]) -> Sent:
    assert fields.keys() <= {"id", "event", "data", "", "retry"}, fields
    data = json.loads(fields["data"]) if "data" in fields else None
    if data is not None:
        assert data["type"] == fields["event"]
    return Sent(
        fields.get("id", ""),
        fields.get("event", ""),
        data,
        fields.get("", ""),
        fields.get("retry", ""),
    )


def events(frames: Iterable[Sent]) -> list[dict[str, Any]]:
    """The events of a run, without what is between them, and without their times."""
    return timeless(one.data for one in frames if one.data is not None and "n" in one.data)


def timeless(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without their times: who looks on hears of one in the middle of its workflow task,
    and where that is done over, the event comes a few milliseconds later."""
    return [{name: value for name, value in one.items() if name != "at"} for one in events]


def answers(frames: Iterable[Sent]) -> dict[int, str]:
    """What the model said in each turn: the tokens of the last attempt, joined without a gap."""
    found: dict[int, tuple[int, str]] = {}
    for one in frames:
        if one.event == "token":
            data = one.data
            attempt, text = found.get(data["turn"], (0, ""))
            assert data["attempt"] >= attempt, "an attempt that was over goes on"
            text = text if data["attempt"] == attempt else ""
            assert data["offset"] == len(text), "a gap or a repeat"
            found[data["turn"]] = (data["attempt"], text + data["text"])
    return {turn: text for turn, (_, text) in found.items()}
