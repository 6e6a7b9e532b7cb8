"""§11: a run's events over HTTP, with what is on its way between them; resumable at any frame."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.web.pages import address
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Sent, Stage, answers, events, sent, timeless
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

LONG = "I looked it up, and there it was. " * 3


@pytest.fixture
def gate() -> threading.Event:
    """What the model waits for in the middle of its last answer."""
    return threading.Event()


@pytest.fixture
async def desk(client: Client, tmp_path: Path, gate: threading.Event) -> AsyncIterator[Backend]:
    """A backend whose model calls, writes something beside that, and then answers at length."""
    said = [Answer("I look.", calls=[call("echo", text="hi")]), Answer(LONG, hold=gate)]
    async with backend(client, tmp_path, said, **SIDE_BY_SIDE) as made:
        yield made
        gate.set()


class Reading:
    """A client that reads a stream, and all that it was sent."""

    def __init__(self, stage: Stage, run_id: str) -> None:
        self.frames: list[Sent] = []
        self.comments: list[str] = []
        self._stage, self._path = stage, f"{address('runs', run_id)}/events"

    async def until(self, event: str | None, **headers: str) -> None:
        """Read from where it is to a frame of this kind, or to the end, and leave."""
        last = {"Last-Event-ID": self.frames[-1].id} if self.frames else {}
        async with self._stage.http.stream("GET", self._path, headers=last | headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            async for each in sent(response):
                if each.comment:
                    self.comments.append(each.comment)
                elif each.event:
                    self.frames.append(each)
                if each.event == event:
                    return
        assert event is None, f"the stream ended without {event}"


async def whole(stage: Stage, run_id: str) -> list[Sent]:
    reading = Reading(stage, run_id)
    await reading.until(None)
    return reading.frames


def same(one: list[Sent], other: list[Sent]) -> bool:
    return events(one) == events(other) and answers(one) == answers(other)


async def test_a_run_is_sent_as_it_happens_to_its_one_end(
    stage: Stage, desk: Backend, gate: threading.Event
) -> None:
    run = await desk.start(["echo"])
    reading = Reading(stage, run.id)
    await reading.until("turn_start")
    following = asyncio.create_task(reading.until(None))

    async def answers_in_part() -> bool:
        return 2 in answers(reading.frames)

    await eventually(answers_in_part)
    gate.set()
    await following

    assert events(reading.frames) == timeless(await run.events())
    assert answers(reading.frames) == {1: "I look.", 2: LONG}
    assert [frame.event for frame in reading.frames].count("done") == 1
    assert reading.frames[-1].event == "done"
    assert same(reading.frames, await whole(stage, run.id))


async def test_a_client_that_was_cut_off_after_any_frame_continues_there(
    stage: Stage, desk: Backend, gate: threading.Event
) -> None:
    run = await desk.start(["echo"])
    reading = Reading(stage, run.id)
    await reading.until("tool_end")
    await reading.until("token")  # in the middle of the second answer
    middle = len(reading.frames)
    gate.set()
    await reading.until(None)
    undisturbed = await whole(stage, run.id)

    assert same(reading.frames, undisturbed)
    assert answers(reading.frames[:middle])[2] != ""
    for at in range(len(undisturbed)):
        again = Reading(stage, run.id)
        again.frames = undisturbed[: at + 1]
        if at + 1 < len(undisturbed):
            await again.until(None)
        assert same(again.frames, undisturbed), at


async def test_a_client_with_the_last_frame_receives_the_end(
    stage: Stage, desk: Backend, gate: threading.Event
) -> None:
    gate.set()
    run = await desk.start(["echo"])
    await run.result()
    frames = await whole(stage, run.id)
    path, last = f"/runs/{run.id}/events", frames[-1]

    by_id = await stage.http.get(path, headers={"last-event-id": last.id})
    by_number = await stage.http.get(path, params={"after": last.data["n"]})

    assert by_id.status_code == 204
    assert "event:" not in by_number.text
    assert by_number.status_code == 200


@pytest.mark.parametrize("how", ["terminated", "cancelled", "failed"])
async def test_every_end_is_sent_once(stage: Stage, desk: Backend, how: str) -> None:
    run = await _ended(desk, how)

    frames = await whole(stage, run.id)

    assert [one.event for one in frames if one.event in ("done", "error")] == ["error"]
    assert frames[-1].data["code"] == {"failed": "invalid_request"}.get(how, how)
    again = await stage.http.get(f"/runs/{run.id}/events", headers={"last-event-id": frames[-1].id})
    assert again.status_code == 204


async def _ended(desk: Backend, how: str) -> Run:
    if how == "failed":
        run = await desk.start(["nothing_of_this_name"])
        await run.failure()
        return run
    run = await desk.start([{"_tool": "echo", "_approval": {"require": "always"}}])
    await run.waiting()
    if how == "terminated":
        await run.handle.terminate(reason="enough")
    else:
        await run.handle.cancel()
    return run


async def test_the_progress_of_a_tool_is_sent_while_it_works(
    stage: Stage, client: Client, tmp_path: Path
) -> None:
    said = [Answer(calls=[call("telling", steps=2)]), Answer("Done.")]
    async with backend(client, tmp_path, said, **SIDE_BY_SIDE) as made:
        run = await made.start(["telling"])
        reading = Reading(stage, run.id)
        await reading.until("tool_update")
        tools.write("open telling")
        await reading.until(None)

    update = next(one.data for one in reading.frames if one.event == "tool_update")
    assert (update["callId"], update["turn"], update["attempt"]) == ("t1c1", 1, 1)
    assert update["details"] == {"step": 1, "of": 2}
    assert events(reading.frames)[-1]["type"] == "done"


async def test_a_run_that_continues_as_new_is_one_stream(
    stage: Stage, client: Client, tmp_path: Path
) -> None:
    turns = [Answer(f"Look {n}.", calls=[call("echo", text=str(n))]) for n in range(5)]
    settings: dict[str, Any] = {**SIDE_BY_SIDE, "continue_after": 25}
    async with backend(client, tmp_path, [*turns, Answer("Done.")], **settings) as made:
        run = await made.start(["echo"])
        frames = await whole(stage, run.id)
        assert await run.result()
        page = (await stage.get(f"/run/{run.id}")).text

    assert all(said in page for said in ("Look 0.", "Look 4.", "Completed.")), "it is one page too"
    first = await client.get_workflow_handle(run.id).describe()
    assert first.raw_description.workflow_execution_info.first_run_id != first.run_id
    assert answers(frames) == {n + 1: f"Look {n}." for n in range(5)} | {6: "Done."}
    assert [one["n"] for one in events(frames)] == list(range(1, len(events(frames)) + 1))
