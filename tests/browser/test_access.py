"""Coming in to the inbox in a browser: by the link, with a provider, and after a session is over.

What is sent is what a real browser sends (`Origin`, cookies, policies), and nothing that
was typed is lost.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Page, expect
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import Oidc
from holdfast.web.auth.auth_middleware import SignInMethod
from holdfast.web.auth.oidc import OidcProvider, OidcSignIn
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.services import Services
from tests.browser.window import check, fits, fits_wide_and_narrow
from tests.support.inbox import HOST, Stage, opened
from tests.web.auth.pages_of_test import pages
from tests.web.auth.provider import CLIENT, others_provider

pytestmark = pytest.mark.browser


@asynccontextmanager
async def inbox(way: SignInMethod, seal: TextSealer) -> AsyncIterator[Stage]:
    """An inbox to which no one is signed in."""
    nowhere = await Client.connect(f"{HOST}:1", lazy=True)
    async with opened(
        Services(HoldfastClient(nowhere)), way, BearerTokens(seal, []), app=pages()
    ) as at:
        yield at


@asynccontextmanager
async def window(browser: Browser, at: Stage, **more: Any) -> AsyncIterator[Page]:
    """A window of a person who is not signed in."""
    context = await browser.new_context(base_url=at.address, **more)
    try:
        yield await context.new_page()
    finally:
        await context.close()


async def looked_at(page: Page) -> None:
    """Check that the page is accessible, and fits on a phone as well."""
    assert await fits_wide_and_narrow(page)
    await check(page)


async def test_the_link_signs_in_and_out(browser: Browser) -> None:
    seal = TextSealer()
    link = LinkSignIn(seal, "ann", ("finance",))
    async with inbox(link, seal) as at, window(browser, at) as page:
        await page.goto("/decide")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await page.get_by_label("Link, or its key").fill("a guess")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("That is not the key")
        await looked_at(page)
        await page.goto(link.address(at.address))
        assert page.url == f"{at.address}/"
        seen = await page.evaluate("document.referrer + performance.getEntries()[0].name")
        assert "key=" not in seen
        await page.goto("/decide")
        await page.get_by_label("Reason").fill("It is <b>broken</b>")
        await page.get_by_role("button", name="Deny").click()
        await expect(page.locator("body")).to_contain_text('"by":"ann"')
        await page.goto("/sign-out")
        await looked_at(page)


async def test_what_was_typed_outlives_the_session(browser: Browser) -> None:
    seal = TextSealer()
    link = LinkSignIn(seal, "ann")
    async with inbox(link, seal) as at, window(browser, at, java_script_enabled=False) as page:
        await page.goto(link.address(at.address))
        await page.goto("/decide")
        await page.get_by_label("Reason").fill("zu spät\nund <kaputt>")
        await page.context.clear_cookies()
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_role("alert")).to_contain_text("Nothing was decided")
        await expect(page.locator("dd.kept")).to_have_text("zu spät\nund <kaputt>")
        assert await fits(page)
        async with page.expect_popup() as opening:
            await page.get_by_role("link", name="Sign in").click()
        other = await opening.value
        await other.get_by_label("Link, or its key").fill(link.address(at.address))
        await other.get_by_role("button", name="Sign in").click()
        await expect(other.get_by_label("Reason")).to_be_visible()
        await page.get_by_role("button", name="Send again").click()
        await expect(page.locator("body")).to_contain_text('"by":"ann"')
        await expect(page.locator("body")).to_contain_text("und <kaputt>")


async def test_people_come_back_from_their_provider_to_the_page_that_they_wanted(
    browser: Browser,
) -> None:
    seal = TextSealer()
    with others_provider("ada") as issuer:
        said = Oidc(issuer=issuer.replace("localhost", HOST), client_id=CLIENT)
        async with httpx.AsyncClient() as http:
            way = OidcSignIn(seal, said, OidcProvider(said, "any", http))
            async with inbox(way, seal) as at, window(browser, at) as page:
                await page.goto("/decide?order=a%26b")
                await page.get_by_role("button", name="ada").click()
                await expect(page.get_by_label("Reason")).to_be_visible()
                assert page.url == f"{at.address}/decide?order=a%26b"
                await page.get_by_role("button", name="Deny").click()
                await expect(page.locator("body")).to_contain_text('"by":"ada"')
                await page.goto("/sign-in/done?state=x&error=access_denied")
                await looked_at(page)
