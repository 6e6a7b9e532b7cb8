"""Runs as tasks, for clients that declare the extension."""

from types import SimpleNamespace
from typing import Any, Literal

import pytest
from mcp import Client as McpClient
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    CallToolResult,
    ClientCapabilities,
    Request,
    Result,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.client.errors import NoSuchRunError
from holdfast.web.mcp import server
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.tasks import EXTENSION, RunTasks, TaskParams, UpdateParams
from tests.support import tools
from tests.support.backend import Backend, Run
from tests.support.eventually import eventually
from tests.web.mcp.conftest import INBOX, Open, run_id, text
from tests.web.mcp.test_approvals import ANN, APPROVE, Screen


class Created(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    poll_interval_ms: int


class DeclaredTasks(ClientExtension):
    """What a client with tasks declares."""

    identifier = EXTENSION

    def claims(self) -> list[ResultClaim[Any]]:
        async def resolve(created: Created, ctx: ClaimContext) -> CallToolResult:
            raise AssertionError("the tests poll")

        return [ResultClaim(result_type="task", model=Created, resolve=resolve)]


class TaskAnswer(Result):
    model_config = {"extra": "allow"}


async def request(mcp: McpClient, method: str, **params: Any) -> dict[str, Any]:
    """Send a request of the extension."""
    kind = UpdateParams if "inputResponses" in params else TaskParams
    sent: Any = Request[Any, str](method=method, params=kind.model_validate(params))
    answer = await mcp.session.send_request(sent, TaskAnswer)
    return answer.model_dump(by_alias=True)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for a person is a task at once."""
    monkeypatch.setattr(server, "TASK_AFTER_SECONDS", 0.5)


async def created(mcp: McpClient, **arguments: Any) -> Created:
    found = await mcp.session.call_tool("teller", arguments, allow_claimed=True)
    assert isinstance(found, Created)
    assert found.status == "working"
    return found


async def polled(mcp: McpClient, task: str, status: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        answer = await request(mcp, "tasks/get", taskId=task)
        return answer if answer["status"] == status else None

    return await eventually(found)


async def test_a_task_is_answered_and_completed(
    open_client: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: Any = {"elicitation_callback": Screen(), "extensions": [DeclaredTasks()]}
    async with open_client(ANN, **options) as mcp:
        with monkeypatch.context() as patch:
            patch.setattr(server, "TASK_AFTER_SECONDS", 60)
            quick = await mcp.call_tool("echo", {"text": "a"})
        task = (await created(mcp, sum=5)).task_id
        asked = await polled(mcp, task, "input_required")
        [(key, form)] = asked["inputRequests"].items()
        answers = {"other": APPROVE, key: APPROVE}
        dumped = {name: each.model_dump(by_alias=True) for name, each in answers.items()}
        await request(mcp, "tasks/update", taskId=task, inputResponses=dumped)
        ended = await polled(mcp, task, "completed")
        await request(mcp, "tasks/update", taskId=task, inputResponses=dumped)
    assert not quick.is_error
    assert form["method"] == "elicitation/create"
    assert form["params"]["message"].startswith("Approval needed: Pay (t1c1)")
    assert ended["result"]["structuredContent"] == {"paid": 5}
    assert tools.read().count(f"pay 5 {task}/t1c1") == 1


async def test_a_task_of_any_other_client_is_not_answered(open_client: Open, desk: Backend) -> None:
    async with open_client(extensions=[DeclaredTasks()]) as mcp, open_client(ANN) as plain:
        task = (await created(mcp, sum=5)).task_id
        working = await request(mcp, "tasks/get", taskId=task)
        [pending] = await Run(desk.client.get_workflow_handle(task)).waiting()
        forged = {f"t1c1.{pending['nonce'][:32]}": APPROVE.model_dump(by_alias=True)}
        await request(mcp, "tasks/update", taskId=task, inputResponses=forged)
        with pytest.raises(MCPError, match="does not declare"):
            await request(plain, "tasks/get", taskId=task)
        with pytest.raises(MCPError, match="there is no run none;"):
            await request(mcp, "tasks/get", taskId="none")
        await request(mcp, "tasks/cancel", taskId=task)
        cancelled = await polled(mcp, task, "cancelled")
        await request(mcp, "tasks/cancel", taskId=task)
    assert working["status"] == "working"
    assert f"{INBOX}/waiting/{task}/t1c1" in working["statusMessage"]
    assert "result" not in cancelled
    assert not [each for each in tools.read() if task in each]


async def test_the_rights_of_a_key_bound_what_its_programs_do(
    open_client: Open, desk: Backend
) -> None:
    starter, reader = (Caller(may=frozenset({each})) for each in ("start", "read"))
    async with open_client(starter, extensions=[DeclaredTasks()]) as mcp:
        started = await mcp.call_tool("teller", {"sum": 5})
        run = run_id(started)
        by_name = await mcp.call_tool("start_run", {"tool": "teller", "arguments": {"sum": 5}})
        assert [one.structured_content["status"] for one in (started, by_name)] == ["started"] * 2
        for name in ("show_run", "wait_run"):
            assert "no right to `read`" in text(await mcp.call_tool(name, {"run": run}))
        for method, right in (("get", "read"), ("cancel", "cancel")):
            with pytest.raises(MCPError, match=f"no right to `{right}`"):
                await request(mcp, f"tasks/{method}", taskId=run)
        with pytest.raises(MCPError, match="no right to `decide`"):
            await request(mcp, "tasks/update", taskId=run, inputResponses={})
    async with open_client(reader) as mcp:
        assert "no right to `start`" in text(await mcp.call_tool("teller", {"sum": 5}))
        assert "awaiting approval" in text(await mcp.call_tool("show_run", {"run": run}))
    for one in (started, by_name):
        await desk.client.get_workflow_handle(run_id(one)).terminate()


async def test_a_header_that_names_another_task_is_refused() -> None:
    opened: list[str] = []

    async def open_run(id: str, *_: Any) -> Any:
        opened.append(id)
        raise NoSuchRunError(id)

    none: Any = None
    tasks = RunTasks(open_run, Caller, none, none)
    capabilities = ClientCapabilities(extensions={EXTENSION: {}})
    for named, code in (("t", INVALID_PARAMS), ("other", HEADER_MISMATCH), (None, HEADER_MISMATCH)):
        ctx: Any = SimpleNamespace(
            session=SimpleNamespace(client_capabilities=capabilities),
            protocol_version=MODERN_PROTOCOL_VERSIONS[-1],
            request=SimpleNamespace(headers={"mcp-name": named} if named else {}),
        )
        with pytest.raises(MCPError) as refused:
            await tasks.get(ctx, TaskParams(task_id="t"))
        assert refused.value.error.code == code
    assert opened == ["t"]
