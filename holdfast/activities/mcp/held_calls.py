"""The calls whose servers wait for a person within them, as those before revision 2026-07-28 do.

Such a call is open for as long as its connection, in one process. A run follows it as a task: each
request about it goes to any worker, and one that does not hold the call returns the task as it is.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession

from holdfast.runtime.mcp.errors import NoResultError, ServerUnreachableError, no_result
from holdfast.runtime.mcp.input_forms import read_forms
from holdfast.schemas.internal.mcp_input import MAX_MISSES, McpTask
from holdfast.schemas.names import ErrorCode

HELD_CALL: Final = "open-call/"
# Of a worker; beyond it, the longest open is answered `cancel`.
MAX_HELD_CALLS: Final = 100
# A request waits for a change for this time.
SOON_SECONDS: Final = 1.0
# A reply is kept, since its first delivery may be lost.
KEPT_SECONDS: Final = 300.0

T = TypeVar("T")


@dataclass(eq=False)
class HeldCall:
    """One call, and the form that its server waits for; `forms` counts these."""

    reply: "asyncio.Future[Any]" = field(default_factory=asyncio.Future)
    session: ClientSession | None = None
    form: types.ElicitRequestParams | None = None
    forms: int = 0
    answer: "asyncio.Future[types.ElicitResult]" = field(default_factory=asyncio.Future)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Have the server end the call: decline its form, or cancel the request."""
        if self.form is None or self.answer.done():
            self.reply.cancel()
        else:
            self.answer.set_result(types.ElicitResult(action="decline"))


class HeldCalls:
    """The open calls of one process."""

    def __init__(self) -> None:
        self._process = f"{HELD_CALL}{uuid.uuid4().hex}/"
        self._calls: dict[str, HeldCall] = {}

    async def reply(self, send: Callable[[HeldCall], Awaitable[T]]) -> T | McpTask:
        """Return the reply of a call, or a task if its server waits for a person.

        `send` makes the call, and first sets its session.
        """
        call = HeldCall()
        reply: asyncio.Future[T] = asyncio.ensure_future(send(call))
        call.reply = reply
        id = f"{self._process}{uuid.uuid4().hex}"
        self._calls[id] = call
        reply.add_done_callback(lambda _: call.changed.set())
        try:
            await call.changed.wait()
        except asyncio.CancelledError:
            del self._calls[id]
            reply.cancel()
            raise
        if call.form is None:
            del self._calls[id]
            return await reply
        reply.add_done_callback(lambda done: done.cancelled() or done.exception())
        reply.add_done_callback(lambda _: call.end())  # a server may reply without the answer
        held = [id for id, each in self._calls.items() if each.form is not None]
        if len(held) > MAX_HELD_CALLS:
            self._calls.pop(held[0]).end()
        return McpTask(id=id)

    async def ask(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Wait for a person's answer to a form; `cancel` where it is not known of which call.

        The request names none: it is of the one call of its connection that has no form.
        """
        calls = [each for each in self._calls.values() if each.session is context.session]
        free = [each for each in calls if each.answer.done() or each.form is None]
        open_ones = [each for each in free if not each.reply.done()]
        if len(open_ones) != 1:
            return types.ElicitResult(action="cancel")
        [call] = open_ones
        call.form, call.answer = params, asyncio.Future()
        call.forms += 1
        call.changed.set()
        return await call.answer

    async def request_state(self, task: McpTask) -> Any:
        """Return the reply of a call, its form, or the task if that is running.

        Raises:
            NoResultError: the form is not shown to people, or the call is lost.
        """
        call = self._calls.get(task.id)
        if call is None:
            if task.id.startswith(self._process) or task.misses >= MAX_MISSES:
                why = "the worker that held its connection has ended"
                raise NoResultError(f"the call is lost: {why}", ErrorCode.OUTCOME_UNKNOWN)
            return task.model_copy(update={"misses": task.misses + 1})
        if task.cancel:
            self._calls.pop(task.id).end()
            return task
        if (given := task.responses.get(str(call.forms))) and not call.answer.done():
            call.changed.clear()
            call.answer.set_result(types.ElicitResult(**given))
        if call.answer.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(call.changed.wait(), SOON_SECONDS)
        if call.reply.done():
            forget = asyncio.get_running_loop().call_later
            forget(KEPT_SECONDS, self._calls.pop, task.id, None)
            try:
                return call.reply.result()
            except (ServerUnreachableError, ConnectionResetError) as error:
                raise NoResultError(no_result(error), ErrorCode.OUTCOME_UNKNOWN) from None
        if call.form is not None and str(call.forms) not in task.answered:
            requests: types.InputRequests = {str(call.forms): types.ElicitRequest(params=call.form)}
            required = types.InputRequiredResult(input_requests=requests)
            try:
                read_forms(required)
            except NoResultError:
                self._calls.pop(task.id).end()
                raise
            return required
        return task.model_copy(update={"responses": {}, "misses": 0})
