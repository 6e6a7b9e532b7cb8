"""Breaking in: what strangers send, write and ask for, tried on the whole inbox."""

import asyncio
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Route
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.narration.question_view import MAX_CALLS
from holdfast.web.api.operations import Resource
from holdfast.web.app import application
from holdfast.web.pages import HERE
from holdfast.web.services import Services
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call
from tests.web.call.test_page import page as call_page
from tests.web.call.test_page import question

UNSEEN = "\u202ereversed\u2066\x1b[31m"
MARKUP = "\"><img src=x onerror=alert(1)>'</pre><script>alert(1)</script>{{ 7 * 7 }}"
SAFE = ("GET", "HEAD", "OPTIONS")


def routes(parts: Services) -> Iterator[tuple[str, str]]:
    """Everything that can be asked for: the method, and an address."""
    for route in application(parts).routes:
        path: str = getattr(route, "path_format", "/static")
        address = re.sub(
            r"\{(n|index)\}", "1", re.sub(r"\{(run|call|agent|other)(:path)?\}", "x", path)
        )
        if not address.startswith("/static"):
            assert "{" not in address, address
            assert isinstance(route, Route)
            methods: Collection[str] = route.methods or []
            if isinstance(route.endpoint, Resource):
                methods = [*route.endpoint.operations]
            yield from ((method, address) for method in methods)


async def test_each_route_needs_a_sign_in(nowhere: Client) -> None:
    found = list(routes(Services(HoldfastClient(nowhere))))
    assert len(found) > 25
    async with inbox(nowhere) as stage:
        stage.http.cookies.clear()
        for method, address in found:
            page = await stage.http.request(method, address, headers={"accept": "text/html"})
            program = await stage.http.request(method, address)
            assert page.status_code in (303, 401, 403), (method, address)
            assert program.status_code in (401, 403), (method, address)


async def test_no_route_does_what_another_page_sends(nowhere: Client) -> None:
    forged: list[dict[str, str]] = [
        {"origin": "https://evil.example", "x-form-token": "THEIRS"},
        *(
            {"origin": origin, "x-form-token": "THEIRS"}
            for origin in ("null", "", "http://127.0.0.1")
        ),
        *(
            {"sec-fetch-site": site, "x-form-token": "THEIRS"}
            for site in ("cross-site", "same-site", "none")
        ),
        {"x-form-token": "THEIRS"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "x-form-token": "another's"},
    ]
    async with inbox(nowhere) as stage:
        unsafe = [each for each in routes(Services(HoldfastClient(nowhere))) if each[0] not in SAFE]
        assert len(unsafe) >= 10
        stage.http.headers.pop("origin", None)
        for method, address in unsafe:
            for each in forged:
                said = {name: v.replace("THEIRS", stage.form_token) for name, v in each.items()}
                answer = await stage.http.request(method, address, headers=said, data={"a": "b"})
                assert answer.status_code == 403, (method, address, each)
                assert "nothing was changed" in answer.text.lower()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/run/x/entry/{'9' * 5_000}", 404),
        (f"/run/x/file/{'9' * 30}/0", 404),
        (f"/run/x?before={'0' * 20}{'9' * 5_000}", 400),
        (f"/run/x/news?after={'9' * 13}", 400),
        (f"/?after={'9' * 5_000}/x", 400),
        ("/run?agent=%00%22%20OR%201=1", 200),
    ],
)
async def test_no_address_makes_it_fail(stage: Stage, path: str, status: int) -> None:
    assert (await stage.get(path)).status_code == status


async def test_no_redirect_leads_from_https_to_http(stage: Stage) -> None:
    for path in ("/api/", "/run/"):
        answer = await stage.get(path)
        assert (answer.status_code, answer.headers.get("location")) == (404, None)


async def test_headers_without_end_are_cut_off(stage: Stage) -> None:
    url = httpx.URL(stage.address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    with suppress(ConnectionError):
        for _ in range(200):
            writer.write(b"a" * 100_000)
            await writer.drain()
            if reader.at_eof():
                break
    with suppress(ConnectionError):
        assert b" 400 " in await asyncio.wait_for(reader.read(100), 120)
    assert writer.transport.is_closing() or reader.at_eof()
    writer.close()


# --- what a model, a tool and the caller write -------------------------------------------


def pay(**more: Any) -> dict[str, Any]:
    return {
        "_tool": "pay",
        "_label": f"Pay {MARKUP}{UNSEEN}",
        "description": MARKUP + UNSEEN,
        "_activity": {"type": "pay"},
        "_sideEffects": True,
        "_approval": {},
        **more,
    }


async def test_whatever_is_written_is_shown_and_is_no_more_than_text(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))
    key = '"><script>alert(2)</script>'
    said = MARKUP + UNSEEN
    one = {"title": said, "description": said, "enum": [said, "a"], "default": said}
    branch = {"type": "object", "title": said, "properties": {"x": {"pattern": "<script>"}}}
    tool = pay(properties={key: one, "by": {"anyOf": [branch, {**branch, "title": "b"}]}})
    asks = call("pay", **{key: said, "by": {"x": said}}, _reasoningForCall=said)
    answers = [Answer(said, [asks]), Answer(said)]
    async with backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made, inbox(client) as stage:
        run = await made.start([tool], principal={"id": said})
        await run.waiting()
        await run.listed()
        at, live, its = f"/waiting/{run.id}/t1c1", f"/run/{run.id}", f"?run={run.id}"
        paths = [f"/{its}", f"/run{its}", at, live, f"{live}/entry/3", f"{live}/news"]
        for path in paths:
            _check_is_text((await stage.get(path)).text)
        shown = dict(re.findall('name="(digest|nonce)" value="(.+?)"', (await stage.get(at)).text))
        # What was shown is decided on, and nothing else: a form has what that was.
        blind = await stage.post(at, {"about": "approve"})
        assert blind.status_code == 409
        _check_is_text(blind.text)
        assert len(await run.waiting()) == 1
        of_another = {"about": "deny", **shown, "nonce": "0" * 64}
        assert (await stage.post(at, of_another)).status_code == 409
        denied = {"about": "deny", "reason": MARKUP, **shown}
        assert (await stage.post(at, denied)).status_code == 303
        await run.result()
        for path in paths:
            _check_is_text((await stage.get(path)).text)


@pytest.mark.parametrize("path", [f"/run/{quote(MARKUP)}", f"/run/{quote(UNSEEN)}?before=1"])
async def test_what_is_not_there_is_named_as_text(stage: Stage, path: str) -> None:
    answer = await stage.get(path)
    assert answer.status_code == 404
    _check_is_text(answer.text)


def test_no_template_lets_anything_through() -> None:
    found = sorted((HERE / "templates").rglob("*.html"))
    assert len(found) > 20
    for each in found:
        told = each.read_text(encoding="utf-8")
        # What the template itself writes is no stranger's.
        assert not re.search(r"[^\"\s]\s*\|\s*safe\b|autoescape", told), each.name
        assert not re.search(r"\s[\w-]+=\{\{", told), f"{each.name}: an attribute without quotes"


def _check_is_text(page: str) -> None:
    for part in ("<img src=x", "<script>alert", "\u202e", "\u2066", "\x1b"):
        assert part not in page, page[max(page.find(part) - 200, 0) : page.find(part) + 100]
    assert re.findall(r"<script(?! src=\"/static/)", page) == []


# --- a page shows all that it asks about ------------------------------------------------


def page_of(run_id: str = "run", **waiting: Any) -> str:
    """The page of a question on a tool that the run does not list, without its editors."""
    one = question(**waiting)
    page = call_page(replace(one, run_info=replace(one.run_info, id=run_id)))
    return unescape(re.sub(r"<textarea.*?</textarea>", "", page, flags=re.DOTALL))


def test_arguments_outside_of_the_schema_are_shown() -> None:
    assert "DE00-7777" in page_of(arguments={"iban": "DE00-7777"})
    many = {f"p{number}": f"v{number}" for number in range(3_000)}
    assert '"p2999": "v2999"' in page_of(arguments=many)


def test_a_plan_with_more_steps_than_fit_is_marked_and_not_picked_from() -> None:
    steps = [{"id": f"t1c{n}", "tool": "pay", "arguments": {}} for n in range(MAX_CALLS + 2)]
    page = page_of(kind="plan", arguments={"calls": steps})
    few = page_of(kind="plan", arguments={"calls": steps[:3]})
    assert "Approve 3 steps" in few
    assert "the last 2 steps do not fit on this page" in page
    assert "Approve the ticked steps" not in page
    assert "do not fit on this page" not in few


def test_a_command_to_be_copied_is_one_command() -> None:
    page = page_of("x; touch /tmp/broken-in; #", digest="0")
    assert "<code>holdfast show 'x; touch /tmp/broken-in; #' --json</code>" in page


def test_names_of_strangers_read_as_what_they_are() -> None:
    page = page_of(f"run{UNSEEN}", instance=UNSEEN, label=UNSEEN)
    for part in ("\u202e", "\u2066", "\x1b"):
        assert part not in page
