"""The page of one run (§11): what it shows of one that works, waits, fails, ends or is missing."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client import remote_run as run_asked
from holdfast.web.run import routes
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

PICTURE = "iVBORw0KGgo="
ASK = {
    "_tool": "ask",
    "_label": "Ask the clerk",
    "_delegate": "anonymous",
    "properties": {"question": {"type": "string"}},
}


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    async with inbox(client, temporal_ui="http://127.0.0.1:8233") as made:
        yield made


def entries(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<li id="e(\d+)"', page)]


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


async def shown(stage: Stage, run: Run, path: str = "") -> str:
    answer = await stage.get(f"/run/{run.id}{path}")
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_it_shows_what_happens_what_led_to_it_and_what_it_cost(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    answers = [Answer("I see.", [call("echo", text="hi"), call("pay", amount=20)]), Answer("Paid.")]
    async with backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made:
        run = await made.start(["echo", "pay"], principal={"id": "ada"}, budget={"maxCalls": 2})
        await run.waiting()

        async def first_has_ended() -> str | None:
            page = await shown(stage, run)
            return page if "t1c1 echo : finished" in text(page) else None

        page = await eventually(first_has_ended)
        assert f'href="/waiting/{run.id}/t1c2"' in page
        assert f"http://127.0.0.1:8233/namespaces/default/workflows/{run.id}" in page
        assert "1 turn, 2 calls, 10 tokens in, 5 out, cost unknown" in text(page)
        await run.decide("t1c2", "deny", by="grace", reason="not today")
        await run.result()
        read = text(await shown(stage, run))
        assert "Output Paid." in read
        assert "t1c2 Pay: denied by grace (unverified)" in read


async def test_news_are_what_stands_after_a_number_and_how_it_stands_now(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    answers = [Answer(calls=[call("pay", amount=20)]), Answer("Paid.")]
    async with backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        page = await shown(stage, run)
        [last] = re.findall(r'data-last="(\d+)"', page)
        assert int(last) == len(await run.context())
        await run.decide("t1c1", "approve", by="grace")
        await run.result()
        news = await shown(stage, run, f"/news?after={last}")
        assert min(entries(news)) > int(last)
        assert "t1c1 Pay: approved by grace (unverified)" in text(news), (
            "it is named as it was before"
        )
        assert "Completed." in text(news)
        assert "The run has ended" in text(news)
        assert entries(await shown(stage, run, "/news?after=9000")) == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/run/unknown", 404, "There is no run unknown"),
        ("/run/unknown/news?after=1", 404, "There is no run unknown"),
        ("/run/un%E2%80%AEknown", 404, "There is no run unknown"),
        ("/run/unknown?before=x", 400, "before must be the number of an entry, such as 100."),
        ("/run/unknown/news?after=-1", 400, "after must be the number"),
        ("/run/unknown/entry/3", 404, "There is no run unknown"),
    ],
)
async def test_a_missing_page_is_reported(stage: Stage, path: str, status: int, said: str) -> None:
    answer = await stage.get(path)
    assert (answer.status_code, said in text(answer.text)) == (status, True), answer.text
    if status == 404:
        assert "unknown; see the pending approvals, or the runs." in text(answer.text)
        assert "holdfast list" not in answer.text


async def test_a_delegate_and_its_run_lead_to_each_other(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    def answer(turn: int, body: dict[str, Any]) -> Answer:
        if not body.get("tools"):
            return Answer("In Hamburg.")
        return Answer(calls=[call("ask", question="Where?")]) if turn == 1 else Answer("Done.")

    async with backend(client, tmp_path, answer, **SIDE_BY_SIDE) as made:
        run = await made.start([ASK])
        await run.result()

        async def listed() -> str | None:
            page = await shown(stage, run)
            return page if "t1c1 by ask completed" in text(page) else None

        page = await eventually(listed)
        assert text(page).count("t1c1 by ask") == 1
        assert f'href="/run/{run.id}.t1c1"' in page
        child = await shown(stage, run.delegate("t1c1"))
        assert f'Executes</dt><dd>t1c1 of <a href="/run/{run.id}">' in child
        assert "Delegates" not in child


async def test_pictures_entries_and_state_are_had_whole(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    parts = [
        {"type": "image", "mediaType": "image/png", "data": PICTURE},
        {"type": "text", "text": "x" * 5_000},
    ]
    async with backend(
        client, tmp_path, [Answer(calls=[call("look_up", id=7)]), Answer("Done.")], **SIDE_BY_SIDE
    ) as made:
        run = await made.start(["look_up"], context=[{"role": "user", "content": parts}])
        await run.result()
        assert "x" * 4_001 not in await shown(stage, run)
        assert "x" * 5_000 in await shown(stage, run, "/entry/1")
        seen = await stage.get(f"/run/{run.id}/file/1/0")
        assert seen.content == b"\x89PNG\r\n\x1a\n"
        assert seen.headers["content-type"] == "image/png"
        assert seen.headers["content-security-policy"] == "default-src 'none'; sandbox"
        for nothing in ("file/1/1", "file/2/0", "entry/0", "entry/9000"):
            assert (await stage.get(f"/run/{run.id}/{nothing}")).status_code == 404
        assert "item 7" in text(await shown(stage, run, "/state"))


async def test_without_a_worker_it_shows_soon_what_temporal_has(
    client: Client, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_asked, "NO_WORKER_SECONDS", 2.0)
    monkeypatch.setattr(routes, "PAGE_SECONDS", 0.2)
    answers = [Answer(calls=[call("pay", amount=20)]), Answer("Paid.")]
    async with backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made:
        run, ended = await made.start(["pay"]), await made.start(["pay"])
        await run.waiting()
        await ended.waiting()
        await ended.decide("t1c1", "deny")
        await ended.result()
    page = await stage.get(f"/run/{run.id}")
    assert "Waiting for approval: pay." in text(page.text)
    assert "The run has not answered the query for its log." in text(page.text)
    assert "does not answer" not in text(page.text), "it has not waited until that was clear"
    news = text(await shown(stage, run, "/news"))
    assert "A worker does not answer, though one polled task queue" in news, news
    over = text((await stage.get(f"/run/{ended.id}")).text)
    assert "Output Paid." in over
    assert "2 turns, 1 call, 20 tokens in, 10 out" in over
    await run.handle.terminate(reason="enough of it")
    over = text((await stage.get(f"/run/{run.id}")).text)
    assert "Terminated." in over
    assert "enough of it" in over
