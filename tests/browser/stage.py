"""Temporal's own UI with a run of the support desk in it, and a person who looks at it.

The server, its UI, the worker and Chromium are real. The run is started as the demonstration
starts it.
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import (
    BrowserContext,
    Locator,
    Page,
    Playwright,
    ViewportSize,
    async_playwright,
    expect,
)
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter

from examples.support_desk import shop
from examples.support_desk.casting import AGENT, HERE
from holdfast.hosting.dev_server import HOST, DevServer, free_port, run_dev_server
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.schemas import names
from tests.support.eventually import eventually
from tests.web.codec.serving import SECRET, Served

CHROMIUM = Path("/usr/bin/chromium")
SUMMARY = f"{AGENT}: broken espresso machine"
# It runs as root, and needs nothing but the server.
_CHROMIUM_OPTIONS = [
    *("--no-sandbox", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    # The UI asks a server of Temporal's for news. (A route that refuses it would cost the cache.)
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}",
]
_WIDTH, _HEIGHT = 1400, 1100
expect.set_options(timeout=120_000)


class DeskServer:
    """A server with its UI, a worker with the support desk, and a browser."""

    def __init__(self, client: Client, ui: str, browser: BrowserContext) -> None:
        self.client = client
        self.ui = ui
        self._browser = browser

    async def start(self, run_id: str, folder: Path, **more: Any) -> "ObservedRun":
        """Open a fresh shop in `folder`, and start a run that works in it."""
        shop.open_shop(folder)
        os.environ["SUPPORT_DESK_DIR"] = str(folder)
        task = (HERE / "request.txt").read_text(encoding="utf-8")
        request = {"agent": AGENT, "input": task, **more}
        handle = await self.client.start_workflow(
            names.AGENT_WORKFLOW,
            request,
            id=run_id,
            task_queue=names.TASK_QUEUE,
            static_summary=SUMMARY.replace(AGENT, request["agent"]),
        )
        return ObservedRun(handle)

    @asynccontextmanager
    async def visitor(self, run: "ObservedRun") -> AsyncIterator["Visitor"]:
        """A person who looks at the run, in a window of their own."""
        async with self.page() as page:
            yield Visitor(page, f"{self.ui}/namespaces/default/workflows", run)

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """A window. All of them are of one browser, and what one has set holds for the next."""
        page = await self._browser.new_page()
        try:
            yield page
        finally:
            await page.close()


class ObservedRun:
    """A run, as a client sees it."""

    def __init__(self, handle: WorkflowHandle[Any, Any]) -> None:
        self.handle = handle
        self.id = handle.id

    async def waits_for(self, *tools: str) -> list[dict[str, Any]]:
        """The pending approvals, once they are those of these tools."""

        async def those() -> list[dict[str, Any]] | None:
            waiting: list[dict[str, Any]] = await self.handle.query(names.APPROVALS)
            return waiting if [one["tool"] for one in waiting] == list(tools) else None

        return await eventually(those)

    async def history_length(self) -> int:
        """How many events its history has."""
        return (await self.handle.describe()).history_length


class Visitor:
    """A person who reads a run in Temporal's UI and follows it."""

    def __init__(self, page: Page, address: str, run: ObservedRun) -> None:
        self.page = page
        self._address = f"{address}/{run.id}/{run.handle.result_run_id}"

    async def details(self) -> str:
        """What the tab "User Metadata" has under "Current Details"."""
        await self.opened("user-metadata")
        frame = self.page.locator("iframe").last
        text = frame.content_frame.get_by_text("This run is the work of an AI agent")
        await text.wait_for()
        return await frame.content_frame.locator("main").inner_text()

    async def timeline(self, until: str = "Turn 1: the model decides") -> list[str]:
        """The labels that the tab "Timeline" has of calls and waits, from the top, once it has
        one with this text."""
        await self.opened("timeline")
        labels = self.page.get_by_text(re.compile(r"^(\w+ • )?Turn \d+: "))
        await labels.filter(has_text=until).first.wait_for()
        return [label.strip() for label in await labels.all_inner_texts()]

    async def summary(self) -> str:
        """What the tab that `details` opens has under "Summary"."""
        return await self.page.locator("iframe").first.content_frame.locator("main").inner_text()

    async def dialog(self, action: str) -> Locator:
        """Open one of the dialogs under "More Actions"."""
        await self.page.get_by_role("button", name="More Actions").click()
        await self.page.get_by_role("menuitem", name=action).filter(visible=True).click()
        dialog = self.page.get_by_role("dialog").filter(visible=True)
        await (
            dialog.get_by_role("combobox")
            .or_(dialog.get_by_role("button", name="Select"))
            .first.click()
        )
        return dialog

    async def leave(self, dialog: Locator) -> None:
        """Leave a dialog as it was opened."""
        await dialog.get_by_role("option").first.click()
        await dialog.get_by_role("button", name="Cancel").last.click()

    async def send(self, action: str, name: str, data: str) -> Locator:
        """Send a signal or an update, with data as they were copied; the dialog that it was in."""
        dialog = await self.dialog(action)
        await dialog.get_by_role("option", name=re.compile(rf"^{name}\b")).click()
        await dialog.locator(".cm-content").click()
        await self.page.keyboard.press("Control+A")
        await self.page.keyboard.insert_text(data)
        await dialog.get_by_role("button", name="Submit").click()
        return dialog

    async def opened(self, tab: str) -> None:
        """Have one of its tabs open."""
        await self.page.goto(f"{self._address}/{tab}")


def decisions(details: str) -> list[str]:
    """The data to send that details hold, as a person copies them."""
    return re.findall(r"^\{\n.*?^\}", details, re.S | re.M)


@asynccontextmanager
async def staged(
    folder: Path,
    *,
    scale: float = 1,
    converter: DataConverter = pydantic_data_converter,
    catalog: Path = HERE,
) -> AsyncIterator[DeskServer]:
    """A stage, whose server keeps its file in `folder`. `scale` is of the pictures taken on it,
    `converter` is that of the worker and of the run's starter, and `catalog` is the folder
    of the example."""
    server = DevServer(folder / "temporal.db", port=0, ui_port=free_port())
    settings = WorkerSettings(
        catalog=catalog, tools=[str(catalog / "tools.py")], endpoints=catalog / "endpoints.yaml"
    )
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(run_dev_server(server))
        client = await Client.connect(address, data_converter=converter)
        await stack.enter_async_context(build_worker(client, settings))
        playwright = await stack.enter_async_context(async_playwright())
        ui = f"http://{HOST}:{server.ui_port}"
        yield DeskServer(client, ui, await stack.enter_async_context(_browser(playwright, scale)))


@asynccontextmanager
async def _browser(playwright: Playwright, scale: float) -> AsyncIterator[BrowserContext]:
    """One browser for all visitors: what it has read of the UI it does not read again."""
    chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=_CHROMIUM_OPTIONS)
    size = ViewportSize(width=_WIDTH, height=_HEIGHT)
    # The UI animates a run that is open: a third of a processor, for as long as a page is.
    context = await chromium.new_context(
        viewport=size, device_scale_factor=scale, reduced_motion="reduce"
    )
    try:
        yield context
    finally:
        await chromium.close()


@asynccontextmanager
async def reading(stage: DeskServer, endpoint: Served) -> AsyncIterator[Page]:
    """A person signs in at the endpoint, and sets it in the UI."""
    async with stage.page() as page:
        await page.goto(endpoint.address)
        await page.get_by_label("Secret").fill(SECRET)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
        await page.goto(stage.ui)
        await page.get_by_role("button", name="Configure Codec Server").click()
        dialog = page.get_by_role("dialog").filter(visible=True)
        await dialog.get_by_text("Use my browser setting").click()
        await dialog.get_by_role("textbox").fill(endpoint.address)
        await dialog.get_by_text("Include cross-origin credentials").click()
        await dialog.get_by_role("button", name="Apply").click()
        await expect(dialog).to_be_hidden()
        yield page
        # The windows of one browser share both.
        await page.evaluate("localStorage.clear()")
        await page.context.clear_cookies()
