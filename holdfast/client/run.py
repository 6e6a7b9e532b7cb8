"""One run: read it, follow it, decide its calls, send it messages, and wait for its result.

    run = client.run("order-7", output=Answer)
    async for record in run.events():
        print(record.entry.type)
    answer = await run.result()

A single call (`CallWorkflow`) is read, decided on and ended as a run is. Everything raises
`HoldfastError` where the run does not exist, or Temporal or the worker does not answer.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Self, TypedDict, Unpack, cast

from pydantic import JsonValue, PrivateAttr, ValidationError
from temporalio.client import Client, WorkflowQueryRejectedError, WorkflowUpdateStage
from temporalio.common import QueryRejectCondition
from typing_extensions import TypeVar

from holdfast.client import errors
from holdfast.client.remote_run import RemoteRun
from holdfast.client.result import RunFailedError
from holdfast.client.stream.run_feed import BETWEEN_EVENTS, Frame, RunFeed
from holdfast.client.stream.run_watch import MAX_LOST_LOOKS, RunWatches
from holdfast.client.stream.text_reader import StreamCursor
from holdfast.definitions.json_form import read_as
from holdfast.definitions.run_request import RunInput
from holdfast.runtime.attachments import check_types
from holdfast.runtime.storage.run_files import move_files
from holdfast.runtime.text_safety import one_line
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import ApprovalClaim, Decision, PendingApproval, Receipt, Verdict
from holdfast.schemas.log_entry import ConfirmationRequiredEntry, LogRecord, read_record
from holdfast.schemas.message import Content, Delivered
from holdfast.schemas.run import MAX_CALL_ENTRIES, CallReport, Principal, RunReport
from holdfast.schemas.tool import ShownTool

_REASON_CHARS = 500
OutputT = TypeVar("OutputT", default=JsonValue)


@dataclass(frozen=True)
class AnswerPart:
    """A part of the model's text in a turn, after `offset` characters.

    Another `attempt` at the same turn begins again: what was read of the one before is void.
    """

    turn: int
    attempt: int
    offset: int
    text: str


class DecisionFields(TypedDict, total=False):
    """What every decision may have: who decides, for which groups, and why."""

    by: str
    groups: Sequence[str]
    reason: str


class PendingCall(PendingApproval):
    """A `PendingApproval` of the run `run_id`, with the decisions on it.

        for call in await run.approvals():
            await call.approve(by="ada")

    Each decision has the digest and the nonce of the call as it was fetched: the run rejects it if
    the call has changed since, or was started again.

    Each decision returns the run's receipt, or raises:
        DecisionRejectedError: the call has changed, or is not pending any more, or the decision
            does not fit it.
        HoldfastError: the run does not answer, or has ended.
    """

    arguments: dict[str, JsonValue]
    """Its arguments."""
    _run_id: str = PrivateAttr()
    _send: Callable[[Decision], Awaitable[Receipt]] = PrivateAttr()

    @classmethod
    def of(
        cls, data: Mapping[str, Any], run_id: str, send: Callable[[Decision], Awaitable[Receipt]]
    ) -> Self:
        """Return the pending call of a run; `send` sends the run a decision."""
        call = cls.read(data)
        call._run_id, call._send = run_id, send
        return call

    @property
    def run_id(self) -> str:
        """Return the id of the run that waits."""
        return self._run_id

    async def approve(self, *, remember: bool = False, **fields: Unpack[DecisionFields]) -> Receipt:
        """Run the call; with `remember`, also each further call of the tool in this run."""
        return await self._decide("approve", fields, remember=remember)

    async def deny(self, **fields: Unpack[DecisionFields]) -> Receipt:
        """Do not run the call; the model reads the reason."""
        return await self._decide("deny", fields)

    async def edit(
        self, arguments: Mapping[str, JsonValue], **fields: Unpack[DecisionFields]
    ) -> Receipt:
        """Run the call with these arguments, in place of all of its own."""
        return await self._decide("edit", fields, arguments=dict(arguments))

    async def respond(self, result: JsonValue, **fields: Unpack[DecisionFields]) -> Receipt:
        """Answer in place of the tool."""
        return await self._decide("respond", fields, result=result)

    async def happened(self, result: JsonValue, **fields: Unpack[DecisionFields]) -> Receipt:
        """State that a call with an unknown outcome has returned this result."""
        return await self._decide("happened", fields, result=result)

    async def did_not_happen(self, **fields: Unpack[DecisionFields]) -> Receipt:
        """Run a call with an unknown outcome again: it had no effect."""
        return await self._decide("did_not_happen", fields)

    async def give_up(self, **fields: Unpack[DecisionFields]) -> Receipt:
        """Leave the outcome of a call unknown, and do not run it again."""
        return await self._decide("give_up", fields)

    async def _decide(self, verdict: Verdict, fields: DecisionFields, **more: Any) -> Receipt:
        about = {"call_id": self.call_id, "digest": self.digest, "nonce": self.nonce}
        values = {**about, "decision": verdict, **fields, **more}
        return await self._send(errors.read_input(Decision, values, "decision", "see its fields"))


class Run(RemoteRun, Generic[OutputT]):
    """A run by its id, whose result is an `OutputT`."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        output: type[OutputT] | None = None,
        watches: RunWatches | None = None,
        fork: "Callable[..., Awaitable[Run[Any]]] | None" = None,
    ) -> None:
        super().__init__(client, run_id, watches)
        self._output, self._fork = output, fork

    async def fork(
        self, input: RunInput = None, *, at: int | None = None, **fields: Any
    ) -> "Run[Any]":
        """Start a run with the log and the state of this one after turn `at`, or its last one.

        The other `fields` are those of `HoldfastClient.fork`, whose `run` this is.
        """
        assert self._fork is not None  # that client has made it
        return await self._fork(self.id, input, turn=at, **fields)

    async def events(self, after: int = 0) -> AsyncGenerator[LogRecord, None]:
        """Yield the events after number `after`, and those that follow until the run has ended.

        The number of the last one is 0 if the run could not write it: it was terminated.
        """
        async for frame in RunFeed(self, StreamCursor(after), MAX_LOST_LOOKS).frames():
            if isinstance(frame, Frame) and frame.type not in BETWEEN_EVENTS:
                yield read_record(frame.data)

    async def tokens(self, after: int = 0) -> AsyncIterator[AnswerPart]:
        """Yield the text of the model after event `after` as it is written, until the run's end."""
        async for frame in RunFeed(self, StreamCursor(after), MAX_LOST_LOOKS).frames():
            if isinstance(frame, Frame) and frame.type == "token":
                data = frame.data
                yield AnswerPart(data["turn"], data["attempt"], data["offset"], data["text"])

    async def result(self) -> OutputT:
        """Wait for the end of the run, and return its output.

        Raises:
            RunFailedError: the run failed, has used up a budget, was cancelled, terminated or timed
                out, or its output is of another type.
            HoldfastError: the output is in a store that cannot be read here.
        """
        ending = await self.ending()
        output = ending.require_output(self.id)
        if self._output is None:
            return cast(OutputT, output)
        try:
            return read_as(self._output, output)
        except ValidationError as error:
            unfit = f"its output does not fit: {one_line(str(error), _REASON_CHARS)}"
            raise RunFailedError(self.id, ending, unfit) from error

    async def approvals(self) -> list[PendingCall]:
        """Return the pending calls; none once the run has ended."""
        try:
            found = await self._query(names.APPROVALS, unless=QueryRejectCondition.NOT_OPEN)
        except WorkflowQueryRejectedError:
            return []
        with self._same_version():
            return [PendingCall.of(each, self.id, self.decide) for each in found]

    async def call(self, call_id: str) -> CallReport:
        """Return the run, its pending approvals, and the tools and the end of the log for a call.

        What the query `call` does not return is queried apart: what is too large for it, and
        everything from a worker of an earlier version.
        """
        try:
            found = await self._query(names.CALL, call_id)
        except errors.FailedQueryError:
            pending = await self._query(names.APPROVALS)
            found = {"pending": pending, "status": await self._query(names.STATUS)}
        with self._same_version():
            report = CallReport.read(found)
        last, entries, asked = report.status.log.entries, report.entries, report.approval(call_id)
        after = entries[-1]["n"] if entries else max(last - MAX_CALL_ENTRIES, 0)
        entries += [each async for each in self.entries(names.CONTEXT, after, last)]
        for name in asked.tool_names() if asked else ():
            report.tools[name] = report.tools.get(name) or await self.tool(name)
        return report

    async def approval_requests(self) -> AsyncIterator[PendingCall]:
        """Yield each pending call, and each that becomes pending until the run has ended."""
        yielded = set()  # an edit may request the same call again, with the same nonce
        async for record in self.events():
            if isinstance(record.entry, ConfirmationRequiredEntry):
                for call in await self.approvals():
                    if (request := (call.nonce, call.requested_at)) not in yielded:
                        yielded.add(request)
                        yield call

    async def status(self) -> RunReport:
        """Return the status, the pending and the running calls, the usage and the budget."""
        found = await self._query(names.STATUS)
        with self._same_version():
            return RunReport.read(found)

    @contextmanager
    def _same_version(self) -> Iterator[None]:
        try:
            yield
        except ValidationError:
            wrong = f"the answers of run {self.id} are of another version of Holdfast"
            raise errors.HoldfastError(
                wrong, "take that of its worker", errors.RUN_FAILED
            ) from None

    async def tool(self, name: str) -> ShownTool:
        """Return a tool of the run, as screens show it."""
        return ShownTool.read(await self._query(names.TOOL, name))

    async def state(self, instance: str | None = None) -> JsonValue:
        """Return the run's state, or that of an instance."""
        state: JsonValue = await self._query(names.STATE, *([] if instance is None else [instance]))
        return state

    async def decide(self, decision: Decision, update_id: str | None = None) -> Receipt:
        """Send a decision and return its receipt; of two with the same id, the run takes the first.

        The default id is that of the same decision of the same approver on the same question. If a
        token is wrong, the failure keeps the id: another token is sent again with an id of its own.

        Raises:
            NoWorkerError: no worker answers, and nothing was sent.
            UnansweredUpdateError: it was sent, and may still count.
            DecisionRejectedError: the run rejects it.
        """
        call, pending = decision.call_id, await self.approvals()
        question = [(one.nonce, one.digest) for one in pending if one.call_id == call]
        id = update_id or decision.update_id(self.id, question)
        stage, rejected = WorkflowUpdateStage.COMPLETED, errors.DecisionRejectedError
        send = partial(self._update, names.DECIDE, decision.to_json(), stage, rejected=rejected)
        try:
            return Receipt.read(await send(id=id))
        except rejected as refusal:
            if decision.token is None or refusal.code != names.INVALID_DECISION:
                raise
            id = sha256(canonical_json([id, decision.token]))
            return Receipt.read(await send(id=id))

    async def claim(self, claim: ApprovalClaim) -> None:
        """Show others that a person looks at a pending call, or does not any more.

        Raises:
            RejectedError: the run rejects it.
        """
        await self._update(names.CLAIM, claim.to_json(), WorkflowUpdateStage.COMPLETED)

    async def renew(self, token: str) -> Principal:
        """Send a new token of the run's principal.

        Raises:
            RejectedError: the run rejects it.
        """
        answer = await self._update(names.RENEW, {"token": token}, WorkflowUpdateStage.COMPLETED)
        return Principal.model_validate(answer)

    async def send(
        self, message: Content | Delivered, wait_seconds: float | None = None, update_id: str = ""
    ) -> JsonValue:
        """Send a conversation its next message, once for its id, and return the answer.

        Raises:
            NoWorkerError: no worker answers, and nothing was sent.
            UnansweredUpdateError: it was sent, and may still be read.
            RejectedError: the run is no conversation, or gives no answer.
            TimeoutError: there is no answer yet; the run has the message.
        """
        stage = WorkflowUpdateStage.ACCEPTED
        sent = await self._sent(message)
        answer: JsonValue = await self._update(names.SEND, sent, stage, wait_seconds, id=update_id)
        return answer

    async def send_once(self, message: Delivered, id: str) -> None:
        """Send a conversation a message, once for this id, and wait for no answer.

        Raises:
            RejectedError: the run is no conversation, or is over.
        """
        stage, sent = WorkflowUpdateStage.ACCEPTED, await self._sent(message)
        try:
            await self._update(names.SEND, sent, stage, 0, id=id)
        except TimeoutError:
            pass  # the answer is for others
        except errors.RejectedError as error:
            if error.code not in (names.CONTINUED, *names.NO_ANSWER):
                raise  # otherwise, the run has it

    async def post(self, message: Content | Delivered) -> None:
        """Send the run a message, and wait for no answer."""
        await self._signal(names.MESSAGE, await self._sent(message))

    async def withdraw(self, message: int) -> None:
        """Take back a queued message, by its number.

        Raises:
            RejectedError: it is not queued.
        """
        await self._update(names.WITHDRAW, {"message": message}, WorkflowUpdateStage.COMPLETED)

    async def close(self) -> None:
        """End a conversation after its turn."""
        await self._signal(names.CLOSE)

    async def cancel(self) -> None:
        """Request cancellation of the run."""
        with errors.explain_rpc_errors(self.id):
            await self._handle.cancel()
        self._watches.poll(self.id)

    async def _signal(self, name: str, *args: dict[str, JsonValue]) -> None:
        await self._check_start(name)
        with errors.explain_rpc_errors(self.id):
            await self._handle.signal(name, args=args)
        self._watches.poll(self.id)

    async def _sent(self, message: Content | Delivered) -> dict[str, JsonValue]:
        """Return a message as it is sent, with the files that do not fit in the store."""
        message = message if isinstance(message, Delivered) else Delivered(content=message)
        if not isinstance(message.content, str):
            converter = self._client.data_converter
            with errors.explain_files():
                check_types(message.content, "content")
                contents = [message.content]
                [content] = await move_files(converter, self.id, contents, self.describe)
            message = message.model_copy(update={"content": content})
        return {"role": message.role, **message.to_json()}
