"""HTTP in a browser: its page for programs, the events of a run, and an inbox under a path."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from temporalio.client import Client

from tests.browser.window import check, fits_wide_and_narrow, window
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import inbox
from tests.support.model_server import Answer, call
from tests.web.http.proxies import inbox_behind

pytestmark = pytest.mark.browser

# Read it as any page of the inbox can, and print what came, until the browser is stopped.
_FOLLOW = """
(path) => new Promise((resolve) => {
  const source = new EventSource(path), seen = {events: [], text: "", errors: 0};
  const types = ["turn_start", "token", "tool_call", "tool_start", "tool_end", "turn_end", "done"];
  for (const type of types) source.addEventListener(type, (event) => {
    if (type === "token") seen.text += JSON.parse(event.data).text;
    else seen.events.push(type);
  });
  source.addEventListener("error", () => {
    seen.errors += 1;
    if (source.readyState === EventSource.CLOSED) resolve(seen);
  });
})
"""


async def test_the_page_is_accessible(client: Client, browser: Browser) -> None:
    async with inbox(client) as stage, window(browser, stage) as page:
        await page.goto("/api")
        await expect(page.get_by_role("heading", level=1)).to_have_text("HTTP for programs")
        await page.get_by_role("link", name="/runs/{run}/events").click()
        await page.locator("#watchRun summary").press("Enter")
        await expect(page.locator("#watchRun details")).to_contain_text("too_many_streams")
        assert await fits_wide_and_narrow(page)
        await check(page)


async def test_a_browser_follows_a_run_and_stops_at_its_end(
    client: Client, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))
    said = [Answer("I look. ", calls=[call("echo", text="hi")]), Answer("Done.")]
    async with backend(client, tmp_path, said, **SIDE_BY_SIDE) as made, inbox(client) as stage:
        run = await made.start(["echo"])
        async with window(browser, stage) as page:
            await page.goto("/api")
            seen: dict[str, Any] = await page.evaluate(_FOLLOW, f"/runs/{run.id}/events")

    assert seen["text"] == "I look. Done."
    assert seen["events"] == [
        *("turn_start", "tool_call", "tool_start", "tool_end", "turn_end"),
        *("turn_start", "turn_end", "done"),
    ]
    assert seen["errors"] == 2  # the end of the stream, and then that there is no more


@pytest.mark.usefixtures("ledger")
async def test_a_call_is_decided_under_a_path_and_its_pages_follow_the_run(
    client: Client, browser: Browser, tmp_path: Path
) -> None:
    said = [Answer(calls=[call("pay", amount=5)]), Answer("Paid.")]
    async with (
        backend(client, tmp_path, said, **SIDE_BY_SIDE) as made,
        inbox_behind("keeps", client, tmp_path) as stage,
    ):
        run = await made.start(["pay"])
        await run.waiting()
        await run.listed()
        async with window(browser, stage) as page, window(browser, stage) as beside:
            await page.goto(stage.link)
            await beside.goto(f"{stage.link}&next=/run/{run.id}")
            await page.locator(f'#list a[href*="/waiting/{run.id}/"]').first.click()
            await page.get_by_role("button", name="Approve").first.click()
            await expect(page.locator("main")).to_contain_text("Approved")
            await expect(beside.locator("#entries")).to_contain_text("Paid.")
            assert {page.url.partition("/waiting/")[0], beside.url.partition("/run/")[0]} == {
                stage.address
            }
