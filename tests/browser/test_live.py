"""A run in a browser, as it happens (§11): at a desk and on a phone, with scripts and without."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Dialog, Route, ViewportSize, expect
from temporalio.client import Client, WorkflowHandle

from holdfast.web.run import routes
from tests.browser.window import DESKTOP, PHONE, SEEN, check, fits, window
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.browser

HELD = threading.Event()
# What another call reports of itself, and what is in the page then.
_TELL_ANOTHER = """
() => {
  tell({call: "t9c9", text: "what another says"});
  return document.getElementById("now").textContent;
}
"""
# What the server sends that cannot look at the run.
_TROUBLE = """
(text) => stream.dispatchEvent(new MessageEvent("trouble", {data: JSON.stringify({text})}))
"""
ANSWERS = [
    Answer(
        "Let me see.", [call("echo", text="hi " * 300), call("pay", amount=20)], usage=(900, 40)
    ),
    Answer("Twenty euros are **on their way**.", hold=HELD),
]
# Whether a form was sent so long ago that a further click is no second tap.
_IS_LATER = "performance.now() - document.querySelector('[data-sent]').dataset.sent > DOUBLE_MS"

# Streams that never connect again. The next answer starts before the news of the last one load: of
# one that was streamed, and of one that never was.
_SECOND = """event: token
data: {"key": "b", "turn": 2, "text": "Second."}

"""
_NEXT_ANSWERS = {
    "streamed": f"""retry: 600000
event: token
data: {{"key": "a", "turn": 1, "text": "First."}}

event: changed
data: {{"answered": true}}

{_SECOND}""",
    "never streamed": f"""retry: 600000
{_SECOND}event: changed
data: {{"answered": false}}

""",
}


@pytest.fixture(scope="module")
async def stage(client: Client) -> AsyncIterator[Stage]:
    """An inbox with Ann signed in."""
    async with inbox(client, temporal_ui="http://127.0.0.1:8233") as made:
        yield made


@pytest.fixture
async def run(
    client: Client,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Run]:
    """A run that waiting for approval, and whose model then stops in the middle of its answer."""
    monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(tmp_path / "ledger"))
    HELD.clear()
    async with backend(client, tmp_path, ANSWERS, **SIDE_BY_SIDE) as made:
        run = await made.start(
            ["echo", "pay"],
            input="Pay Ada twenty euros.",
            principal={"id": "ada"},
            agent={"budget": {"maxTokens": 1000}},
        )
        await run.waiting()
        yield run
        HELD.set()


@pytest.mark.parametrize(
    ("size", "at_end"), [(DESKTOP, False), (PHONE, True)], ids=["desk", "phone"]
)
async def test_it_is_followed_to_its_end_and_nothing_moves_under_the_reader(
    browser: Browser, stage: Stage, run: Run, size: ViewportSize, at_end: bool
) -> None:
    async with window(browser, stage, size, dark=at_end) as page:
        await page.goto(f"/run/{run.id}")
        now, log = page.locator("#now"), page.locator("#entries")
        await expect(now).to_contain_text("Approval needed: Pay (t1c2).")
        await expect(now).to_contain_text("Expires in 7 d, then it is denied.")
        await check(page)
        await page.get_by_text("Budget", exact=False).first.click()
        await page.get_by_text("Send a message").click()
        await page.get_by_label("Message").fill("Quick, please.")
        await page.get_by_label("When the run would end").check()
        if at_end:
            await page.get_by_role("link", name="Cancel the run").scroll_into_view_if_needed()
        else:
            await page.evaluate("scrollTo(0, 0)")
        first = await page.locator("#e1").element_handle()
        await run.decide("t1c2", "approve", by="grace")
        writing = page.locator("#writing")
        await expect(writing).to_contain_text("Twenty euros are **on their way**.")
        await expect(log).to_contain_text("t1c2 Pay: approved by grace (unverified)")
        await expect(page.get_by_label("When the run would end")).to_be_checked()
        await check(page)
        HELD.set()
        await expect(now).to_contain_text("Completed.")
        await expect(writing).to_be_hidden()
        await expect(log).to_contain_text("t1c2 Pay: approved by grace (unverified)")
        await expect(log.get_by_text("Twenty euros are **on their way**.")).to_have_count(1)
        await expect(page.get_by_role("columnheader", name="Remaining")).to_be_visible()
        await expect(page.get_by_label("Message")).to_have_value("Quick, please.")
        await expect(page.locator("#act")).to_contain_text("it accepts no more messages")
        assert first is not None
        assert await first.evaluate("one => one.isConnected"), "what stood is not drawn again"
        left = await page.evaluate("document.documentElement.scrollHeight - innerHeight - scrollY")
        assert left < 200 if at_end else left > 200
        await check(page)


async def test_the_progress_of_a_call_appears_while_it_runs(
    client: Client,
    browser: Browser,
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(tmp_path / "ledger"))
    said = [Answer(calls=[call("telling", steps=3)]), Answer("Done.")]
    async with (
        backend(client, tmp_path, said, **SIDE_BY_SIDE) as made,
        window(browser, stage) as page,
    ):
        run = await made.start(["telling"])
        await page.goto(f"/run/{run.id}")
        now = page.locator("#now")
        await expect(now).to_contain_text('{"step": 1, "of": 3}')
        assert "what another says" not in await page.evaluate(_TELL_ANOTHER)
        tools.write("step telling")
        # Before a next attempt has the page drawn again.
        await expect(now).to_contain_text('{"step": 2, "of": 3}')
        await expect(now).not_to_contain_text('{"step": 1')
        await check(page)
        tools.write("open telling")
        await expect(now).to_contain_text("Completed.")


async def test_a_page_shows_what_is_wrong_and_a_hidden_one_holds_no_connection(
    browser: Browser, stage: Stage, run: Run
) -> None:
    over: list[str] = []
    async with window(browser, stage) as page:
        for end in ("requestfinished", "requestfailed"):
            page.on(end, lambda request: over.append(request.url))
        await page.goto(f"/run/{run.id}")
        await expect(page.locator("#now")).to_contain_text("Approval needed: Pay (t1c2).")
        await page.evaluate(_TROUBLE, "Temporal does not answer.")
        await expect(page.locator("#trouble")).to_have_text("Temporal does not answer.")
        await page.evaluate(SEEN, False)

        async def has_left() -> bool:
            return any("/changes" in url for url in over)

        await eventually(has_left)
        HELD.set()
        await run.decide("t1c2", "approve", by="grace")
        await run.result()
        await page.evaluate(SEEN, True)
        await expect(page.locator("#now")).to_contain_text("Completed.")
        await expect(page.locator("#trouble")).to_be_hidden()


async def test_a_form_is_sent_once_and_again_after_a_stop(
    browser: Browser, stage: Stage, run: Run
) -> None:
    sent: list[Route] = []

    async def hold(route: Route) -> None:
        sent.append(route)

    async def is_sent(times: int) -> bool:
        return len(sent) == times

    async with window(browser, stage) as page:
        await page.route("**/message", hold)
        asked: list[Dialog] = []

        async def accept(dialog: Dialog) -> None:
            asked.append(dialog)
            await dialog.accept()

        page.on("dialog", accept)
        await page.goto(f"/run/{run.id}")
        await page.get_by_text("Send a message").click()
        await page.get_by_label("Message").fill("Quick, please.")
        send = page.get_by_role("button", name="Send", exact=True)
        await send.evaluate("(button) => { button.click(); button.click(); }")
        await eventually(lambda: is_sent(1))
        await sent[0].abort("aborted")  # as a person stops the browser
        await page.get_by_label("Message").fill("Now, please.")
        await send.evaluate("(button) => button.click()")
        await eventually(lambda: is_sent(2))
        assert not asked
        await sent[1].abort("aborted")
        await eventually(lambda: page.evaluate(_IS_LATER))
        await send.evaluate("(button) => button.click()")
        await eventually(lambda: is_sent(3))
        assert len(asked) == 1
        await sent[2].abort("aborted")


async def test_its_log_comes_as_soon_as_a_worker_is_there(
    client: Client,
    browser: Browser,
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "PAGE_SECONDS", 0.2)
    run = await _without_worker(client, "run-late")
    async with window(browser, stage) as page:
        await page.goto(f"/run/{run.id}")
        await expect(page.locator("#none")).to_contain_text("has not answered")
        settings = SIDE_BY_SIDE | {"task_queue": "run-late"}
        async with backend(client, tmp_path, [Answer("Paid.")], **settings):
            await expect(page.locator("#now")).to_contain_text("Completed.")
        await expect(page.locator("#entries")).to_contain_text("Paid.")
        await expect(page.locator("#none")).to_have_count(0)
        await expect(page.locator("#earlier")).to_have_count(1)


@pytest.mark.parametrize("first", _NEXT_ANSWERS)
async def test_news_of_an_answer_leave_the_text_of_the_next(
    client: Client, browser: Browser, stage: Stage, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(routes, "PAGE_SECONDS", 0.2)
    run = await _without_worker(client, "run-next")
    entries = '<ol id="entries" data-last="" data-more="" data-answered="yes">'
    answers = iter(["", '<li id="e1" class="of-model" data-turn="1">First.</li>'])
    async with window(browser, stage) as page:

        async def news(route: Route) -> None:
            await expect(page.locator("#said")).to_have_text("Second.")
            await route.fulfill(content_type="text/html", body=entries + next(answers) + "</ol>")

        async def changes(route: Route) -> None:
            await route.fulfill(content_type="text/event-stream", body=_NEXT_ANSWERS[first])

        await page.route("**/news*", news)
        await page.route("**/changes*", changes)
        await page.goto(f"/run/{run.id}")
        await expect(page.locator("#entries")).to_have_text("First.")
        await expect(page.locator("#said")).to_have_text("Second.")
        await expect(page.locator("#writing")).to_be_visible()
    await run.terminate()


async def test_what_is_earlier_is_put_before_what_is_shown(
    client: Client, browser: Browser, stage: Stage, tmp_path: Path
) -> None:
    said = [{"role": "user", "content": f"message {n}"} for n in range(1, 151)]
    async with backend(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        run = await made.start(context=said)
        await run.result()
        async with window(browser, stage) as page:
            await page.goto(f"/run/{run.id}")
            lines = page.locator("#entries > li.is-said")
            shown = await lines.count()
            await page.get_by_role("link", name="Earlier").click()
            await expect(lines.first).to_contain_text("message 1")
            assert await lines.count() > shown
            await expect(page.get_by_role("link", name="Earlier")).to_have_count(0)


async def _without_worker(client: Client, id_: str) -> WorkflowHandle[Any, Any]:
    agent = {"name": "late", "instructions": "Test.", "model": {"endpoint": "fake", "name": "f"}}
    asked = {"agent": agent, "input": "Pay Ada."}
    return await client.start_workflow("AgentWorkflow", asked, id=id_, task_queue=id_)


async def test_two_runs_are_compared_from_the_page_of_one(
    browser: Browser, stage: Stage, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))

    def answer(_: int, body: dict[str, Any]) -> Answer:
        has_result = any(one["role"] == "tool" for one in body["messages"])
        return Answer("Done.") if has_result else Answer(calls=[call("echo", text="hi")])

    async with backend(client, tmp_path, answer, **SIDE_BY_SIDE) as made:
        runs = [await made.start(["echo"], input=text) for text in ("One", "Two")]
        for run in runs:
            await run.result()
        for size, dark, scripts in ((PHONE, True, True), (DESKTOP, False, False)):
            async with window(browser, stage, size, dark=dark, scripts=scripts) as page:
                await page.goto(f"/run/{runs[0].id}")
                await page.get_by_role("link", name="Compare").click()
                await page.get_by_label("Id of the other run").fill(runs[1].id)
                await page.get_by_role("button", name="Compare").click()
                await expect(page.get_by_text("The runs are equal.")).to_be_visible()
                await expect(page.get_by_role("deletion")).to_contain_text("user: One")
                if scripts:
                    assert await fits(page)
                    await check(page)
