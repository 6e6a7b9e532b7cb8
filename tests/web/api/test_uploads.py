"""Files over HTTP: a form with the JSON of a request in `request`, and files beside it."""

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from holdfast.runtime.attachments import MAX_INLINE_BYTES
from holdfast.runtime.identity.key_sets import FileKeySet
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.http.requests import MAX_BODY_BYTES
from tests.docs.page import File, steps
from tests.support.backend import ROOT, SIDE_BY_SIDE, Run, backend
from tests.support.identity.signing import Approver, write_keys
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = {"type": "image", "mediaType": "image/png", "data": base64.b64encode(PNG).decode()}
PAGE = b"<script>alert(1)</script>"


async def upload(
    stage: Stage, path: str, request: Any, *files: tuple[str, bytes], **headers: str
) -> httpx.Response:
    """Send a form as a script of a page does; without a `request`, it has none."""
    whole = [] if request is None else [("request", (None, json.dumps(request).encode()))]
    parts = [("files", (name, data, "image/png")) for name, data in files]
    sent = {"x-form-token": stage.form_token}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await stage.http.post(path, files=[*whole, *parts], headers=sent)


async def contents(run: Run) -> list[Any]:
    messages = [entry["message"] for entry in await run.context() if entry["type"] == "message"]
    return [one["content"] for one in messages if one["role"] == "user"]


async def test_a_form_starts_a_run_once_and_sends_a_message(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, [Answer("A cat.")] * 2, **SIDE_BY_SIDE) as made:
        new = {"agent": "clerk", "taskQueue": made.task_queue, "conversation": True}
        asked, files = {**new, "input": "See:"}, [("../cat.png", PNG), ("C:\\b.png", PAGE)]
        first, again, other = [
            await upload(stage, "/runs", asked, *sent, idempotency_key=made.task_queue)
            for sent in (files, files, files[:1])
        ]
        image = {**IMAGE, "name": "cat.png"}
        parts = [{"type": "text", "text": "See:"}, image]
        parts.append({"type": "text", "text": PAGE.decode(), "name": "b.png"})
        told = {**new, "input": parts}
        same = await stage.send("/runs", told, idempotency_key=made.task_queue)
        assert (first.status_code, other.json()["code"]) == (201, "key_reused")
        assert first.json() == again.json() == same.json()
        run = Run(client.get_workflow_handle(first.json()["run"]), client)
        await run.idle()
        at = f"/runs/{run.id}/messages"
        answer = await upload(stage, at, None, ("cat.png", PNG), prefer="wait=20")
        assert answer.json()["answer"] == "A cat."
        assert await contents(run) == [parts, [image]]


async def test_a_browsers_blob_is_the_request_and_no_file(stage: Stage) -> None:
    blob = ("request", ("blob", b'{"agent": "clerk", "inputs": 1}', "application/json"))
    headers = {"x-form-token": stage.form_token}
    answer = await stage.http.post("/runs", files=[blob], headers=headers)
    assert [one["where"] for one in answer.json()["faults"]] == ["inputs"]


async def test_the_json_of_a_form_has_the_bound_of_a_body_as_a_field_and_as_a_file(
    stage: Stage,
) -> None:
    headers = {"x-form-token": stage.form_token}
    for name in (None, "blob"):
        for size_bytes, status in ((MAX_BODY_BYTES, 422), (MAX_BODY_BYTES + 1, 413)):
            json_ = json.dumps({"agent": 5, "input": "x"}).encode()
            json_ = json_.replace(b"x", b"x" * (size_bytes - len(json_) + 1))
            assert len(json_) == size_bytes
            sent: Any = [("request", (name, json_, "application/json")), ("files", ("a.png", PNG))]
            answer = await stage.http.post("/runs", files=sent, headers=headers)
            assert answer.status_code == status, (name, size_bytes)


@pytest.mark.parametrize(
    ("path", "request_", "file", "refused"),
    [
        ("/runs", None, PNG, (422, "`agent` is missing; add it")),
        ("/runs", {"agent": 5}, PNG, (422, "`agent`")),
        ("/runs", [], PNG, (422, "That is no run request")),
        ("/runs", {"agent": "a"}, b"\x7fELF", (422, "x.png is of no type that a run takes")),
        ("/runs", {"agent": "a"}, PNG + b"\0" * MAX_INLINE_BYTES, (422, "no store is set")),
        ("/calls", {"tool": "pay"}, PNG, (415, "Send it as application/json.")),
    ],
)
async def test_a_form_that_does_not_fit_is_refused_in_one_sentence(
    stage: Stage, path: str, request_: Any, file: bytes, refused: tuple[int, str]
) -> None:
    answer = await upload(stage, path, request_, ("x.png", file))
    status, text = refused
    assert (answer.status_code, answer.json()["detail"].count("\n")) == (status, 0)
    assert text in answer.json()["detail"]


async def test_a_part_that_lies_about_its_type_is_refused_by_its_place(stage: Stage) -> None:
    lie = {**IMAGE, "data": base64.b64encode(PAGE).decode()}
    for asked, where in (
        ({"input": [IMAGE, lie]}, "`input[1]`"),
        ({"input": "x", "context": [{"content": [lie]}]}, "`context[0].content[0]`"),
    ):
        answer = await stage.send("/runs", {"agent": "clerk", **asked})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert f"{where} states another `mediaType`" in answer.json()["detail"]


async def test_the_command_of_the_manual_starts_a_run(client: Client, tmp_path: Path) -> None:
    page, signer = steps(ROOT / "docs" / "http-api.md"), Approver()
    [command] = [one.text for one in page if isinstance(one, File) and one.name == "attach.sh"]
    (tmp_path / "bill.pdf").write_bytes(b"%PDF-1.7")
    file = write_keys(tmp_path / "keys.json", signer)
    sets = [FileKeySet("programs", KeySet(file=str(file)), file)]
    async with inbox(client, tokens=sets) as stage:
        process = await asyncio.create_subprocess_shell(
            command.replace("https://inbox.example.com", stage.address),
            cwd=tmp_path,
            env={**os.environ, "TOKEN": signer.program()},
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()
    run = client.get_workflow_handle(json.loads(printed)["run"])
    first = await anext(aiter(run.fetch_history_events()))
    sent = first.workflow_execution_started_event_attributes.input.payloads
    [request] = await client.data_converter.decode(sent)
    await run.terminate()
    _, bill = request["input"]
    assert (bill["type"], bill["name"]) == ("document", "bill.pdf")
