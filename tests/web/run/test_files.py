"""Files on pages: uploads with a message, and what approvers see of files that lie."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from holdfast.runtime.attachments import DEFAULT_BYTES, MAX_INLINE_BYTES
from holdfast.runtime.data_converter import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.schemas.base import sha256
from holdfast.web.http.requests import MAX_BODY_BYTES, MAX_LARGE_UPLOADS_OF_ONE
from tests.cli.program import Program
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage
from tests.support.model_server import Answer, call

PNG = b"\x89PNG\r\n\x1a\n"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
PAYS = [Answer(calls=[call("pay", amount=20)]), Answer("Paid.")]
pytestmark = pytest.mark.usefixtures("ledger")
NO_SCRIPT = "default-src 'none'; sandbox"


async def contents(run: Run) -> list[Any]:
    messages = [entry["message"] for entry in await run.context() if entry["type"] == "message"]
    return [one["content"] for one in messages if one["role"] == "user"]


async def test_files_are_sent_with_a_message_and_a_refused_one_is_named(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()

        async def upload(*files: tuple[str, bytes], text: str = "See:") -> Any:
            fields = {"form_token": stage.form_token, "text": text, "delivery": "steer"}
            sent = [("files", (name, data, "image/png")) for name, data in files]
            headers = {"accept": "text/html"}
            at = f"/run/{run.id}/message"
            return await stage.http.post(at, data=fields, files=sent, headers=headers)

        refused = await upload(("../a.png", PNG), ("tool.png", b"\x7fELF\x02"))
        assert refused.status_code == 409
        assert "Not sent: tool.png is of no type that a run takes" in refused.text
        large = await upload(("a.png", PNG + b"\0" * MAX_INLINE_BYTES))
        assert "1,000,008 bytes together, over 1,000,000, and no store is set" in large.text
        assert "set HOLDFAST_STORE" in large.text
        sent = await upload(("../a.png", PNG), ("C:\\b.png", SVG))
        assert sent.headers["location"].endswith("?said=steer#now")
        empty = await upload(text=" \r\n")
        assert (empty.status_code, "the message is empty" in empty.text) == (409, True)
        alone = await upload(("a.png", PNG), text=" \r\n")
        assert alone.headers["location"].endswith("?said=steer#now")
        await run.decide("t1c1", "approve")
        await run.result()
        _, message, picture = await contents(run)
        assert picture == [message[1]]
        assert message == [
            {"type": "text", "text": "See:"},
            {
                "type": "image",
                "mediaType": "image/png",
                "data": base64.b64encode(PNG).decode(),
                "name": "a.png",
            },
            {"type": "text", "text": SVG.decode(), "name": "b.png"},
        ]


@asynccontextmanager
async def upload_started(
    address: str, cookies: CookieJar, path: str, size_bytes: int, sent: int, form_token: str = ""
) -> AsyncIterator[asyncio.StreamReader]:
    """An upload of `size_bytes`, of which `sent` bytes and some more are sent."""
    port = int(address.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [
        f"POST {path} HTTP/1.1",
        *([f"X-Form-Token: {form_token}"] if form_token else []),
        f"Host: 127.0.0.1:{port}",
        f"Origin: {address}",
        "Cookie: " + "; ".join(f"{one.name}={one.value}" for one in cookies),
        "Content-Type: multipart/form-data; boundary=x",
        f"Content-Length: {size_bytes}",
    ]
    part = 'Content-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    writer.write(("\r\n".join([*head, "", ""]) + f"--x\r\n{part}").encode())
    writer.write(PNG + b"\0" * sent)
    try:
        yield reader
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("path", ["/run/{}/message", "/runs/{}/messages"])
async def test_an_upload_without_end_is_cut_off_at_the_bound(
    client: Client, stage: Stage, tmp_path: Path, path: str
) -> None:
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        most, jar = MAX_BODY_BYTES + DEFAULT_BYTES["MESSAGE"], stage.http.cookies.jar
        to = (stage.address, jar, path.format(run.id), 2 * 1024**3, most, stage.form_token)
        async with upload_started(*to) as answer:
            assert (await answer.readline()).startswith(b"HTTP/1.1 413")
        assert await contents(run) == ["go"]


async def test_the_page_of_a_form_that_was_not_sent_names_the_files_that_it_lost(
    stage: Stage,
) -> None:
    files, text = [("files", ("a.png", b"\x89PNG"))], {"text": "Look."}
    headers = {"accept": "text/html", "x-form-token": "of another session"}
    answer = await stage.http.post("/run/order-7/message", files=files, data=text, headers=headers)
    assert answer.status_code == 403
    assert "Not kept: a.png." in answer.text
    assert "Look." in answer.text
    assert "<button" not in answer.text.partition("Your input")[2]


async def test_few_large_uploads_run_at_a_time_and_only_where_files_are_taken(
    stage: Stage,
) -> None:
    jar, size_bytes = stage.http.cookies.jar, MAX_BODY_BYTES + 1
    address, at = stage.address, "/run/no-such-run/message"
    for path in ("/run/no-such-run/close", "/runs/no-such-run/cancel", "/decide"):
        # The token would be in its form.
        async with upload_started(address, jar, path, 2 * size_bytes, size_bytes) as answer:
            assert (await answer.readline()).startswith(b"HTTP/1.1 413"), path

    async def status(size_bytes: int) -> int:
        headers = {"x-form-token": stage.form_token}
        sent = [("files", ("a.png", b"\0" * size_bytes))]
        return (await stage.http.post(at, files=sent, headers=headers)).status_code

    async with AsyncExitStack() as stack:
        for _ in range(MAX_LARGE_UPLOADS_OF_ONE):
            started = upload_started(address, jar, at, size_bytes, 0, stage.form_token)
            await stack.enter_async_context(started)
        # It has answered later requests: so it has read what was sent.
        assert (await stage.get("/")).status_code == 200
        assert await status(MAX_BODY_BYTES) == 503
        assert await status(1_000) not in (408, 413, 500, 503)

    async def has_room() -> bool:
        return await status(MAX_BODY_BYTES) not in (408, 413, 500, 503)

    await eventually(has_room)


async def test_an_inbox_that_is_killed_during_an_upload_has_sent_nothing(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        program = Program(("inbox", "--port", "0"))
        try:
            link = (await program.until("\n")).rpartition("inbox ready: ")[2].strip()
            address = link.partition("/sign-in")[0]
            async with httpx.AsyncClient(headers={"accept": "text/html"}) as browser:
                assert (await browser.get(link)).status_code == 303
                jar = browser.cookies.jar
                async with upload_started(address, jar, f"/run/{run.id}/message", 900_000, 500_000):
                    # It has answered later requests: so it has read what was sent.
                    assert (await browser.get(f"{address}/run/{run.id}")).status_code == 200
                    program.process.kill()
                    await program.ended()
        finally:
            program.close()
        assert (await run.status())["queued"] == []
        assert await contents(run) == ["go"]
        assert [*(tmp_path / "tmp").iterdir()] == []


async def test_the_http_api_takes_files_as_parts(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    data = base64.b64encode(PNG).decode()
    image = {"type": "image", "mediaType": "image/png", "name": "cat.png", "data": data}
    async with backend(client, tmp_path, [Answer("A cat."), Answer("A cat.")]) as made:
        new = {"agent": "clerk", "input": [image], "taskQueue": made.task_queue}
        started = (await stage.send("/runs", {**new, "conversation": True})).json()
        run = Run(client.get_workflow_handle(started["run"]), client)
        await run.idle()
        at = f"/runs/{run.id}/messages"
        assert (await stage.send(at, {"content": [image]}, prefer="wait=20")).status_code == 200
        assert await contents(run) == [[image], [image]]


async def test_an_approver_sees_pictures_and_no_file_that_lies(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    def image(data: bytes, **more: str) -> dict[str, str]:
        encoded = base64.b64encode(data).decode()
        return {"type": "image", "mediaType": "image/png", "data": encoded, **more}

    pdf = {"type": "document", "data": base64.b64encode(b"%PDF-1.7").decode()}
    parts = [
        image(PNG, name="cat.png"),
        image(SVG, name="lies.png"),
        image(SVG, mediaType="image/svg+xml"),
        {**pdf, "name": "../../\r\nX: y\r\nbill.pdf"},
        {"type": "document", "data": base64.b64encode(b"<script>alert(1)</script>").decode()},
        {"type": "text", "name": "page.html", "text": "<script>alert(1)</script>"},
    ]
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"], input=parts)
        await run.waiting()
        at = f"/run/{run.id}/file/1"
        for page in (f"/run/{run.id}", f"/waiting/{run.id}/t1c1"):
            shown = (await stage.get(page)).text
            assert f'<img src="{at}/0" alt="cat.png"' in shown
            assert f'<a href="{at}/3">' in shown
            assert shown.count("<img") == 1
            assert not any(f"{at}/{index}" in shown for index in (1, 2, 4, 5))
            assert "<script>alert" not in shown
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
        picture, bill = await stage.get(f"{at}/0"), await stage.get(f"{at}/3")
        assert (picture.headers["content-type"], picture.content) == ("image/png", PNG)
        assert (bill.headers["content-type"], bill.content) == ("application/pdf", b"%PDF-1.7")
        assert bill.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%0D")
        assert bill.headers["content-disposition"].endswith("bill.pdf")
        for answer in (picture, bill):
            assert answer.headers["content-security-policy"] == NO_SCRIPT
            assert answer.headers["x-content-type-options"] == "nosniff"
        for index in (1, 2, 4, 5, 6):
            assert (await stage.get(f"{at}/{index}")).status_code == 404


async def test_large_files_are_read_from_the_store_if_they_are_what_they_state(
    client: Client, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, config = tmp_path / "store", client.config()
    monkeypatch.setenv("HOLDFAST_STORE", str(store))
    config["data_converter"] = with_store(client.data_converter, FolderStore(store))
    cat, text = PNG + b"\0" * 1_500_000, b"<script>alert(1)</script>" * 100_000

    def kept(run: str, data: bytes, **more: str) -> dict[str, Any]:
        """A part that names a file of the run, which the test has written there."""
        folder = store / "runs" / sha256(run.encode())
        folder.mkdir(parents=True, exist_ok=True)
        payload = Payload(metadata={"encoding": b"binary/plain"}, data=data)
        (folder / sha256(data)).write_bytes(payload.SerializeToString())
        stored = {"sha256": sha256(data), "sizeBytes": len(data)}
        return {"type": "image", "mediaType": "image/png", "stored": stored, **more}

    async with backend(Client(**config), tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        fields = {"form_token": stage.form_token, "text": "See:", "delivery": "steer"}
        sent = [("files", ("cat.png", cat, "")), ("files", ("page.html", text, ""))]
        headers = {"accept": "text/html"}
        at = f"/run/{run.id}/message"
        answer = await stage.http.post(at, data=fields, files=sent, headers=headers)
        assert answer.headers["location"].endswith("?said=steer#now")
        lies = [
            kept(run.id, SVG, name="lies.png"),
            kept("another", cat[:-1], name="other.png"),
            {
                **kept(run.id, PNG, name="size.png"),
                "stored": {"sha256": sha256(PNG), "sizeBytes": 9},
            },
        ]
        await run.handle.signal("message", {"role": "user", "content": lies})
        await run.decide("t1c1", "deny")

        async def are_read() -> bool:
            return len(await contents(run)) == 3

        await eventually(are_read)
        entries = [e for e in await run.context() if e["type"] == "message"]
        files, others = (e["n"] for e in entries if e["message"]["role"] == "user" and e["n"] > 1)
        shown = (await stage.get(f"/run/{run.id}")).text
        href = f"/run/{run.id}/file"
        assert f'<a href="{href}/{files}/1">' in shown
        assert f'<a href="{href}/{files}/2">' in shown
        assert "<script>alert" not in shown
        assert "2,500,000 bytes" in shown
        picture, page = [await stage.get(f"{href}/{files}/{n}") for n in (1, 2)]
        assert (picture.headers["content-type"], picture.content) == ("image/png", cat)
        assert (page.headers["content-type"], page.content) == ("text/plain; charset=utf-8", text)
        assert page.headers["content-disposition"].startswith("attachment;")
        lie, other, size = [await stage.get(f"{href}/{others}/{n}") for n in range(3)]
        assert lie.status_code == 404
        assert "has no file runs/" in other.text
        assert "it is damaged; put it back from a copy of the store" in size.text
        assert {each.status_code for each in (lie, other, size)}.isdisjoint({200, 500})
