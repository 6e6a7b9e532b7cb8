"""The open calls of a process, without a server."""

import asyncio
from typing import Any

import pytest
from mcp.client.session import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitResult

from holdfast.activities.mcp import held_calls
from holdfast.activities.mcp.held_calls import HeldCall, HeldCalls
from holdfast.runtime.mcp.errors import NoResultError
from holdfast.schemas.internal.mcp_input import MAX_MISSES, McpTask

SESSION: Any = object()
FORM = ElicitRequestFormParams(
    message="Sure?", requested_schema={"type": "object", "properties": {}}
)


async def ask(calls: HeldCalls, form: ElicitRequestFormParams = FORM) -> ElicitResult:
    return await calls.ask(ClientRequestContext(session=SESSION, request_id=1), form)


async def asking(
    calls: HeldCalls,
    form: ElicitRequestFormParams = FORM,
    answers: asyncio.Queue[str] | None = None,
) -> McpTask:
    """A call whose server waits for a person, as a task; its reply is the action of the answer."""

    async def send(call: HeldCall) -> str:
        call.session = SESSION
        action = (await ask(calls, form)).action
        if answers is not None:
            answers.put_nowait(action)
        return action

    task = await calls.reply(send)
    assert isinstance(task, McpTask)
    return task


async def test_which_of_two_calls_a_form_is_of_is_not_guessed() -> None:
    calls, replies, made = HeldCalls(), asyncio.Event(), asyncio.Semaphore(0)

    async def send(call: HeldCall) -> None:
        call.session = SESSION
        made.release()
        await replies.wait()

    pending = [asyncio.create_task(calls.reply(send)) for _ in range(2)]
    for _ in pending:
        await made.acquire()
    assert (await ask(calls)).action == "cancel"
    replies.set()
    assert await asyncio.gather(*pending) == [None, None]


async def test_a_pending_form_leaves_room_for_the_form_of_another_call() -> None:
    calls = HeldCalls()
    first, second = await asking(calls), await asking(calls)
    for task in (second, first):
        given = {"1": {"action": "accept", "content": {}}}
        update = {"responses": given, "answered": ["1"]}
        assert await calls.request_state(task.model_copy(update=update)) == "accept"


async def test_another_process_returns_the_task_until_it_is_taken_for_lost() -> None:
    task: Any = await asking(HeldCalls())
    other = HeldCalls()
    for misses in range(MAX_MISSES):
        task = await other.request_state(task)
        assert task.misses == misses + 1
    with pytest.raises(NoResultError, match="the call is lost"):
        await other.request_state(task)


async def test_a_form_that_asks_for_a_secret_is_declined() -> None:
    calls = HeldCalls()
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    answers: asyncio.Queue[str] = asyncio.Queue()
    task = await asking(calls, FORM.model_copy(update={"requested_schema": schema}), answers)
    with pytest.raises(NoResultError, match="field `password`"):
        await calls.request_state(task)
    assert await answers.get() == "decline"


async def test_beyond_the_bound_the_longest_open_call_is_declined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_calls, "MAX_HELD_CALLS", 1)
    calls, answers = HeldCalls(), asyncio.Queue[str]()
    first, second = await asking(calls, answers=answers), await asking(calls)
    assert await answers.get() == "decline"
    with pytest.raises(NoResultError, match="the call is lost"):
        await calls.request_state(first)
    assert await calls.request_state(second) != second


async def test_a_form_ends_with_its_call() -> None:
    calls, forms = HeldCalls(), list[asyncio.Task[ElicitResult]]()

    async def send(call: HeldCall) -> str:
        call.session = SESSION
        forms.append(asyncio.create_task(ask(calls)))
        await call.changed.wait()
        return "replied"

    task: Any = await calls.reply(send)
    async with asyncio.timeout(120):
        assert (await forms[0]).action == "decline"
    assert await calls.request_state(task) == "replied"
