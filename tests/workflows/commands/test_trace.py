"""The trace of a run."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from holdfast.schemas.internal.tracing import HEADER, Tracing
from holdfast.workflows.commands.interceptors import Trace
from tests.engine.driver import FACTS, NOON, Play, reply, tool
from tests.engine.driver import call as asks
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.support.traces import Recorder, Seen, seen, traced, tree
from tests.workflows.commands.test_child_workflows import ASK, agents, by_agent
from tests.workflows.test_continue_as_new import MANY, OFTEN, looking, runs_of


def failing_once(answers: Any) -> Any:
    """A model whose first answer is that it is busy."""
    asked: list[int] = []

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        asked.append(turn)
        busy = Answer(status=503, body={"error": {"message": "busy"}})
        found: Answer = answers(turn, body)
        return busy if len(asked) == 1 else found

    return answer


def others() -> tuple[TracingInterceptor, Callable[[], list[Seen]]]:
    """Temporal's own tracing, as programs of others have it, and the spans that it has made."""
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))

    def spans_of_others() -> list[Seen]:
        spans = [seen(one) for one in kept.get_finished_spans()]
        return [one for one in spans if not one.name.startswith("QueryWorkflow")]

    return TracingInterceptor(provider.get_tracer("others")), spans_of_others


def names(spans: list[Seen]) -> list[str]:
    """What they are, in no order."""
    return sorted(one.name for one in spans)


def the(spans: list[Seen], name: str) -> Seen:
    """The one span of this name."""
    [found] = {one.span_id: one for one in spans if one.name == name}.values()
    return found


async def over(recorder: Recorder, name: str) -> Seen:
    """The first span of this name, once it is there."""

    async def found() -> Seen | None:
        return next((one for one in recorder.seen() if one.name == name), None)

    return await eventually(found)


async def has_ended(run: Run, call_id: str) -> bool:
    """Whether a call of the running turn has ended."""
    calls = (await run.status())["calls"]
    return any(one["callId"] == call_id and one["stage"] == "ended" for one in calls)


async def test_a_run_is_one_trace_with_its_retries_approvals_and_delegates(
    launch: Launch, tmp_path: Path
) -> None:
    # Its cache is off: each of its workflow tasks is a replay of all before it.
    recorder, calls = Recorder(), [call("pay", amount=7), call("ask", task="help"), call("raises")]
    answers = by_agent(
        Test=[Answer(calls=calls), Answer("done")],
        Help=[Answer(calls=[call("echo", text="x")]), Answer("helped")],
    )
    catalog = agents(tmp_path / "catalog", helper={"instructions": "Help", "tools": ["echo"]})
    backend = await launch(failing_once(answers), telemetry=recorder.telemetry, catalog=catalog)
    run = await backend.start(["pay", ASK, "raises"])
    await run.waiting()
    helper = await over(recorder, "invoke_agent helper")
    await eventually(lambda: has_ended(run, "t1c2"))
    assert "invoke_agent tester" not in names(recorder.seen()), "it is not over"
    await run.decide("t1c1", "approve", by="ada@acme.org")
    await run.result()

    spans = recorder.seen()
    assert tree(spans) == [
        "RunActivity:echo < execute_tool echo",
        "RunActivity:pay < execute_tool pay",
        "RunActivity:raises ValueError! < execute_tool raises tool_error!",
        "RunActivity:raises again (2) ValueError! < execute_tool raises tool_error!",
        "approval pay < invoke_agent tester",
        "chat fake 503! < invoke_agent tester",
        "chat fake < invoke_agent helper",
        "chat fake < invoke_agent helper",
        "chat fake < invoke_agent tester",
        "chat fake again (2) < invoke_agent tester",
        "execute_tool ask < invoke_agent tester",
        "execute_tool echo < invoke_agent helper",
        "execute_tool pay < invoke_agent tester",
        "execute_tool raises tool_error! < invoke_agent tester",
        "invoke_agent helper < execute_tool ask",
        "invoke_agent tester",
    ]
    agent = the(spans, "invoke_agent tester")
    assert agent.attributes["gen_ai.conversation.id"] == run.id
    assert agent.attributes["gen_ai.provider.name"] == "openai"
    assert agent.attributes["holdfast.status"] == "completed"
    assert agent.attributes["gen_ai.usage.input_tokens"] == 40
    wait, paid = the(spans, "approval pay"), the(spans, "execute_tool pay")
    assert wait.attributes["holdfast.approval.verdict"] == "approve"
    assert agent.start <= wait.start < wait.end <= paid.start <= paid.end <= agent.end
    asked = the(spans, "execute_tool ask")
    assert asked.end < wait.end, "a call ends when it ended, not with its turn"
    assert helper.attributes["gen_ai.conversation.id"] == f"{run.id}.t1c2"
    assert "ada@acme.org" not in str(spans), "who decides is content"


async def test_a_run_that_continues_as_new_stays_one_trace(launch: Launch, client: Client) -> None:
    recorder, (tracing, theirs) = Recorder(), others()
    backend = await launch(looking(8), telemetry=recorder.telemetry, **OFTEN)
    shop = Backend(traced(client, tracing), backend.task_queue, backend.model)
    run = await shop.start(["look_up"], agent=MANY)
    await run.result()
    assert len(await runs_of(run)) > 1
    spans = recorder.seen()
    tree([*spans, *theirs()])
    assert names(spans).count("execute_tool look_up") == 7
    agent = the(spans, "invoke_agent tester")
    assert agent.start <= min(one.start for one in spans)
    assert agent.attributes["holdfast.turns"] == 8
    assert [agent.parent_id] == [one.span_id for one in theirs() if one.parent_id is None]


async def test_the_trace_of_a_run_and_of_external_workers_is_under_its_starter(
    launch: Launch, client: Client
) -> None:
    # As Temporal's own tracing writes and reads it, in every language.
    recorder, queue, (tracing, told) = Recorder(), "others", others()
    backend = await launch(
        [Answer(calls=[call("ship", to="Ada")]), Answer("done")], telemetry=recorder.telemetry
    )
    starter = traced(client, tracing)
    ship = {"_tool": "ship", "_activity": {"type": "Ship", "taskQueue": queue}, "properties": {}}

    @activity.defn(name="Ship")
    async def execute(arguments: dict[str, Any]) -> str:
        return "shipped"

    theirs = Worker(client, task_queue=queue, activities=[execute], interceptors=[tracing])
    async with theirs:
        run = await Backend(starter, backend.task_queue, backend.model).start([ship])
        await run.result()
    assert tree([*recorder.seen(), *told()]) == [
        "RunActivity:Ship < execute_tool ship",
        "StartWorkflow:AgentWorkflow",
        "chat fake < invoke_agent tester",
        "chat fake < invoke_agent tester",
        "execute_tool ship < invoke_agent tester",
        "invoke_agent tester < StartWorkflow:AgentWorkflow",
    ]


async def test_with_it_a_turn_takes_one_event_more(launch: Launch) -> None:
    taken = []
    for telemetry in (None, Recorder().telemetry):
        backend = await launch(looking(3), telemetry=telemetry)
        run = await backend.start(["look_up"])
        await run.result()
        taken.append(Counter(event.event_type for event in await run.history()))
    without, with_it = taken
    assert without <= with_it
    # Two turns with a call each, and the end.
    assert with_it - without == {EventType.EVENT_TYPE_MARKER_RECORDED: 3}


async def test_a_run_whose_starter_records_no_spans_is_counted_alone(
    launch: Launch, client: Client
) -> None:
    unsampled = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
    tracing = TracingInterceptor(unsampled.get_tracer("others"))
    recorder = Recorder()
    backend = await launch(looking(3), telemetry=recorder.telemetry, **SIDE_BY_SIDE)
    starter = traced(client, tracing)
    await (await Backend(starter, backend.task_queue, backend.model).start(["look_up"])).result()
    assert recorder.seen() == []
    measured = recorder.measured()
    assert measured["holdfast.calls"] == [({"gen_ai.tool.name": "look_up"}, 2)]
    assert [amount for _, amount in measured["holdfast.turns"]] == [3]


async def test_a_run_continues_whatever_happens_to_its_trace(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ApplicationError("no room", non_retryable=True)

    recorder = Recorder()
    monkeypatch.setattr(recorder.telemetry, "record_span", broken)
    backend = await launch(looking(2), telemetry=recorder.telemetry)
    assert (await (await backend.start(["look_up"])).result())["status"] == "completed"


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], asyncio.Future[None]]]:
    """The spans of each recording, and its end."""
    found: list[tuple[list[str], asyncio.Future[None]]] = []

    def record(_: str, batch: dict[str, Any], **__: Any) -> asyncio.Future[None]:
        end = asyncio.get_running_loop().create_future()
        found.append(([span["name"] for span in batch["spans"]], end))
        return end

    info = SimpleNamespace(
        namespace="default",
        workflow_id="run-1",
        first_execution_run_id="first",
        workflow_start_time=NOON,
        headers={HEADER: Payload(metadata={"encoding": b"json/plain"}, data=b"{")},
    )
    monkeypatch.setattr(workflow, "info", lambda: info)
    monkeypatch.setattr(workflow, "payload_converter", lambda: PayloadConverter.default)
    monkeypatch.setattr(workflow, "start_local_activity", record)
    monkeypatch.setattr("holdfast.workflows.commands.interceptors.MAX_SPANS_AT_ONCE", 2)
    return found


async def test_many_spans_are_recorded_in_parts_and_a_recording_is_not_cancelled(
    recordings: list[tuple[list[str], asyncio.Future[None]]],
) -> None:
    play = Play(tool(), model=[reply("", asks("look"), asks("look"), asks("look")), reply("done")])
    play.to_end()
    trace = Trace()
    trace.begin(play.run, FACTS.model_copy(update={"tracing": Tracing()}), None)
    recording = asyncio.ensure_future(trace.record_spans(play.run))
    await asyncio.sleep(0)
    recordings[0][1].set_result(None)
    for _ in range(3):
        await asyncio.sleep(0)
    recording.cancel()
    with suppress(asyncio.CancelledError):
        await recording
    assert not recordings[1][1].cancelled(), "the spans would be recorded a second time"
    await trace.record_spans(play.run)
    look = "execute_tool look"
    assert [names for names, _ in recordings] == [
        [look, look],
        [look, f"invoke_agent {play.run.agent_name}"],
    ]
