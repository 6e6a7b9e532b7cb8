"""What a page receives of a run while it is open (§11): its changes, and the text being written."""

import asyncio
import json
import math
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.errors import NO_SUCH, UNREACHABLE, EncryptedError, HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.stream.heartbeats import AnswerProgress, CallProgress
from holdfast.client.stream.run_watch import RunDescription, RunWatches
from holdfast.client.stream.text_reader import StreamCursor, TextDelta, TextReader
from holdfast.web.auth.sessions import Person
from holdfast.web.http.streaming import SessionEnd, page_stream
from holdfast.web.run import routes
from holdfast.web.run.routes import RunPages, run_frames, token
from holdfast.web.services import Services
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import Stage, watches
from tests.support.model_server import Answer
from tests.web.conftest import FULL_FOR_ANN


def streaming(text: str, key: str = "1/1", offset: int = 0, **more: Any) -> AnswerProgress:
    return AnswerProgress(key, 1, text, offset, more.pop("calls", []), **more)


def received(reader: TextReader, one: AnswerProgress) -> dict[str, Any]:
    reader.is_over(one)
    part, about = reader.read(one, skips=True), ("key", "turn", "attempt")
    sent = {} if part is None else token(one, part)
    return {name: value for name, value in sent.items() if name not in about}


CALLS = [{"tool": "pay", "arguments": '{"amou'}]
COMPOSED = '{"calls": [], "output": "I re\u202efund'


@pytest.mark.parametrize(
    "looks",
    [
        [
            (streaming("Good"), {"text": "Good", "gap": False}),
            (streaming("Good"), {}),
            (streaming("Good day"), {"text": " day", "gap": False}),
        ],
        [
            (streaming("in the middle", offset=100), {"text": "in the middle", "gap": True}),
            (streaming("dle, and on", offset=110), {"text": ", and on", "gap": False}),
            (streaming("late", offset=500), {"text": "late", "gap": True}),
            (streaming("x" * 500 + "late"), {"whole": "x" * 500 + "late"}),
            (streaming("x" * 500 + "later"), {"text": "r", "gap": False}),
        ],
        [
            (streaming("", calls=CALLS), {"calls": ['pay {"amou']}),
            (streaming("", calls=CALLS), {}),
        ],
        [
            (streaming(COMPOSED, composed=True), {"whole": "I refund"}),
            (streaming(COMPOSED, composed=True), {}),
            (streaming(COMPOSED + 'ed"', composed=True), {"whole": "I refunded"}),
        ],
        [(streaming("I re\u202efund\u2066"), {"text": "I refund", "gap": False})],
    ],
    ids=["once", "missed", "calls", "composed", "unseen"],
)
def test_every_piece_of_an_answer_is_sent_once(
    looks: list[tuple[AnswerProgress, dict[str, Any]]],
) -> None:
    reader = TextReader()
    for one, told in looks:
        assert received(reader, one) == told


def test_the_part_of_an_answer_names_it() -> None:
    answer = streaming("Bad", key="1/2", turn=3)
    sent = {"key": "1/2", "turn": 3, "attempt": 1, "text": "Bad", "gap": False}
    assert token(answer, TextDelta(StreamCursor(), "Bad")) == sent
    assert token(replace(answer, call="t3c1"), TextDelta(StreamCursor(), "Bad"))["turn"] is None


@dataclass
class SteppedRun(Run):
    """A run that looks as a test sets it; the last look is seen again and again."""

    steps: list[RunDescription | HoldfastError]
    looked: int = 0
    id: str = "run-1"
    _watches: RunWatches = field(default_factory=watches)

    async def observe(self) -> RunDescription:
        look = self.steps[min(self.looked, len(self.steps) - 1)]
        self.looked += 1
        if isinstance(look, HoldfastError):
            raise look
        return look


def look(length: int, *, closed: bool = False, text: str = "", attempts: int = 0) -> RunDescription:
    said = streaming(text) if text else None
    return RunDescription(("r", length), closed, said, attempts=attempts)


async def frames(seen: str, *looks: RunDescription | HoldfastError) -> list[tuple[str, Any]]:
    found = []
    async for frame in run_frames(SteppedRun(list(looks)), seen):
        parts = dict(line.split(": ", 1) for line in frame.strip().splitlines() if line[0] != ":")
        if "event" in parts:
            data = json.loads(parts["data"])
            found.append((parts["event"], parts.get("id") or data))
    return found


async def test_a_page_receives_each_change_of_a_run_until_it_is_over() -> None:
    assert await frames("r:1:0", look(1), look(2), look(2), look(3, closed=True)) == [
        *(("changed", "r:2:0"), ("changed", "r:3:0"), ("over", {}))
    ]


async def test_a_failed_attempt_is_reported_though_no_history_has_it() -> None:
    looks = [look(1, attempts=1), look(1, attempts=2), look(1, closed=True, attempts=2)]
    assert await frames("r:1:1", *looks) == [("changed", "r:1:2"), ("over", {})]


async def test_tokens_come_between_and_that_the_answer_is_there() -> None:
    looks = [look(1, text="Go"), look(1, text="Good"), look(2), look(2, closed=True)]
    found = await frames("r:1:0", *looks)
    assert [event for event, _ in found] == ["token", "token", "changed", "over"]
    assert "".join(data["text"] for event, data in found if event == "token") == "Good"


async def test_text_comes_before_what_all_pages_load_and_after_the_end_of_another_answer() -> None:
    another = replace(look(3), streaming=streaming("On", key="2/1"))
    found = await frames("r:1:0", look(2, text="Go"), another, look(3, closed=True))
    assert [event for event, _ in found] == [
        *("token", "changed", "changed", "token", "changed", "over")
    ]


async def test_an_interrupted_answer_is_over_though_the_run_has_not_changed() -> None:
    found = await frames("r:1:0", look(1, text="Go"), look(1), look(1, closed=True))
    assert [event for event, _ in found] == ["token", "changed", "over"]


async def test_the_progress_of_a_call_is_sent_when_it_differs() -> None:
    steps = [
        CallProgress("t1c1", 1, details) for details in ({"step": 1}, {"step": 1}, "nearly done")
    ]
    looks = [replace(look(1), updates=[step]) for step in steps]
    assert await frames("r:1:0", *looks, look(1, closed=True)) == [
        ("update", {"call": "t1c1", "text": '{"step": 1}'}),
        ("update", {"call": "t1c1", "text": "nearly done"}),
        ("over", {}),
    ]


async def test_trouble_is_reported_once_each_time_and_the_stream_continues() -> None:
    gone = HoldfastError("Temporal does not answer", "check it", UNREACHABLE)
    trouble = ("trouble", {"text": "Temporal does not answer; check it."})
    looks: list[RunDescription | HoldfastError] = [gone, gone, look(2), gone]
    changed = ("changed", "r:2:0")
    found = await frames("r:1:0", *looks, look(2, closed=True))
    over = ("trouble", {"text": ""})
    assert found == [trouble, over, changed, trouble, over, ("over", {})]


async def test_a_page_that_stays_open_asks_again_after_a_while(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waiting(SteppedRun):
        async def describe(self) -> Any:
            return None

    monkeypatch.setattr(routes, "page_stream", partial(page_stream, life_seconds=0.1))
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: Waiting([look(1)]))
    asked = {"type": "http", "headers": [], "query_string": b"", "path_params": {"run": "r"}}
    session = SessionEnd(math.inf, asyncio.Event())
    asked["state"] = {"person": Person("ann"), "session": session}
    for bound in ((routes, "MAX_STREAMS", 0), FULL_FOR_ANN):
        with monkeypatch.context() as full:
            full.setattr(*bound)
            answer = await RunPages(Services(HoldfastClient(nowhere))).changes(Request(asked))
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    stream = await RunPages(Services(HoldfastClient(nowhere))).changes(Request(asked))
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    async def stays() -> Any:
        await asyncio.Event().wait()

    async with asyncio.timeout(120):
        await stream(asked, stays, send)
    assert told[-1].get("more_body", False) is False


@pytest.mark.parametrize(
    "error",
    [HoldfastError("there is no run", "see", NO_SUCH), EncryptedError("no key", "name one")],
)
async def test_a_lasting_error_ends_it(error: HoldfastError) -> None:
    assert [event for event, _ in await frames("r:1:0", error)] == ["trouble", "over"]


async def test_a_returning_client_sends_its_position(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        run = await made.start()
        await run.result()
    first = await stage.get(f"/run/{run.id}/changes")
    assert first.headers["content-type"].startswith("text/event-stream")
    [place] = [line[4:] for line in first.text.splitlines() if line.startswith("id: ")]
    assert "event: over" in first.text
    again = await stage.get(f"/run/{run.id}/changes", last_event_id=place)
    assert "event: changed" not in again.text
    assert (await stage.get("/run/unknown/changes")).status_code == 404
