"""Failures of models and tools."""

import json

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.support import tools
from tests.support.backend import Launch, ledger_has
from tests.support.model_server import Answer, call

DONE = Answer("done")


async def test_a_provider_that_refuses_fails_the_run_with_its_words(launch: Launch) -> None:
    refused = Answer(status=400, body={"error": {"message": "the model is asleep"}})
    run = await (await launch([refused])).start()
    failure = await run.failure()
    assert failure.type == "model_error"
    assert "the model is asleep" in failure.message
    assert [event["type"] for event in await run.events()][-1] == "error"


async def test_large_results_together_do_not_wedge_a_run(launch: Launch) -> None:
    calls = [call("big", size=1_900_000)] * 4
    backend = await launch([Answer(calls=calls), DONE])
    run = await backend.start(["big"])
    assert (await run.result())["output"] == "done"
    read = [m["content"] for m in backend.model.requests[1]["messages"] if m["role"] == "tool"]
    assert [len(text) for text in read] == [1_900_000] * 4


async def test_a_call_that_was_never_started_is_not_reconciled(launch: Launch) -> None:
    answers = [Answer(calls=[call("elsewhere_once")]), DONE]
    run = await (await launch(answers)).start(["elsewhere_once"])
    await run.result()
    error = await run.error()
    assert error["code"] == "timeout"
    assert "was not run" in error["message"]


async def test_its_worker_does_not_have_it_and_names_no_other(launch: Launch) -> None:
    elsewhere = await launch([DONE])
    backend = await launch([Answer(calls=[call("ghost")]), DONE])
    ghost = {"_tool": "ghost", "_activity": {"type": "Ghost", "taskQueue": elsewhere.task_queue}}
    run = await backend.start([ghost])
    await run.result()
    error = await run.error()
    assert error["code"] == "tool_error"
    assert "look_up" not in error["message"]
    assert "Ghost" not in error["message"]


async def test_it_hangs_at_cancellation(launch: Launch) -> None:
    answers = [Answer(calls=[call("stubborn"), call("pay", amount=1)]), DONE]
    run = await (await launch(answers)).start(["stubborn", "pay"])
    await run.waiting()
    await ledger_has("stubborn started")
    await run.handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await run.handle.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert "stubborn ended" not in tools.read(), "it has not waited for the tool"
    assert {
        key: json.loads(text)["error"]["code"] for key, text in (await run.results()).items()
    } == {
        "t1c1": "cancelled",
        "t1c2": "cancelled",
    }
    assert (await run.status())["status"] == "cancelled"
