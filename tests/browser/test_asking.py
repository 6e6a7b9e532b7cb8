"""An approval in a browser (§7): understood and decided at a desk and on a phone, by keyboard,
without scripts; what others do meanwhile appears, and nothing that is typed is lost."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Locator, Route, ViewportSize, expect
from temporalio.client import Client

from holdfast.runtime.decision_links import KIND
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.decision import digest_of
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.run import RunReport
from holdfast.web.call.history import CallHistory
from holdfast.web.call.loader import OpenApproval
from holdfast.web.pages import HEADERS, STATIC, STATIC_PATH
from tests.browser.window import DESKTOP, PHONE, check, fits, window
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call
from tests.web.call.test_page import page as call_page
from tests.web.call.test_page import question
from tests.web.listing.test_rows import waiting
from tests.web.test_decision_links import SECRET
from tests.web.test_decision_links import inbox as link_inbox

pytestmark = pytest.mark.browser

PAY: dict[str, Any] = {
    "_tool": "pay_out",
    "_label": "Pay money out",
    "_activity": {"type": "says"},
    "_sideEffects": True,
    "properties": {
        "result": {"type": "number", "title": "Amount in EUR", "maximum": 500},
        "to": {"type": "array", "items": {"type": "string"}, "title": "Whom"},
        "note": {"type": "string", "description": "What the customer reads."},
    },
    "required": ["result"],
}
ARGUMENTS = {"result": 20, "to": ["ada"], "_reasoningForCall": "It arrived broken."}
TRANSFER: dict[str, Any] = {
    "_tool": "transfer",
    "_label": "Transfer money",
    "_activity": "unsure",
    "_sideEffects": True,
    "properties": {"amount": {"type": "number", "format": "money", "currency": "EUR"}},
}
ANSWERS = [Answer(calls=[call("pay_out", **ARGUMENTS)]), Answer("done")]


@pytest.fixture(scope="module")
async def stage(client: Client) -> AsyncIterator[Stage]:
    """An inbox with Ann signed in."""
    async with inbox(client) as made:
        yield made


@pytest.fixture(scope="module")
async def desk(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Backend]:
    """A worker whose model pays money out, plans to, transfers it, or looks for ever."""

    def answer(turn: int, request: dict[str, Any]) -> Answer:
        task = str(request)
        if turn > 1 and "BUDGET" not in task:
            return Answer("done")
        if "TRANSFER" in task:
            return Answer(calls=[call("transfer", amount=20)])
        if "BUDGET" in task:
            return Answer("done") if turn > 2 else Answer(calls=[call("look_up", id=turn)])
        count = 2 if "PLAN" in task else 1
        return Answer(calls=[call("pay_out", **ARGUMENTS)] * count)

    folder: Path = tmp_path_factory.mktemp("asking")
    async with backend(client, folder, answer, **SIDE_BY_SIDE) as made:
        yield made


async def start(desk: Backend, task: str = "PAY", **agent: Any) -> tuple[Run, str]:
    run = await desk.start([PAY, TRANSFER, "look_up"], input=task, agent=agent)
    [waiting] = await run.waiting()
    return run, f"/waiting/{run.id}/{waiting['callId']}"


EUROS = {"type": "number", "format": "money", "currency": "EUR"}
REFUND: dict[str, Any] = {
    "label": "Refund an order",
    "parameters": {"type": "object", "properties": {"order_id": {}, "amount": EUROS, "note": {}}},
    "sideEffects": True,
    "approval": {},
}
KINDS = ["call", "plan", "input", "budget", "principal_expired"]
SEAT = {"type": "object", "properties": {"seat": {"enum": ["A", "B"]}}, "required": ["seat"]}
STEP = {"tool": "pay", "label": "Refund an order", "arguments": {"amount": 249}}


def asked(kind: Any, arguments: dict[str, Any], **more: Any) -> OpenApproval:
    digest = digest_of("pay", arguments, kind, 1, more.get("form"))
    more |= {"tool": REFUND, "reasoning": "It arrived broken. " * 4, "approvers": ["finance"]}
    return question(kind=kind, arguments=arguments, digest=digest, **more)


def limit() -> OpenApproval:
    tool: dict[str, Any] = {
        "tool": "maxCost",
        "label": "budget maxCost",
        "arguments": {"maxCost": 1.0},
    }
    report = RunReport(status="running", budget={"maxCost": {"used": 1.42, "limit": 1.0}})
    one = question(past=CallHistory(first_limit=1.0))
    return replace(one, approval=waiting(kind="budget", **tool), report=report)


def pages() -> Iterator[tuple[OpenApproval, list[str]]]:
    """A question of each kind as its page has it, and the labels of its decisions."""
    refund = {"order_id": 1042, "amount": 249, "note": "a cracked tank " * 4}
    yield asked("call", refund, effect="refund of €249.00"), ["Deny", "Approve refund of €249.00"]
    each = "Refund an order €249.00"
    steps = {"calls": [{"id": f"t1c{n}", **STEP} for n in (1, 2)]}
    yield asked("plan", steps), ["Deny the plan", f"Approve 2 steps: {each}, {each}"]
    yield asked("input", {}, form=SEAT, question="Which seat?"), ["Deny", "Answer"]
    yield limit(), ["Do not extend", "Extend: cost from 1.0 to 2.42"]
    yield asked("principal_expired", refund), ["Deny"]


@pytest.mark.parametrize(("one", "labels"), list(pages()), ids=KINDS)
async def test_on_the_first_screen_of_a_phone_every_decision_is_there_and_as_large_as_the_others(
    browser: Browser, one: OpenApproval, labels: list[str]
) -> None:
    context = await browser.new_context(viewport=PHONE, base_url="http://inbox.example")
    page, html = await context.new_page(), call_page(one)

    async def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith(STATIC_PATH):
            await route.fulfill(path=STATIC / path.removeprefix(STATIC_PATH))
        else:
            await route.fulfill(body=html, content_type="text/html; charset=utf-8", headers=HEADERS)

    await page.route("**", answer)
    await page.goto("/waiting/run/t1c1")
    buttons = page.locator(".choices button")
    assert await buttons.all_inner_texts() == labels
    boxes = [await button.bounding_box() for button in await buttons.all()]
    sizes = {(round(box["width"]), round(box["height"])) for box in boxes if box}
    assert len(sizes) == 1, "one of the decisions looks more likely than another"
    for button in await buttons.all():
        await expect(button).to_be_in_viewport(ratio=1)
    for what in (page.get_by_role("heading", level=1), page.locator("#with ~ *").first):
        await expect(what).to_be_in_viewport()
    await check(page)
    assert await fits(page)
    await context.close()


async def middle(locator: Locator) -> tuple[float, float]:
    box = await locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def attempts(run: Run) -> int:
    return len((await run.waiting())[0].get("attempts", ()))


async def is_asked(run: Run, count: int) -> bool:
    return await attempts(run) == count


@pytest.mark.usefixtures("ledger")
async def test_taps_on_one_spot_have_one_effect(
    browser: Browser, stage: Stage, desk: Backend
) -> None:
    """Whatever follows Approve at its place, as soon or as late as a thumb comes down again."""

    async def tap(size: ViewportSize, pause_ms: int) -> None:
        run, address = await start(desk, "TRANSFER")
        async with window(browser, stage, size, dark=size is PHONE, refused=[409]) as page:
            await page.goto(address)
            place = await middle(page.locator("#approve-button"))
            for _ in range(4):
                await page.mouse.click(*place)
                await page.wait_for_timeout(pause_ms)
            await eventually(partial(is_asked, run, 1))
        # In another window: in this one, the page that a tap led to may still be loading.
        async with window(browser, stage, size) as page:
            await page.goto(address)
            await expect(page.get_by_role("heading", level=1)).to_contain_text("Did it happen?")

    pauses = (300, 1_000, 5_000)
    await asyncio.gather(*(tap(size, pause) for size in (DESKTOP, PHONE) for pause in pauses))
    assert tools.read() == ["unsure"] * 6


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
@pytest.mark.usefixtures("ledger")
async def test_a_call_runs_again_on_a_page_that_has_its_button_under_no_finger(
    browser: Browser, stage: Stage, desk: Backend, size: ViewportSize
) -> None:
    run, address = await start(desk, "TRANSFER")
    await run.decide("t1c1", "approve")
    await eventually(partial(is_asked, run, 1))
    async with window(browser, stage, size) as page:
        for number, times in ((1, "a second time"), (2, "a third time")):
            await page.goto(address)
            await expect(page.get_by_text(f"Attempt {number}, outcome unknown")).to_be_visible()
            await expect(page.locator(".attempts li")).to_have_count(number)
            assert await fits(page)
            choice = page.get_by_role("link", name="It did not happen")
            # The next page begins at its top: what is tapped on this one is further up on it.
            bottom = await choice.evaluate("it => it.getBoundingClientRect().bottom + scrollY")
            place = await middle(choice)
            if place[1] < size["height"]:
                await page.mouse.click(*place)
                await page.mouse.click(*place)
            else:
                await choice.click()
            await expect(page).to_have_url(re.compile(r"\?again$"))
            again = page.get_by_role("button", name=f"Transfer money {times}: €20.00")
            assert await again.evaluate("it => it.getBoundingClientRect().top + scrollY") > bottom
            assert await fits(page)
            await page.get_by_label("Where you looked").fill("The list of transfers.")
            await again.click()
            await expect(page).to_have_url(re.compile(r"\?decided$"))
            await eventually(partial(is_asked, run, number + 1))
        await page.goto(f"{address}?again")
        await check(page)
        await page.goto(address)
        await check(page)
        await page.get_by_text("Leave it unknown").first.click()
        await page.get_by_role("button", name="Leave it unknown").click()
        await expect(page.locator(".outcome")).to_contain_text("its outcome stays unknown")
    reasons = [e["decided"].get("reason") for e in await run.context() if "decided" in e]
    assert reasons.count("The list of transfers.") == 2


async def test_a_call_is_changed_and_approved(
    browser: Browser, stage: Stage, desk: Backend
) -> None:
    run, address = await start(desk)
    async with window(browser, stage, PHONE, refused=[422]) as page:
        await page.goto(address)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Pay money out")
        more = page.locator(".menu > summary")
        assert await more.evaluate("it => it.offsetHeight < 60"), "the terms are two lines at most"
        brief = more.locator(".brief")
        assert await brief.evaluate("it => it.scrollWidth <= it.clientWidth"), "and none is cut"
        await more.click()
        await page.get_by_role("link", name="Answer instead").click()
        await page.get_by_role("link", name="Change arguments").click()
        await expect(page.get_by_label("Amount in EUR")).to_be_in_viewport()
        await check(page)
        assert await fits(page)
        await page.get_by_label("Amount in EUR").fill("900")
        approve = page.locator("#approve-button")
        await expect(approve).to_be_disabled()
        await expect(page.get_by_text("You have changed something above.")).to_be_visible()
        await check(page)
        await page.get_by_role("button", name="undo your changes").click()
        await expect(approve).to_be_enabled()
        await expect(page.get_by_text("You have changed something above.")).to_be_hidden()
        await page.get_by_label("Amount in EUR").fill("900")
        await page.get_by_role("button", name="Add entry").click()
        await expect(page.get_by_text("Added entry 2.")).to_be_in_viewport()
        await check(page)
        await page.get_by_label("2", exact=True).fill("grace")
        await page.get_by_role("button", name="Approve with these changes").last.click()
        await expect(page.get_by_role("alert")).to_contain_text("greater than the maximum of 500")
        await expect(page.get_by_label("2", exact=True)).to_have_value("grace")
        await check(page)
        await page.get_by_role("alert").get_by_role("link").click()
        await expect(page.get_by_label("Amount in EUR")).to_be_focused()
        await page.keyboard.press("Control+A")
        await page.keyboard.type("12.50")
        await page.keyboard.press("Enter")  # looks, and decides nothing
        await expect(page.get_by_role("alert")).to_contain_text("12.5")
        await expect(page.get_by_role("alert")).to_be_in_viewport()
        await check(page)
        assert await fits(page)
        assert len(await run.waiting()) == 1
        await page.get_by_role("button", name="Approve with these changes").last.click()
        await expect(page.locator(".outcome")).to_contain_text(
            "Approved with changes by you (unverified)"
        )
        await run.result()
        await expect(page.locator(".outcome")).to_contain_text("Executed.")
        await check(page)
    [entry] = [e for e in await run.context() if e["type"] == "decision"]
    assert entry["arguments"] == {"result": 12.5, "to": ["ada", "grace"]}


async def test_without_scripts_by_keyboard_alone(
    browser: Browser, stage: Stage, desk: Backend
) -> None:
    run, address = await start(desk)
    async with window(browser, stage, PHONE, scripts=False) as page:
        await page.goto(address)
        reason = page.locator("#reason-decide")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await reason.evaluate("it => it === document.activeElement"):
                break
        await page.keyboard.type("Not before Friday.")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Deny")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator(".outcome")).to_contain_text("Denied by you (unverified)")
        await run.result()
        assert "Not before Friday." in str((await run.results())["t1c1"])


async def test_what_others_do_appears_and_what_is_typed_stays(
    browser: Browser, stage: Stage, desk: Backend
) -> None:
    run, address = await start(desk, approval={"quorum": 2})
    async with window(browser, stage, refused=[409], timezone="Asia/Tokyo") as page:
        await page.goto(address)
        told = page.locator("time").first.locator("..")
        await expect(told).to_contain_text(re.compile(r"UTC, .*\d\d:\d\d local time"))
        reason = page.locator("#reason-decide")
        await reason.fill("Too mu")
        edited = {"result": 10, "to": ["ada"]}
        await run.decide("t1c1", "edit", by="grace", arguments=edited)
        news = page.locator("#news")
        await expect(news).to_contain_text("Approved with changes by grace (unverified), just now.")
        await expect(reason).to_be_focused()
        await page.keyboard.type("ch.")
        await expect(reason).to_have_value("Too much.")
        await check(page)
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_role("alert")).to_contain_text("grace (unverified) changed it.")
        await expect(reason).to_have_value("Too much.")
        waiting = (await run.waiting())[0]
        await run.decide("t1c1", "approve", by="bob", digest=waiting["digest"])
        await expect(page.locator("#news")).to_contain_text("This call is no longer pending.")
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_role("alert")).to_contain_text("Your decision was rejected")
        await expect(page.get_by_role("main")).to_contain_text("Too much.")
        await check(page)


async def test_a_link_in_a_message_decides_without_a_session(
    browser: Browser, client: Client, desk: Backend
) -> None:
    run, _ = await start(desk)
    [waiting] = await run.waiting()
    shown = SelectedCall(run.id, waiting["callId"], waiting["digest"], waiting["nonce"])
    person = {"call": str(shown), "by": "grace", "groups": []}
    link = f"/decide/{TextSealer(SECRET).seal(KIND, person, 600)}"
    async with link_inbox(client) as at:
        small = ViewportSize(width=390, height=560)
        context = await browser.new_context(
            viewport=small, color_scheme="dark", base_url=str(at.base_url)
        )
        page = await context.new_page()
        sent = list[str | None]()
        page.on("request", lambda request: sent.append(request.headers.get("referer")))
        await page.goto(link)
        await check(page)
        assert await fits(page)
        for name in ("Approve", "Deny"):
            await expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        await page.get_by_text("Add a reason").click()
        await page.get_by_label("Reason").fill("too much")
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_role("status")).to_contain_text("Denied. Decided as grace")
        await check(page)
        await context.close()
    assert not any(sent), "the address decides: no request passes it on"
    assert (await run.result())["output"] == "done"
    [decision] = [each for each in await run.context() if each["type"] == "decision"]
    assert (decision["decided"]["by"], decision["decided"]["reason"]) == ("grace", "too much")
