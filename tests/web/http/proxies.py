"""Proxies in front of an inbox under a path: nginx as the manual configures it, and a small one."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import httpx
import pytest
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.dev_server import free_port
from holdfast.runtime.text_sealer import TextSealer
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.services import Services
from tests.support.eventually import eventually
from tests.support.inbox import HOST, Stage, opened
from tests.support.process import ROOT

PATH: Final = "/holdfast"
NGINX: Final = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
Kind = Literal["nginx that keeps", "nginx that strips", "keeps", "strips"]
KINDS: Final = [
    *("keeps", "strips"),
    *(
        pytest.param(kind, marks=pytest.mark.skipif(NGINX is None, reason="nginx is not installed"))
        for kind in ("nginx that keeps", "nginx that strips")
    ),
]
_MANUAL: Final = ROOT / "docs/operating/inbox.md"
_CONFIGURATION: Final = """
daemon off; user root; worker_processes 1; error_log stderr; pid {folder}/pid;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{ listen {host}:{port}; {location} }}
}}
"""


@asynccontextmanager
async def inbox_behind(kind: Kind, client: Client, folder: Path) -> AsyncIterator[Stage]:
    """An inbox behind a proxy, and a browser there that has its link and follows redirects."""
    port, seal = free_port(), TextSealer()
    origin, link = f"http://{HOST}:{port}", LinkSignIn(seal, "ann")
    parts, bearer = Services(HoldfastClient(client)), BearerTokens(seal)
    async with opened(parts, link, bearer, url=origin + PATH) as stage:
        inner = httpx.URL(stage.address).port
        assert inner is not None
        stage.address, stage.link = origin + PATH, link.address(origin + PATH)
        stage.form_token = seal.mark("form", "link ann")
        run = _nginx if kind.startswith("nginx") else _small_proxy
        async with (
            run(folder, port, inner, strips=kind.endswith("strips")),
            httpx.AsyncClient(
                base_url=stage.address,
                headers={"origin": origin},
                follow_redirects=True,
                timeout=120,
            ) as stage.http,
        ):
            yield stage


@asynccontextmanager
async def _nginx(folder: Path, port: int, inbox: int, *, strips: bool) -> AsyncIterator[None]:
    [location] = re.findall(r"^```nginx\n(.*?)```", _MANUAL.read_text(), re.S | re.M)
    assert location.count("http://127.0.0.1:8235;") == 1
    to = f"http://127.0.0.1:{inbox}{'/' if strips else ''};"
    values = {"folder": folder, "host": HOST, "port": port}
    text = _CONFIGURATION.format(location=location.replace("http://127.0.0.1:8235;", to), **values)
    file = folder / "nginx.conf"
    file.write_text(text)
    process = await asyncio.create_subprocess_exec(str(NGINX), "-e", "stderr", "-c", str(file))
    try:

        async def listens() -> bool:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                return True
            return False

        await eventually(listens)
        yield
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _small_proxy(_: Path, port: int, inbox: int, *, strips: bool) -> AsyncIterator[None]:
    """A proxy of one request a connection, which is passed on as it is."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(HOST, inbox)
        tasks = [asyncio.ensure_future(_pass_on(inner_reader, writer))]
        try:
            method, target, head = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
            target = target.removeprefix(PATH.encode()) if strips else target
            head = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
            inner_writer.write(b" ".join((method, target, head)))
            tasks.append(asyncio.ensure_future(_pass_on(reader, inner_writer)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.IncompleteReadError:
            pass  # a browser opens connections in advance
        finally:
            for task in tasks:
                task.cancel()
            inner_writer.close()
            writer.close()

    async with await asyncio.start_server(serve, HOST, port):
        yield


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
