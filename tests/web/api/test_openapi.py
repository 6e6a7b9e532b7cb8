"""The description of the addresses for programs has what is served: no more and no less."""

import asyncio
import json
import re
import shlex
import string
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.routing import Route
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.web.api.api_request import JSON
from holdfast.web.api.openapi import Operation, build_description, curl_command
from holdfast.web.api.operations import OPERATIONS, Resource, routes
from holdfast.web.http.problems import CODES, MEDIA_TYPE, HttpProblem
from holdfast.web.services import Services
from tests.support import tools
from tests.support.backend import ROOT, SIDE_BY_SIDE, Backend, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, sent
from tests.support.model_server import Answer, call

TOLD = build_description(OPERATIONS)


def described(operation: Operation) -> Mapping[str, Any]:
    found: Mapping[str, Any] = TOLD["paths"][operation.path][operation.method.lower()]
    return found


def check(schema: Mapping[str, Any], value: Any) -> None:
    """See that a value fits a schema of the document."""
    whole = {**schema, "components": TOLD["components"]}
    Draft202012Validator(whole).validate(value)


def check_answer(operation: Operation, answer: httpx.Response) -> None:
    """See that an answer is one of those that the document knows of."""
    known = described(operation)["responses"].get(str(answer.status_code))
    assert known is not None, (operation.name, answer.status_code, answer.text)
    if not answer.content:
        return
    kind = answer.headers["content-type"].partition(";")[0]
    content = known["content"][kind]
    if kind.endswith("json"):
        check(content["schema"], answer.json())
    if kind == MEDIA_TYPE:
        assert f"`{answer.json()['code']}`" in known["description"]


@pytest.fixture
async def desk(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Backend]:
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))
    said = [Answer("Shall I?", calls=[call("pay", amount=5)]), Answer("Paid.")]
    async with backend(client, tmp_path, said, **SIDE_BY_SIDE) as made:
        yield made


def test_what_is_described_is_served_and_what_is_served_described(nowhere: Client) -> None:
    served = {
        (method, route.path.replace("{run:path}", "{run}"))
        for route in routes(Services(HoldfastClient(nowhere)))
        if isinstance(route, Route) and isinstance(route.endpoint, Resource)
        for method in route.endpoint.operations
    }
    told = {(method.upper(), path) for path, each in TOLD["paths"].items() for method in each}

    assert served == told == {(each.method, each.path) for each in OPERATIONS}
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)


def test_every_schema_is_one_and_every_reference_is_to_one() -> None:
    names = {f"#/components/schemas/{name}" for name in TOLD["components"]["schemas"]}
    used = set(_references(TOLD))

    assert used <= names
    for schema in TOLD["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    json.dumps(TOLD, allow_nan=False)


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in _references(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in _references(inner)]
    return []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_its_examples_are_good(operation: Operation) -> None:
    told = described(operation)
    contents = [*(one.get("content", {}) for one in told["responses"].values())]
    contents.append(told.get("requestBody", {}).get("content", {}))
    for content in contents:
        for each in content.values():
            check(each["schema"], each["example"])
    if operation.body is not None:
        operation.body.model_validate(operation.example)


def test_every_problem_is_known_and_described() -> None:
    told = {code for each in OPERATIONS for code in each.problems}
    spoken = json.dumps(TOLD["paths"])

    assert told <= CODES.keys()
    for code, (status, _) in CODES.items():
        assert f"`{code}`" in spoken, code
        assert HttpProblem(code, "So.").response().status_code == status


def test_the_manual_lists_each_code_at_its_status() -> None:
    manual = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3})\S*.*? \| (.*) \|$", manual, re.M)
    told = {code: int(status) for status, text in rows for code in re.findall(r"`(\w+)`", text)}

    assert told == {code: status for code, (status, _) in CODES.items()}
    for each in OPERATIONS:
        assert f"{each.path.rpartition('/')[2]}" in manual


async def test_real_answers_fit_it(stage: Stage, desk: Backend) -> None:
    run = await desk.start(["pay"])
    await run.waiting()
    by_name = {one.name: one for one in OPERATIONS}
    path = f"/runs/{run.id}"

    whole = {"showRun": path, "readRun": f"{path}/context", "readApprovals": f"{path}/approvals"}
    whole["compareRuns"] = f"{path}/diff/{run.id}"
    lists = {"listRuns": f"/runs?run={run.id}", "listApprovals": f"/approvals?run={run.id}"}
    await eventually(lambda: listed(stage, *lists.values()))
    for name, address in (whole | lists).items():
        answer = await stage.http.get(address)
        assert answer.status_code == 200
        check_answer(by_name[name], answer)
    message = await stage.send(f"{path}/messages", {"content": "go on"})
    check_answer(by_name["say"], message)
    decision = {"callId": "t1c1", "decision": "approve"}
    check_answer(by_name["decide"], await stage.send(f"{path}/decisions", decision))
    await run.result()
    check_answer(by_name["showRun"], await stage.http.get(path))
    check_answer(by_name["decide"], await stage.send(f"{path}/decisions", decision))
    frame = {"$ref": "#/components/schemas/Frame"}
    async with stage.http.stream("GET", f"{path}/events") as stream:
        frames = [each.data async for each in sent(stream) if each.data is not None]
    assert {each["type"] for each in frames} > {"token", "tool_call", "done"}
    for each in frames:
        check(frame, each)


async def listed(stage: Stage, *addresses: str) -> bool:
    """Whether each list has its one entry: visibility lags behind."""
    found = [(await stage.http.get(each)).json() for each in addresses]
    return all(len(next(iter(each.values()))) == 1 for each in found)


TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("agent", "tool", "input", "id", "taskQueue", "principal", "context", "budget"),
        *("arguments", "state", "conversation", "approvals", "skill"),
        *("callId", "decision", "result", "token", "digest", "reason", "by", "groups", "remember"),
        *("content", "delivery", "role"),
    ]
)
BODIES: st.SearchStrategy[Any] = st.dictionaries(FIELDS | TEXT, VALUES, max_size=6) | VALUES
IDS = st.sampled_from(["there", "nothing", "of/others", "."]) | st.text(min_size=1, max_size=8)
HEADERS = st.dictionaries(
    st.sampled_from(["prefer", "idempotency-key", "last-event-id", "accept"]),
    st.text(string.printable.strip(), max_size=12),
    max_size=2,
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request of any operation, in any way that a caller may get it wrong."""
    operation = draw(st.sampled_from(OPERATIONS))
    url = operation.path.replace("{run}", quote(draw(IDS), safe=""))
    asked = draw(st.sampled_from(["", "?after=1", "?limit=2", "?after=1.1.2.00000000", "?after=x"]))
    method = draw(st.sampled_from([operation.method] * 4 + ["PUT", "OPTIONS", "DELETE", "HEAD"]))
    made = {"method": method, "url": url + asked, "headers": draw(HEADERS)}
    if method == "POST":
        made["json"] = draw(BODIES)
    return {**made, "operation": operation}


async def test_whatever_is_sent_nothing_falls_over(
    stage: Stage, desk: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.remote_run.NO_WORKER_SECONDS", 0.2)
    run = await desk.start(["pay"])
    await run.waiting()
    loop, received = asyncio.get_running_loop(), []

    @given(requests())
    def falls_over(request: dict[str, Any]) -> None:
        asked = asyncio.run_coroutine_threadsafe(_sent(stage, request, run.id), loop)
        received.append(asked.result(120))

    await asyncio.to_thread(falls_over)
    for each in filter(None, received):
        await desk.client.get_workflow_handle(each).terminate()


async def _sent(stage: Stage, request: dict[str, Any], there: str) -> str | None:
    """Send a request and check its answer; the id of the run that it has started, if it has."""
    operation: Operation = request.pop("operation")
    url = request.pop("url").replace("there", there)
    headers = {"x-form-token": stage.form_token, **request.pop("headers")}
    async with stage.http.stream(url=url, headers=headers, **request) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()
            if request["method"] == operation.method:
                check_answer(operation, answer)
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        return answer.json()["run"] if answer.status_code == 201 else None


def test_a_command_of_the_page_sends_its_example_as_it_is() -> None:
    example = {"content": "It's $HOME & more"}
    body = {"requestBody": {"content": {JSON: {"example": example}}}}
    told = {"operationId": "say", **body}
    said = shlex.split(curl_command("https://a/runs/{run}", "post", told))
    assert json.loads(said[said.index("-d") + 1]) == example
    assert said[:4] == ["curl", "-X", "POST", "https://a/runs/$RUN"]


async def test_the_page_shows_all_of_it(stage: Stage) -> None:
    assert 'href="/api"' in (await stage.get("/run")).text
    page = await stage.get("/api")
    document = await stage.http.get("/openapi.json")

    assert document.json() == json.loads(json.dumps(TOLD)) | {"servers": [{"url": "/"}]}
    assert page.status_code == 200
    assert "Approve every further call of the tool in this run." in page.text
    assert page.text.count("Or as a form: this JSON in <code>request</code>") == 2
    for each in OPERATIONS:
        assert f'id="{each.name}"' in page.text
        assert f"{stage.address}{each.path}".replace("{run}", "$RUN") in page.text
