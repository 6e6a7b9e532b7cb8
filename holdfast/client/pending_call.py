"""A pending call that a person decides on from a program.

    for call in await run.approvals():
        await call.approve(by="ada")

Each decision has the digest and the nonce of the call as it was fetched: the run rejects it if the
call has changed since, or was started again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypedDict, Unpack

from pydantic import JsonValue, PrivateAttr, ValidationError

from holdfast.client.errors import invalid_input
from holdfast.schemas.decision import Decision, PendingApproval, Receipt, Verdict


class DecisionFields(TypedDict, total=False):
    """What every decision may have: who decides, for which groups, and why."""

    by: str
    groups: Sequence[str]
    reason: str


class PendingCall(PendingApproval):
    """A `PendingApproval` of the run `run_id`, with the decisions on it.

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
        try:
            decision = Decision.model_validate(values)
        except ValidationError as error:
            raise invalid_input("decision", error, values, Decision, "see its fields") from error
        return await self._send(decision)
