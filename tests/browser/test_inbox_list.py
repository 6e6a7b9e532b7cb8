"""The list of pending approvals in a real browser, wide and narrow (§13)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect
from temporalio.client import Client

from holdfast.runtime.identity.key_sets import FileKeySet
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.http.streaming import StreamLimit
from tests.browser.window import PHONE, SEEN, check, fits, fits_wide_and_narrow, window
from tests.client.crowd import Asks, Crowd
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.browser

ASKS: dict[str, Any] = {"_tool": "mail", "_label": "Send a mail", "_activity": "echo"}
ASKS["_approval"] = {"require": "always", "timeout": "30m"}
EUROS = {"type": "number", "format": "money", "currency": "EUR"}
ASKS["properties"] = {"text": {"type": "string"}, "price": EUROS}


def answer(turn: int, request: dict[str, Any]) -> Answer:
    """A model that asks for a mail, once."""
    told = any(message["role"] == "tool" for message in request["messages"])
    [text] = [each["content"] for each in request["messages"] if each["role"] == "user"]
    return Answer("Done.") if told else Answer(calls=[call("mail", text=text, price=20)])


@pytest.fixture
async def made(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Backend]:
    """A worker with a model that asks for a mail."""
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))
    async with backend(client, tmp_path, answer, **SIDE_BY_SIDE) as made:
        yield made


async def run_of(made: Backend, text: str = "hello") -> Run:
    """A run that waits, and is listed."""
    run = await made.start([ASKS], agent={"name": made.task_queue}, input=text)
    await run.waiting()
    await run.listed()
    return run


async def test_what_is_new_appears_by_itself_and_what_is_ticked_stays_so(
    browser: Browser, made: Backend, stage: Stage
) -> None:
    first, second = await run_of(made), await run_of(made)
    async with window(browser, stage) as page:
        await page.goto(f"/?agent={made.task_queue}")
        await expect(page.get_by_role("status")).to_have_text(
            "2 pending approvals that match the filter"
        )
        await check(page)
        await expect(page.locator("#bar")).to_be_hidden()
        tick = page.locator(f"[value^='{first.id}/']")
        await tick.focus()
        await page.keyboard.press("Space")
        await page.keyboard.press("Enter")  # which submits a form, by its first button
        await expect(page.locator("#ticked")).to_have_text("Send a mail")
        badge = page.locator("#badge")
        await expect(badge).to_have_text(re.compile("[0-9]"))
        counted = int(await badge.inner_text())
        third = await run_of(made)
        await expect(badge).to_have_text(str(counted + 1))
        await expect(page).to_have_title(re.compile(rf"^\({counted + 1}\) Approvals"))
        await second.decide("t1c1", "deny", reason="No.", by="bob")
        await expect(page.locator(f"[value^='{third.id}/']")).to_be_visible()
        await expect(page.locator(f"[value^='{second.id}/']")).to_have_count(0)
        await expect(tick).to_be_checked()
        await expect(tick).to_be_focused()
        await expect(page.locator("input:checked")).to_have_count(1)
        await expect(page.locator("#ticked")).to_have_text("Send a mail")
        await page.get_by_role("button", name="Approve 1: €20.00").press("Enter")
        await expect(page.get_by_role("status")).to_contain_text("accepted for 1 of 1 call")
        await check(page)
    await first.result()
    assert "tool_end t1c1" in await first.event_lines()
    assert len(await third.waiting()) == 1


# What takes a click on a button of the bar in its place, wherever the page is scrolled to.
_OVERLAID = """async () => {
  const buttons = [...document.querySelectorAll("#bar button")];
  for (let top = 0; top < document.body.scrollHeight; top += 7) {
    window.scrollTo(0, top);
    await new Promise(requestAnimationFrame);
    for (const { x, y, width, height } of buttons.map((one) => one.getBoundingClientRect()))
      for (let dx = 1; dx < width; dx += 7)
        for (let dy = 1; dy < height; dy += 7) {
          const hit = document.elementFromPoint(x + dx, y + dy);
          if (hit && !hit.closest("#bar")) return hit.outerHTML;
        }
  }
  return "";
}"""


# How often a small scroll changes a text of the bar: a screen reader reads each out.
_WRITTEN = """async () => {
  let written = 0;
  const watch = new MutationObserver((changes) => { written += changes.length; });
  const all = { childList: true, characterData: true, subtree: true };
  watch.observe(document.getElementById("bar"), all);
  for (const top of [1, 2, 0]) {
    window.scrollTo(0, top);
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  }
  return written;
}"""


async def test_the_bar_lies_on_top_and_a_call_off_the_screen_is_shown_again(
    browser: Browser, made: Backend, stage: Stage
) -> None:
    runs = [await run_of(made, f"{text} " * 40) for text in ("one", "two", "two", "three")]
    async with window(browser, stage, PHONE) as page:
        await page.goto(f"/?agent={made.task_queue}")
        await expect(page.get_by_role("checkbox")).to_have_count(4)
        boxes = [page.locator(f"[value^='{run.id}/']") for run in runs]
        await boxes[0].check()
        assert await page.evaluate(_OVERLAID) == ""
        await boxes[3].check()
        await page.evaluate("window.scrollTo(0, 0)")
        await expect(page.locator("#ticked")).to_have_text(
            "2 × Send a mail (1 not on the screen: shown again first)"
        )
        assert await page.evaluate(_WRITTEN) == 0
        await check(page)
        place = await page.locator("#bar .main").bounding_box()
        assert place is not None
        await page.get_by_role("button", name="Approve 2: €40.00").click()
        await expect(page.get_by_role("alert")).to_contain_text("Nothing is decided yet.")
        await expect(page.get_by_text("was not on your screen")).to_have_count(1)
        await check(page)
        assert await fits(page)
        for _ in range(2):  # at the same place, there is nothing
            await page.mouse.click(place["x"] + 9, place["y"] + 9)
        await expect(page.get_by_role("alert")).to_contain_text("Nothing is decided yet.")
        await page.get_by_role("button", name="Approve 2: 2 × Send a mail · €40.00").click()
        await expect(page.get_by_role("status")).to_contain_text("accepted for 2 of 2 calls")
        await check(page)
        await page.mouse.click(place["x"] + 9, place["y"] + 9)
        await expect(page.get_by_role("status")).to_contain_text("accepted for 2 of 2 calls")
    assert [len(await run.waiting()) for run in runs[1:3]] == [1, 1]


async def test_keys_move_and_open_and_only_a_button_decides(
    browser: Browser, made: Backend, stage: Stage
) -> None:
    first, second = await run_of(made), await run_of(made)
    async with window(browser, stage) as page:
        await page.goto(f"/?agent={made.task_queue}")
        titles, press = page.locator(".row a.title"), page.keyboard.press
        await expect(titles).to_have_count(2)
        for key, focused in (("j", 0), ("j", 1), ("j", 1), ("k", 0)):
            await press(key)
            await expect(titles.nth(focused)).to_be_focused()
        await press("x")
        await expect(page.get_by_role("checkbox", checked=True)).to_have_count(1)
        await press("d")
        await expect(page.get_by_role("button", name="Deny…")).to_be_focused()
        await press("/")
        await page.keyboard.type("jxd?")
        await expect(page.get_by_role("searchbox")).to_have_value("jxd?")
        await titles.nth(0).focus()
        await press("x")
        await press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        await check(page)
        await press("Escape")
        await press("a")
        await expect(page.get_by_role("button", name="Approve")).to_be_focused()
        await expect(page).to_have_url(re.compile(f"/waiting/{second.id}/t1c1#key-a$"))
        await press("d")
        await expect(page.get_by_role("button", name="Deny")).to_be_focused()
        await press("?")
        await page.get_by_label("Use these keys").uncheck()
        await press("Escape")
        await press("a")
        await expect(page.get_by_role("button", name="Approve")).not_to_be_focused()
    assert len(await first.waiting()) == len(await second.waiting()) == 1


async def test_identical_calls_take_a_second_step_without_scripts_too(
    browser: Browser, made: Backend, stage: Stage
) -> None:
    first, second = await run_of(made), await run_of(made)
    async with window(browser, stage, PHONE, scripts=False) as page:

        async def has_answers() -> bool:  # a page without scripts does not wait for them
            await page.goto(f"/?agent={made.task_queue}")
            return await page.locator(".row .brief").count() == 2

        await eventually(has_answers)
        await page.locator(".row").first.click()
        await expect(page).to_have_url(re.compile("/waiting/"))
        await page.goto(f"/?agent={made.task_queue}")
        for run in (first, second):
            await page.locator(f"[value^='{run.id}/']").check()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("alert")).to_contain_text("Nothing is decided yet.")
        assert await fits(page)
        await expect(page.get_by_role("checkbox", name=second.id)).to_be_checked()
        await expect(page.get_by_role("checkbox", name=first.id)).not_to_be_checked()
        await page.get_by_role("button", name="Approve what is ticked").click()
        await expect(page.get_by_role("status")).to_contain_text("accepted for 1 of 1 call")
    await second.result()
    assert len(await first.waiting()) == 1


async def test_a_page_without_a_connection_shows_that_until_it_has_one(
    browser: Browser, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await browser.new_page(base_url=stage.address)
    await page.context.add_cookies(stage.cookies())
    with monkeypatch.context() as crowded:
        crowded.setattr(StreamLimit, "is_full", lambda *_: True)
        await page.goto("/?agent=nobody-of-this-name")
        lost = page.get_by_text("The connection is lost")
        await expect(lost).to_be_visible()
    await expect(lost).to_be_hidden()
    await page.close()


async def test_a_hidden_list_or_call_holds_no_connection_and_misses_nothing(
    browser: Browser, made: Backend, stage: Stage
) -> None:
    first = await run_of(made)
    async with window(browser, stage) as page:
        sent, over = list[str](), list[str]()
        page.on("request", lambda request: sent.append(request.url))
        for end in ("requestfinished", "requestfailed"):
            page.on(end, lambda request: over.append(request.url))

        async def is_closed() -> bool:
            return any("/changes" in url for url in over)

        await page.goto(f"/?agent={made.task_queue}")
        await expect(page.locator(f"[value^='{first.id}/']")).to_be_visible()
        second = await run_of(made)
        shown = page.locator(f"[value^='{second.id}/']")
        await expect(shown).to_be_visible()
        await page.evaluate(SEEN, False)
        await eventually(is_closed)
        third = await run_of(made)
        await page.evaluate(SEEN, True)
        await expect(page.locator(f"[value^='{third.id}/']")).to_be_visible()
        await expect(page.locator("#lost")).to_be_hidden()
        places = [url.partition("&seen=")[2] for url in sent if "/changes" in url]
        assert len({*places}) == 2, "what the page has received is not sent again"

        await page.goto(f"/waiting/{first.id}/t1c1")
        over.clear()
        await page.evaluate(SEEN, False)
        await eventually(is_closed)
        await first.decide("t1c1", "deny", reason="No.", by="bob")
        await page.evaluate(SEEN, True)
        await expect(page.locator("#news")).to_contain_text("Denied by bob")
        sent.clear()
        for is_seen in (False, True):  # of a closed call, nothing more is received
            await page.evaluate(SEEN, is_seen)
        assert await page.evaluate("fetch('/static/events.js').then(({ ok }) => ok)")
        assert not [url for url in sent if "/changes" in url]


async def test_every_list_is_accessible(
    browser: Browser, crowd: Crowd, made: Backend, stage: Stage
) -> None:
    run = await run_of(made)
    await crowd.start([Asks(f"{'a-very-long-name' * 6}/{n}", groups=["ops"]) for n in range(2)])
    async with window(browser, stage, PHONE) as page:
        for address in (
            f"/?agent={crowd.agent}",
            f"/?agent={made.task_queue}",
            "/?agent=nobody-of-this-name",
            f"/run?agent={crowd.agent}",
        ):
            await page.goto(address)
            await check(page)
            assert await fits(page), address
        await page.goto(f"/?run={run.id}")
        await page.get_by_role("checkbox").check()
        await page.get_by_role("button", name="Deny…").click()
        await expect(page.get_by_role("heading", name="Deny", exact=True)).to_be_visible()
        await check(page)
        assert await fits(page)


async def test_axe_finds_what_is_wrong_in_either_theme(browser: Browser) -> None:
    page = await browser.new_page(color_scheme="light")
    dark = "@media (prefers-color-scheme: dark) { p { color: #333; background: #222 } }"
    await page.set_content(f"<title>x</title><style>{dark}</style><img src='data:,'><p>Approve</p>")
    with pytest.raises(AssertionError, match=r"image-alt: .*\n    img\n(.*\n)*  color-contrast: "):
        await check(page)
    await page.close()


async def test_a_claim_is_seen_live_and_is_no_lock(
    browser: Browser, client: Client, made: Backend, tmp_path: Path
) -> None:
    ben = Approver()
    file = write_keys(tmp_path / "keys.json", ben)
    keys = FileKeySet("programs", KeySet(file=str(file)), file)
    run = await run_of(made)
    async with inbox(client, tokens=[keys]) as stage, window(browser, stage, PHONE) as page:

        async def ben_claims() -> None:
            sent = {"authorization": f"Bearer {ben.program('ben')}"}
            path = f"/runs/{run.id}/claims"
            async with httpx.AsyncClient(base_url=stage.address, headers=sent) as http:
                answer = await http.post(path, json={"callId": "t1c1"})
            assert answer.status_code == 200, answer.text

        await page.goto(f"/?agent={made.task_queue}")
        row = page.locator(".row")
        await expect(row).not_to_contain_text("looking at this")
        await ben_claims()
        await expect(row).to_contain_text(re.compile("ben is looking at this until .* UTC"))
        await check(page)
        assert await fits(page)
        await row.get_by_role("button", name="Claim").click()
        await expect(page.locator("#claim")).to_have_text(
            re.compile("^You are looking at this until .* UTC. Others can still decide.$")
        )
        await check(page)
        assert await fits_wide_and_narrow(page)
        await page.get_by_role("button", name="Give back").click()
        await expect(page.locator("#claim")).to_be_empty()
        await ben_claims()
        await expect(page.locator("#claim")).to_have_text(re.compile("^Ben is looking at this"))
        await page.get_by_role("button", name="Approve: Send a mail").click()
        await expect(page.get_by_text("Approved by you")).to_be_visible()
    assert (await run.result())["output"] == "Done."
