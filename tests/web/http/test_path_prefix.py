"""An inbox under a path of a host: all of it is there, and nothing leads out of it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.responses import PlainTextResponse
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from websockets.asyncio.client import connect

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.hosting.temporal import usable_search_attributes
from holdfast.runtime.text_sealer import TextSealer
from holdfast.web.app import with_live_answers
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.http.path_prefix import under_path
from holdfast.web.http.serving import open_listener, server
from holdfast.web.pages import address
from holdfast.web.services import Services
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.inbox import HOST, PAGE, Stage, opened
from tests.support.model_server import Answer, call
from tests.support.namespaces import new_namespace
from tests.web.auth.pages_of_test import pages
from tests.web.http.proxies import KINDS, PATH, Kind, inbox_behind

HERE = {"host": "intranet.example", "origin": "https://intranet.example"}
PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("Paid.")]
AGENT = "instructions: Help.\nmodel: {endpoint: fake, name: fake}\ntools: [pay]\n"
LINKS = re.compile(r'(?:href|src|hx-get)="([^"#]+)')


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("kind", KINDS)
async def test_pages_forms_streams_and_programs_work_behind_a_proxy(
    kind: Kind, client: Client, tmp_path: Path
) -> None:
    client = await new_namespace(client)
    await usable_search_attributes(client)
    catalog = tmp_path / "catalog"
    (catalog / "agents").mkdir(parents=True)
    (catalog / "agents/clerk.yaml").write_text(AGENT)
    async with (
        backend(client, tmp_path, PAYS, catalog=catalog, **SIDE_BY_SIDE) as worker,
        inbox_behind(kind, client, tmp_path) as stage,
    ):
        home = await stage.http.get(stage.link, headers=PAGE)
        assert (home.status_code, str(home.url)) == (200, f"{stage.address}/")
        assert {each.path for each in stage.http.cookies.jar} == {PATH}

        # A proxy may decode the slash of an id.
        body = {"agent": "clerk", "input": "pay", "taskQueue": worker.task_queue}
        started = await stage.send("/runs", body | {"id": f"{worker.task_queue}/7"})
        assert started.status_code == 201, started.text
        assert started.headers["location"] == f"{PATH}/runs/{worker.task_queue}%2F7"
        run = Run(client.get_workflow_handle(f"{worker.task_queue}/7"), client)
        await run.waiting()
        await run.listed()
        at = address(run.id)[1:]
        call_page = f"/waiting/{at}/t1c1"
        for path in ("/", "/home", "/run", "/api", f"/run/{at}", call_page):
            await _check_links(stage, path)
        described = (await stage.http.get("/openapi.json")).json()
        assert described["servers"] == [{"url": PATH}]

        shown = (await stage.get(call_page)).text
        fields = {
            name: re.findall(f'name="{name}" value="([^"]*)"', shown)[0]
            for name in ("digest", "nonce")
        }
        [seen] = re.findall(r'sse-connect="[^"?]*\?seen=([^"]*)"', shown)
        news = f"{stage.address}{call_page}/changes?seen={seen}"
        async with stage.http.stream("GET", news) as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("retry: ")
            decided = await stage.post(call_page, {"about": "approve", **fields})
            assert decided.status_code == 200
            assert str(decided.url).startswith(stage.address)
            assert [line async for line in lines if f'href="{PATH}{call_page}"' in line]
        assert (await run.result())["output"] == "Paid."


async def _check_links(stage: Stage, path: str) -> None:
    """See that a page, and all that it links to, is there."""
    shown = await stage.get(path)
    assert shown.status_code == 200, path
    for link in {*LINKS.findall(shown.text)}:
        assert link.startswith(f"{PATH}/"), f"{path} leads to {link}"
        answer = await stage.http.get(httpx.URL(stage.address).join(unescape(link)), headers=PAGE)
        assert answer.status_code == 200, link


@asynccontextmanager
async def _inbox(nowhere: Client) -> AsyncIterator[tuple[Stage, str]]:
    """An inbox of another machine's host, whose pages need no run, and the address of its link."""
    seal = TextSealer()
    link, parts = LinkSignIn(seal, "ann"), Services(HoldfastClient(nowhere))
    url = f"https://intranet.example{PATH}"
    async with opened(parts, link, BearerTokens(seal), url=url, app=pages()) as stage:
        stage.http.headers.update(HERE)
        stage.form_token = seal.mark("form", "link ann")
        yield stage, link.address("")


@pytest.mark.parametrize("root", [PATH, ""])
async def test_its_cookies_are_for_its_path_alone(nowhere: Client, root: str) -> None:
    async with _inbox(nowhere) as (at, link):
        answer = await at.get(root + link)
        assert answer.headers["location"] == f"{PATH}/"
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Secure-holdfast_session=")
        assert f"; Path={PATH};" in cookie
        value = cookie.partition(";")[0]
        assert (await at.get(f"{root}/", cookie=value)).json()["name"] == "ann"
        gone = await at.post(f"{root}/sign-out", cookie=value)
        assert gone.headers["location"] == f"{PATH}/sign-out"
        assert f"; Path={PATH};" in gone.headers["set-cookie"]


@pytest.mark.parametrize(
    ("following", "place"),
    [
        ("/run/a%2Fb?x=1", f"{PATH}/run/a%2Fb?x=1"),
        (f"{PATH}//evil.example", f"{PATH}{PATH}//evil.example"),
        ("//evil.example", f"{PATH}/"),
        ("/\\evil.example", f"{PATH}/"),
        ("https://evil.example", f"{PATH}/"),
        ("/../wiki", f"{PATH}/"),
        ("/run/..%2f..%2fwiki/../../../wiki", f"{PATH}/"),
        ("/%2E%2e/wiki", f"{PATH}/"),
        ("/.%2e/wiki", f"{PATH}/"),
        ("/x/.", f"{PATH}/"),
        ("/%09/evil.example", f"{PATH}/%09/evil.example"),
    ],
)
async def test_a_return_address_leads_to_the_inbox(
    nowhere: Client, following: str, place: str
) -> None:
    async with _inbox(nowhere) as (at, link):
        answer = await at.get(f"{PATH}{link}&next={quote(following, safe='')}")
        assert (answer.status_code, answer.headers["location"]) == (303, place)
        assert httpx.URL("https://intranet.example").join(place).host == "intranet.example"


@pytest.mark.parametrize(
    "path",
    [
        *("/", PATH, f"{PATH}/", f"{PATH}//", f"{PATH}{PATH}/", f"/{PATH}/", f"{PATH}/../run/a"),
        *(f"{PATH}/static/../run/a", f"{PATH}/static%2F..%2Frun/a", "/hold%66ast/run/a"),
        *(f"{PATH}%2Frun/a", f"{PATH}/sign-in/../run/a", f"{PATH}x/run/a", f"{PATH}/decide/../run"),
        *(f"{PATH}/slack/actions/../../run/a", f"{PATH}/health/../run/a", "//evil.example/run/a"),
    ],
)
async def test_no_path_leads_around_the_sign_in(nowhere: Client, path: str) -> None:
    async with _inbox(nowhere) as (at, _):
        status, head = await _raw(at, "GET", path)
        assert status in (303, 404)
        if status == 303:
            [location] = re.findall(r"(?im)^location: (.*)\r$", head)
            assert location.startswith(f"{PATH}/sign-in")
        assert (await _raw(at, "POST", path))[0] in (401, 403, 404, 405, 415)
        forged = await _raw(at, "POST", path, origin="https://evil.example")
        assert forged[0] in (403, 404), "a page of another site sends nothing"


async def _raw(at: Stage, method: str, path: str, **headers: str) -> tuple[int, str]:
    """Send a path as it is, which clients normalize; return the status and the head."""
    sent = HERE | {"content-length": "0", "accept": "text/html", "connection": "close"} | headers
    reader, writer = await asyncio.open_connection(HOST, httpx.URL(at.address).port)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[0] + "\r\n"


async def test_no_header_names_the_path(nowhere: Client) -> None:
    async with _inbox(nowhere) as (at, _):
        for header in ("x-forwarded-prefix", "x-forwarded-path", "x-script-name", "x-original-url"):
            answer = await at.http.get("/", headers={header: "/evil", "accept": "text/html"})
            assert answer.headers["location"] == f"{PATH}/sign-in"


async def test_workers_connect_with_the_path_or_without() -> None:
    live = LiveAnswers(pydantic_data_converter)
    app = under_path(with_live_answers(PlainTextResponse("the inbox"), live, "the-key"), PATH)
    with open_listener(HOST, 0) as socket:
        http = server(app, sockets=True)
        task = asyncio.create_task(http.serve([socket]))
        for path in ("/live-answers", f"{PATH}/live-answers"):
            key = {"Authorization": "Bearer the-key"}
            async with connect(
                f"ws://{HOST}:{socket.getsockname()[1]}{path}", additional_headers=key
            ):
                pass
        http.should_exit = True
        await task
