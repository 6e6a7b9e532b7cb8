"""The people of the harness: they decide on pending approvals, and look into the ledger if they are
asked whether something happened.

A person looks only once it is settled: as long as a worker that lives has the activity in hand, it
may still happen. They repeat a decision where its arrival is unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tests.faults.harness.plans import BACKWARDS, CONTRADICT, EARLY, PEOPLE, REPEAT
from tests.faults.harness.points import RUN, recorded
from tests.faults.harness.tools import effects

if TYPE_CHECKING:
    from tests.faults.harness.case import Case

T = TypeVar("T")

STATUS = SearchAttributeKey.for_keyword("AgentStatus")
WAITS = "awaiting_approval"
BETWEEN_SECONDS = 0.1
GROUPS = ["finance"]
# An activity that the server has started can still be on the wire: it is not looked for at once.
SETTLED_SECONDS = 3.0
# A worker that died in the middle of a workflow task of a fork is missed after so long.
SOON = timedelta(seconds=4)
_CONTRARY = {"approve": "deny", "happened": "give_up", "did_not_happen": "give_up"}
# A decision on a call that is decided, or on a run that has ended, changes nothing.
_TOO_LATE = ("already_decided", "no_such_call")


class Person:
    """All people who have to do with one case."""

    def __init__(self, case: "Case") -> None:
        self._case = case
        self._answered: set[tuple[str, str, str]] = set()
        self._latest: tuple[str, dict[str, Any]] | None = None
        self._decided_early: set[tuple[str, str]] = set()
        self._backwards = False
        self._by_update = False

    # Their decisions.

    async def until(self, status: str) -> None:
        """Wait until the run stands so."""
        while await self._tried(self.status) != status:
            await asyncio.sleep(BETWEEN_SECONDS)

    async def answered(self, count: int) -> None:
        """Wait until a conversation has given so many answers, and waits for the next message."""
        while True:
            await self.until("awaiting_message")
            if len(await self._tried(self._texts)) >= count:
                return
            await asyncio.sleep(BETWEEN_SECONDS)

    async def send(self, text: str) -> Any:
        """Send something, and get the answer; it is asked for until it is given."""
        await self._case.reach(f"person sends {text}")
        sending = self._run().execute_update
        answer = await self._tried(lambda: sending("send", text, id=text))
        await self._case.reach(f"person sends {text} done")
        return answer

    async def message(self, text: str) -> None:
        """Send something once, and find out whether it arrived where that is not known."""
        await self._case.reach(f"person says {text}")
        await self._tried(lambda: self._sent_once(text))
        await self._case.reach(f"person says {text} done")

    async def close(self) -> None:
        """Hang up."""
        await self._case.reach("person closes")
        await self._tried(lambda: self._run().signal("close"))
        await self._case.reach("person closes done")

    async def fork(self, agent: str, turn: int) -> None:
        """Fork the run after a turn, as its part `.fork`, and wait for the end of that."""
        client, id = self._case.ground.client, f"{self._case.id}.fork"
        request = {"agent": agent, "fork": {"run": self._case.id, "turn": turn}}

        async def start() -> None:
            with suppress(WorkflowAlreadyStartedError):
                await client.start_workflow(
                    "AgentWorkflow", request, id=id, task_queue=self._case.id, task_timeout=SOON
                )

        await self._case.reach("person forks")
        await self._tried(start)
        await self._tried(client.get_workflow_handle(id).result)
        await self._case.reach("person forks done")

    async def _sent_once(self, text: str) -> None:
        if text not in await self._texts("user"):
            await self._run().signal("message", {"content": text})

    async def _texts(self, role: str = "assistant") -> list[str]:
        context = await self._run().query("context", {"after": 0, "limit": 1000})
        said = [entry["message"] for entry in context if entry["type"] == "message"]
        return [one["content"] for one in said if one["role"] == role and one.get("content")]

    async def _tried(self, doing: Callable[[], Awaitable[T]]) -> T:
        """What it gives, once the server and a worker are there."""
        while True:
            try:
                return await doing()
            except (RPCError, WorkflowQueryFailedError):
                await asyncio.sleep(BETWEEN_SECONDS)

    # What they decide.

    async def attend(self) -> None:
        """Decide on whatever waits, until cancelled."""
        while True:
            for part in self._case.scenario.parts:
                # No worker may answer at the moment: it is looked at again.
                with suppress(RPCError, WorkflowQueryFailedError):
                    await self._look(part)
            await asyncio.sleep(BETWEEN_SECONDS)

    async def status(self, part: str = "") -> str | None:
        """The state of a run in lists, as long as it runs."""
        try:
            described = await self._run(part).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise
        if described.status != WorkflowExecutionStatus.RUNNING:
            return None
        return described.typed_search_attributes.get(STATUS)

    def _run(self, part: str = "") -> WorkflowHandle[Any, Any]:
        return self._case.ground.client.get_workflow_handle(self._case.id + part)

    async def _look(self, part: str) -> None:
        if await self.status(part) != WAITS:
            return
        waiting: list[dict[str, Any]] = await self._run(part).query("approvals")
        for question in reversed(waiting) if self._backwards else waiting:
            key = part, question["callId"], question["digest"]
            if key not in self._answered and await self._decide(part, question):
                self._answered.add(key)

    async def _decide(self, part: str, question: dict[str, Any]) -> bool:
        """Decide on a question; whether it can be answered yet."""
        decision = self._decision(part, question)
        if decision is None:
            return False
        name = f"person decides {RUN}{part}/{question['callId']} {question['kind']}"
        for by in PEOPLE[: question["quorum"]]:
            await self._case.reach(f"{name} {by}")
            self._by_update = not self._by_update and not self._case.has_outage
            said = {name: question[name] for name in ("callId", "digest")}
            if question["kind"] == "reconcile":
                said["nonce"] = question["nonce"]
            said |= {**decision, "by": by, "groups": question["approvers"]}
            self._latest = part, said
            await (self._update if self._by_update else self._signal)(part, said)
            if self._case.has_outage:  # another client sends it, too
                await self._signal(part, said)
            await self._case.reach(f"{name} {by} done")
        await self._case.reach(f"{name} all")
        return True

    async def _signal(self, part: str, decision: dict[str, Any]) -> None:
        await self._run(part).signal("approve", decision)

    async def _update(self, part: str, decision: dict[str, Any]) -> None:
        try:
            await self._run(part).execute_update("decide", decision)
        except WorkflowUpdateFailedError as error:
            if getattr(error.cause, "type", None) not in _TOO_LATE:
                raise

    def _decision(self, part: str, question: dict[str, Any]) -> dict[str, Any] | None:
        call_id = question["callId"]
        if question["kind"] != "reconcile":
            # It was sent already, and is kept.
            early = (part, call_id) in self._decided_early
            return None if early else {"decision": "approve"}
        if self._case.calm_for_seconds < SETTLED_SECONDS or not self._is_settled(part, call_id):
            return None
        for effect in effects(self._case.folder / "ledger"):
            if effect["key"] == f"{self._case.id}{part}/{call_id}":
                return {"decision": "happened", "result": effect["result"]}
        return {"decision": "did_not_happen"}

    def _is_settled(self, part: str, call_id: str) -> bool:
        """Whether no worker that lives has the activity in hand."""
        held: dict[int, int] = {}
        for line in recorded(self._case.folder):
            kind, *words = line["point"].split(" #")[0].split()
            if kind == "activity" and words[1] == f"{RUN}{part}/{call_id}":
                change = {"comes": 1, "returned": -1}.get(words[2], 0)
                held[line["pid"]] = held.get(line["pid"], 0) + change
        return not any(count and self._case.lives(pid) for pid, count in held.items())

    # What they should not.

    async def misbehave(self, how: str) -> None:
        """Repeat a decision, or its contrary; or decide all before any question; or decide on
        the pending approvals in another order."""
        if how == BACKWARDS:
            self._backwards = True
        elif how == EARLY:
            for part, call_id in self._case.scenario.asks:
                with suppress(RPCError):  # a delegate is not there yet
                    await self._decide_early(part, call_id)
        elif self._latest is not None:
            part, said = self._latest
            assert how in (REPEAT, CONTRADICT)
            if how == CONTRADICT:
                said = {**said, "decision": _CONTRARY[said["decision"]], "by": "eve"}
            both = (self._signal, self._update)
            await asyncio.gather(*(self._in_vain(say(part, said)) for say in (*both, *both)))

    async def _in_vain(self, saying: Awaitable[None]) -> None:
        """Send what is not to count: a run may refuse it in any words, or have ended."""
        with suppress(RPCError, WorkflowUpdateFailedError):
            await saying

    async def _decide_early(self, part: str, call_id: str) -> None:
        """Approve of what has no question yet, and leave it at that."""
        for by in PEOPLE:
            said = {"callId": call_id, "decision": "approve", "by": by, "groups": GROUPS}
            await self._signal(part, said)
        self._decided_early.add((part, call_id))
