"""§11, over plain HTTP: a run is started, looked at, decided on, talked to and ended."""

import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from holdfast.client.diagnosis import StuckRunError
from holdfast.client.errors import RUN_FAILED, UNREACHABLE, EncryptedError, HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.stream import heartbeats
from holdfast.runtime.identity.key_sets import FileKeySet
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.run import Principal
from holdfast.schemas.settings.inbox import Programs
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.api import runs
from holdfast.web.api.runs import MAX_KEY_CHARS
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.http.problems import problem_of
from holdfast.web.pages import address
from holdfast.web.services import Services
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, run_of, write_keys
from tests.support.inbox import Stage, inbox, opened
from tests.support.model_server import Answer, call
from tests.support.traces import Recorder

pytestmark = pytest.mark.usefixtures("ledger")

AGENT = "clerk"
NEVER = {"require": "never"}
PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("Paid.")]


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    """An inbox to which Ann is signed in, of the group `finance`."""
    async with inbox(client, by="ann", groups=["finance"]) as made:
        yield made


@pytest.fixture
async def free(client: Client) -> AsyncIterator[Stage]:
    """An inbox whose settings let programs do what they may do with Temporal itself."""
    programs = Programs(definitions=True, principals=True)
    parts = Services(HoldfastClient(client), programs=programs)
    seal = TextSealer()
    link = LinkSignIn(seal, "ann")
    async with opened(parts, link, BearerTokens(seal, [])) as made:
        await made.http.get(link.address(made.address))
        made.form_token = seal.mark("form", "link ann")
        yield made


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    folder = tmp_path / "catalog"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents" / f"{AGENT}.yaml").write_text(
        "instructions: Help.\nmodel: {endpoint: fake, name: fake}\ntools: [pay, echo]\n"
    )
    return folder


@pytest.fixture
async def desk(client: Client, tmp_path: Path, catalog: Path) -> AsyncIterator[Backend]:
    async with backend(client, tmp_path, PAYS, catalog=catalog, **SIDE_BY_SIDE) as made:
        yield made


async def started(stage: Stage, desk: Backend, **more: Any) -> Run:
    asked = {"agent": AGENT, "input": "pay", "taskQueue": desk.task_queue, **more}
    answer = await stage.send("/runs", asked)
    assert answer.status_code == 201, answer.text
    run_id = answer.json()["run"]
    assert answer.headers["location"] == address("runs", run_id)
    return Run(desk.client.get_workflow_handle(run_id), desk.client)


def problem(answer: httpx.Response) -> tuple[int, str]:
    """A refusal; it has the one form, and states what happened."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told = answer.json()
    assert told["status"] == answer.status_code
    assert told["type"] == f"urn:holdfast:problem:{told['code']}"
    assert told["detail"].endswith(".")
    return answer.status_code, told["code"]


async def test_a_run_begins_with_one_that_the_caller_may_read(stage: Stage, desk: Backend) -> None:
    source = await started(stage, desk)
    await source.waiting()
    await source.decide("t1c1", "deny")
    await source.result()

    run = await started(stage, desk, input="And?", fork={"run": source.id, "turn": 1})

    assert (await run.result())["output"] == "Paid."
    assert [*await run.results()] == ["t1c1"]


async def test_a_run_from_its_start_to_its_end(stage: Stage, desk: Backend) -> None:
    run = await started(stage, desk)
    path = address("runs", run.id)
    await run.waiting()

    stands = (await stage.http.get(path)).json()
    [waits] = (await stage.http.get(f"{path}/approvals")).json()["approvals"]
    decision = {"callId": waits["callId"], "decision": "approve", "digest": waits["digest"]}
    receipt = await stage.send(f"{path}/decisions", {**decision, "by": "eve", "groups": ["boss"]})
    result = await run.result()
    ended = (await stage.http.get(path)).json()
    log = (await stage.http.get(f"{path}/context", params={"limit": 1000})).json()

    assert (stands["run"], stands["status"]) == (run.id, "awaiting_approval")
    assert receipt.json() == {
        "callId": "t1c1",
        "decision": "approve",
        "decided": True,
        "missing": 0,
    }
    assert ended == {"run": run.id, "status": "completed", "result": result}
    assert log["entries"] == await run.context()
    assert log["next"] == len(log["entries"])
    [decided] = [one["decided"] for one in log["entries"] if one["type"] == "decision"]
    assert (decided["by"], decided["groups"]) == ("ann", ["finance"])


async def test_a_run_acts_for_the_caller_who_starts_it_alone(stage: Stage, desk: Backend) -> None:
    run = await started(stage, desk)
    own = await started(stage, desk, principal={"id": "ann"})
    asked = {"agent": AGENT, "input": "pay", "taskQueue": desk.task_queue}

    other = await stage.send("/runs", asked | {"principal": {"id": "bob"}})
    more = await stage.send("/runs", asked | {"principal": {"id": "ann", "scopes": ["admin"]}})
    token = await stage.send("/runs", asked | {"principal": {"token": "signed.by.somebody"}})

    for one in (run, own):
        given = await _input_of(one)
        assert given["principal"] == {"id": "ann"}
    assert problem(other) == (403, "principal_not_yours")
    assert problem(more) == (403, "principal_not_yours")
    assert "admin" in more.json()["detail"]
    assert token.status_code == 201


async def test_a_token_of_a_principal_names_its_run(stage: Stage, desk: Backend) -> None:
    """Also beside an idempotency key; a copy of it starts no second run."""
    named = {"token": Approver().principal()}
    asked: dict[str, Any] = {"agent": AGENT, "input": "pay", "taskQueue": desk.task_queue}
    asked["principal"] = named

    first = await stage.send("/runs", asked, idempotency_key="order-7")
    again = await stage.send("/runs", asked, idempotency_key="order-7")
    copied = await stage.send("/runs", asked)

    assert first.json()["run"] == again.json()["run"] == run_of(named)
    assert problem(copied) == (409, "run_exists")


async def test_settings_allow_programs_to_act_for_others_and_bring_agents(
    free: Stage, stage: Stage, desk: Backend
) -> None:
    agent = {"model": {"endpoint": "fake", "name": "fake"}, "tools": ["pay"]}
    principal = Principal(id="bob", scopes=["admin"]).to_json()

    run = await started(free, desk, agent=agent, principal=principal)
    refused = await stage.send("/runs", {"agent": agent, "input": "pay"})
    tool = await stage.send("/calls", {"tool": {"_tool": "pay", "_activity": "pay"}})

    assert (await _input_of(run))["principal"] == principal
    assert problem(refused) == (403, "definition_not_taken")
    assert problem(tool) == (403, "definition_not_taken")


async def test_a_run_is_in_the_trace_of_its_starter(
    client: Client, stage: Stage, tmp_path: Path, catalog: Path
) -> None:
    recorder, trace_id, span_id = Recorder(), "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    said = {"traceparent": f"00-{trace_id}-{span_id}-01", "tracestate": "a=1"}
    telling = {"catalog": catalog, "telemetry": recorder.telemetry, **SIDE_BY_SIDE}
    async with backend(client, tmp_path, [Answer("Hello.")], **telling) as desk:
        queue = {"taskQueue": desk.task_queue}
        run = await stage.send("/runs", {"agent": AGENT, "input": "hello", **queue}, **said)
        single = await stage.send(
            "/calls", {"tool": "echo", "arguments": {"text": "x"}, **queue}, **said
        )
        for answer in (run, single):
            await client.get_workflow_handle(answer.json()["run"]).result()
    spans = recorder.seen()
    assert {one.trace_id for one in spans} == {trace_id}
    assert sorted(one.name for one in spans if one.parent_id == span_id) == [
        f"invoke_agent {AGENT}",
        "invoke_workflow CallWorkflow",
    ]


async def _input_of(run: Run) -> dict[str, Any]:
    async for event in run.handle.fetch_history_events():
        given = event.workflow_execution_started_event_attributes.input
        [value] = await run.handle._client.data_converter.decode(given.payloads)
        found: dict[str, Any] = value
        return found
    raise AssertionError("it has no history")


async def test_the_same_request_under_the_same_key_is_one_run(
    client: Client, stage: Stage, desk: Backend
) -> None:
    asked = {"agent": AGENT, "input": "pay", "taskQueue": desk.task_queue}

    first = await stage.send("/runs", asked, idempotency_key="order-7")
    again = await stage.send("/runs", asked, idempotency_key="order-7")
    another = await stage.send("/runs", asked | {"input": "x"}, idempotency_key="order-7")
    other_key = await stage.send("/runs", asked, idempotency_key="order-8")
    named = asked | {"id": f"order-9-{desk.task_queue}"}
    await stage.send("/runs", named, idempotency_key="order-9")
    async with inbox(client, by="bob") as of_bob:
        others = await of_bob.send("/runs", asked, idempotency_key="order-7")
        taken = await of_bob.send("/runs", named, idempotency_key="order-9")

    assert (first.status_code, again.status_code, others.status_code) == (201, 201, 201)
    assert first.json() == again.json()
    assert len({one.json()["run"] for one in (first, other_key, others)}) == 3
    assert problem(another) == (422, "key_reused")
    assert problem(taken) == (409, "run_exists")
    for none in ("with space", "k" * (MAX_KEY_CHARS + 1)):
        no_key = await stage.send("/runs", asked, idempotency_key=none)
        assert problem(no_key) == (400, "bad_request")


async def test_a_single_call_is_executed_and_takes_no_message(stage: Stage, desk: Backend) -> None:
    # As Python spells it: what is for the inbox is handed on in neither way.
    asked = {"tool": "pay", "arguments": {"amount": 3}, "task_queue": desk.task_queue}
    answer = await stage.send("/calls", asked)
    path = answer.headers["location"]
    run = Run(desk.client.get_workflow_handle(answer.json()["run"]))
    [waits] = await run.waiting()

    message = await stage.send(f"{path}/messages", {"content": "hurry"})
    closed = await stage.send(f"{path}/close")
    await stage.send(f"{path}/decisions", {"callId": waits["callId"], "decision": "approve"})
    await run.result()

    assert problem(message) == problem(closed) == (409, "single_call")
    assert (await stage.http.get(path)).json()["result"]["output"] == {"paid": 3}


async def test_a_message_is_taken_back_until_it_is_read(stage: Stage, desk: Backend) -> None:
    run = await started(stage, desk)
    path = address("runs", run.id)
    await run.waiting()
    await stage.send(f"{path}/messages", {"content": "hurry"})
    await stage.send(f"{path}/messages", {"content": "for us", "audience": "people"})
    queued = (await stage.http.get(path)).json()["queued"]
    taken = [await stage.send(f"{path}/withdraw", {"message": 1}) for _ in range(2)]
    await stage.send(f"{path}/decisions", {"callId": "t1c1", "decision": "approve"})
    await run.result()

    assert queued == [{"number": 1, "role": "user", "delivery": "steer", "text": "hurry"}]
    assert (taken[0].status_code, problem(taken[1])) == (200, (409, "no_such_message"))


async def test_a_rejected_decision_has_a_reason(stage: Stage, desk: Backend) -> None:
    run = await started(stage, desk)
    path = f"{address('runs', run.id)}/decisions"
    await run.waiting()

    async def decided(**said: Any) -> tuple[int, str]:
        return problem(await stage.send(path, {"callId": "t1c1", "decision": "approve", **said}))

    assert await decided(callId="t9c9") == (409, "no_such_call")
    assert await decided(digest="0" * 64) == (422, "invalid_decision")
    assert await decided(decision="edit", arguments={"amount": "x"}) == (422, "invalid_decision")
    assert await decided(decision="maybe") == (422, "invalid_request")
    assert await decided(token="not.a.token") == (422, "invalid_decision")
    await stage.send(path, {"callId": "t1c1", "decision": "approve"})
    await run.result()
    assert await decided() == (409, "ended")


async def test_a_call_that_no_worker_takes_is_shown_with_its_task_queue(
    free: Stage, desk: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "UNTAKEN_TIME", timedelta())
    pay = {"_tool": "pay", "_activity": {"type": "pay", "taskQueue": "gone"}, "_approval": NEVER}
    agent = {"model": {"endpoint": "fake", "name": "fake"}, "tools": [pay]}
    run = await started(free, desk, agent=agent)

    async def waits() -> Any:
        return (await free.http.get(address("runs", run.id))).json().get("waits")

    assert await eventually(waits) == ["for a worker on task queue gone to take t1c1"]
    await run.handle.terminate()


async def test_a_program_is_known_by_its_token_and_its_scopes_are_the_runs(
    client: Client, desk: Backend, tmp_path: Path
) -> None:
    signer = Approver()
    file = write_keys(tmp_path / "keys.json", signer)
    sets = [FileKeySet("programs", KeySet(file=str(file)), file)]
    token = signer.program(scopes=["orders:read"])
    headers = {"authorization": f"Bearer {token}"}
    asked = {"agent": AGENT, "input": "pay", "taskQueue": desk.task_queue}
    more = asked | {"principal": {"id": "till", "scopes": ["orders:write"]}}
    async with inbox(client, tokens=sets) as stage, httpx.AsyncClient(headers=headers) as http:
        answer = await http.post(f"{stage.address}/runs", json=asked)
        refused = await http.post(f"{stage.address}/runs", json=more)

    run = Run(client.get_workflow_handle(answer.json()["run"]))
    assert (await _input_of(run))["principal"] == {"id": "till", "scopes": ["orders:read"]}
    assert problem(refused) == (403, "principal_not_yours")


async def test_a_conversation_answers_each_waiting_client(
    stage: Stage, client: Client, tmp_path: Path, catalog: Path
) -> None:
    gate = threading.Event()
    said = [Answer("Hello."), Answer("Seven."), Answer("Eight.", hold=gate)]
    async with backend(client, tmp_path, said, catalog=catalog, **SIDE_BY_SIDE) as desk:
        run = await started(stage, desk, conversation=True)
        path = address("runs", run.id)

        async def listens() -> bool:
            return bool((await run.status())["status"] == "awaiting_message")

        await eventually(listens)
        answer = await stage.send(f"{path}/messages", {"content": "4+3"}, prefer="wait=999")
        later = await stage.send(f"{path}/messages", {"content": "4+4"}, prefer="wait=1")
        gate.set()
        await eventually(listens)
        closed = await stage.send(f"{path}/close")
        result = await run.result()
        over = await stage.send(f"{path}/messages", {"content": "more"})

    assert (answer.status_code, answer.json()) == (200, {"run": run.id, "answer": "Seven."})
    assert answer.headers["preference-applied"] == "wait=60", "it is waited for so long at most"
    assert (later.status_code, closed.status_code) == (202, 202)
    assert result["output"] == "Eight."
    assert problem(over) == (409, "ended")


async def test_a_run_is_cancelled_once(stage: Stage, desk: Backend) -> None:
    run = await started(stage, desk)
    path = address("runs", run.id)
    await run.waiting()

    cancelled = await stage.send(f"{path}/cancel")

    async def is_over() -> bool:
        return "error" in (await stage.http.get(path)).json()

    await eventually(is_over)
    again = await stage.send(f"{path}/cancel")
    shown = (await stage.http.get(path)).json()

    assert cancelled.status_code == 202
    assert (shown["status"], shown["error"]["code"]) == ("cancelled", "cancelled")
    assert problem(again) == (409, "ended")


async def test_what_is_no_run_of_ours_is_not_touched(
    stage: Stage, client: Client, desk: Backend
) -> None:
    other = await client.start_workflow("Other", id="of-others", task_queue="empty")

    for verb in ("cancel", "close", "decisions", "messages"):
        said = (
            {"callId": "t1c1", "decision": "approve"} if verb == "decisions" else {"content": "x"}
        )
        for run in ("of-others", "nothing"):
            answer = await stage.send(f"/runs/{run}/{verb}", said)
            assert problem(answer) == (404, "no_such_run"), verb
    assert (await other.describe()).status is not None
    assert problem(await stage.http.get("/runs/of-others")) == (404, "no_such_run")
    assert (await other.describe()).close_time is None
    await other.terminate()


async def test_what_cannot_be_read_is_refused_in_one_sentence(stage: Stage) -> None:
    json_ = "application/json"
    for body, kind, refused in (
        (b"{}", "text/plain", (415, "wrong_type")),
        (b"{", json_, (400, "bad_request")),
        (b'{"agent": "a", "agent": "b"}', json_, (400, "bad_request")),
        (b'{"agent": NaN}', json_, (400, "bad_request")),
        (b'{"agent": "\\ud800"}', json_, (400, "bad_request")),
        (b"[" * 100_000, json_, (400, "bad_request")),
        (b"[]", json_, (422, "invalid_request")),
        (b'{"agent": "clerk"}', json_, (422, "invalid_request")),
        (
            b'{"agent": "clerk", "context": [{"role": "assistant", "content": "Done."}]}',
            json_,
            (422, "invalid_request"),
        ),
        (b'{"agent": "clerk", "inputs": "x"}', json_, (422, "invalid_request")),
        (b" " * 2_000_001, json_, (413, "too_large")),
    ):
        headers = {"content-type": kind, "x-form-token": stage.form_token}
        answer = await stage.http.post("/runs", content=body, headers=headers)
        assert problem(answer) == refused, body[:40]


async def test_invalid_input_is_reported_field_by_field(stage: Stage) -> None:
    asked = {"agent": "clerk", "input": "x", "budget": {"maxTurns": 0}, "principle": {"id": "ann"}}

    answer = await stage.send("/runs", asked)

    assert problem(answer) == (422, "invalid_request")
    faults = {one["where"]: one["mend"] for one in answer.json()["faults"]}
    assert faults == {
        "budget.maxTurns": "write 1 or more",
        "principle": "did you mean `principal`?",
    }


async def test_without_a_worker_that_is_reported_and_ended_runs_are_shown(
    stage: Stage, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.remote_run.NO_WORKER_SECONDS", 0.3)
    handle = await client.start_workflow("AgentWorkflow", {}, id="unheard-api", task_queue="empty")

    silent = await stage.http.get("/runs/unheard-api")
    undecided = await stage.send(
        "/runs/unheard-api/decisions", {"callId": "t1c1", "decision": "deny"}
    )
    await handle.terminate(reason="enough")
    shown = await stage.http.get("/runs/unheard-api")

    assert problem(silent) == problem(undecided) == (503, "no_worker")
    assert silent.headers["retry-after"]
    assert shown.json() == {
        "run": "unheard-api",
        "status": "terminated",
        "error": {"code": "terminated", "message": "enough"},
    }


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (HoldfastError("Temporal does not answer", "check it", UNREACHABLE), (503, "no_temporal")),
        (StuckRunError("r", "q", "a bug"), (503, "stuck")),
        (EncryptedError("it is encrypted", "name its key"), (502, "encrypted")),
        (HoldfastError("the run does not answer", "see its log", RUN_FAILED), (502, "refused")),
        (KeyError("a defect"), (500, "failed")),
    ],
)
def test_a_failure_without_fault_of_the_caller_is_reported_as_one(
    error: Exception, told: tuple[int, str]
) -> None:
    found = problem_of(error)

    assert (found.status, found.code) == told
    assert ("Retry-After" in found.headers) == (found.status == 503)
    assert "a defect" not in found.detail


async def test_a_page_of_the_log_has_bounds(stage: Stage) -> None:
    wrong = ("after=-1", "after=1000000001", "limit=0", "limit=1001", "after=x", "after=²")
    for query in (*wrong, f"after={'9' * 5_000}"):
        answer = await stage.http.get(f"/runs/x/context?{query}")
        assert problem(answer) == (400, "bad_request"), query


def test_a_wait_is_read_as_it_is_written() -> None:
    waits = ["wait=5", "respond-async, wait=5", 'wait="5"', "WAIT = 5; x", "await=5", "wait=-5"]
    found = [runs._WAIT.search(one) for one in waits]
    assert [one and one[1] for one in found] == ["5", "5", "5", "5", None, None]
