"""`POST /agui/{agent}`: a conversation with an agent, as a stream of AG-UI events.

    input ─► start the run, or send it what is new ─► snapshot ─► events ─► an answer, or interrupts

A thread is its sender's: the id of its run derives from both. Nothing is kept here: a client that
was cut off sends the thread again, to any inbox, and continues from the state so far.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from itertools import takewhile
from typing import Final

from starlette.responses import Response

from holdfast.client.start import REQUEST_MEMO, RunExistsError
from holdfast.client.stream.deltas import StreamCursor
from holdfast.client.stream.frames import frames
from holdfast.runtime.text_safety import as_json, one_line
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.message import Delivered
from holdfast.schemas.run import RunReport
from holdfast.web.agui.events import OWN_ID, Event, Thread, interrupt_of
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.models import NewRun, ResumeEntry, RunAgentInput
from holdfast.web.api.runs import event_stream
from holdfast.web.api.start_runs import begin, principal_of
from holdfast.web.auth.permissions import has_decided, is_approver
from holdfast.web.http.problems import HttpProblem, NotPermittedError, problem_of
from holdfast.web.http.streaming import comment, frame

IDLE_TIMEOUT: Final = "7d"  # A thread that is left ends its run then.


async def run_agent(asked: ApiRequest) -> Response:
    """Talk to an agent in AG-UI.

    A conversation as an AG-UI client has it, up to an answer, an approval or its end. A thread is
    yours alone: its first message starts a run, and what the run has is not sent to it again.
    `RUN_ERROR` has the `code` of a refusal.
    """
    sent, _ = await asked.read_json(RunAgentInput, "input of an AG-UI run")
    return event_stream(asked, _Stream(asked, sent).frames())


def _frame(event: Event) -> str:
    return frame(event["type"], as_json(event))


class _Stream:
    def __init__(self, asked: ApiRequest, sent: RunAgentInput) -> None:
        self._asked, self._sent = asked, sent
        self._parts, self._person = asked.parts, asked.person
        own = ((each.id, each.text) for each in sent.messages if each.role == "user")
        self._thread = Thread([{"id": id, "role": "user", "content": text} for id, text in own])
        self._ids = {"threadId": sent.thread_id, "runId": sent.run_id}
        self._agent = asked.request.path_params["agent"]
        key = sha256(canonical_json([self._person.name, self._agent, sent.thread_id]))
        self._run = asked.parts.client.run(f"agui-{key[:40]}")

    async def frames(self) -> AsyncGenerator[str, None]:
        yield _frame({"type": "RUN_STARTED", **self._ids, "protocolVersion": "1.0"})
        try:
            await self._send()
            for entry in self._sent.resume:
                if entry.status == "resolved":
                    await self._decide(entry)
            async with aclosing(self._follow()) as events:
                async for each in events:
                    yield comment(one_line(each, 500)) if isinstance(each, str) else _frame(each)
        except Exception as error:
            found = problem_of(error)
            yield _frame({"type": "RUN_ERROR", "code": found.code, "message": found.detail})

    async def _send(self) -> None:
        """Start the run with the user's first new message, or send it the new ones."""
        of_user = takewhile(lambda each: each.role == "user", reversed(self._sent.messages))
        new = [each for each in of_user if not OWN_ID.fullmatch(each.id)][::-1]
        self._thread.new = {each.id for each in new}
        if new:
            queue = self._asked.request.query_params.get("taskQueue", names.TASK_QUEUE)
            said: Event = {"agent": self._agent, "input": new[0].text, "taskQueue": queue}
            said["conversation"] = {"idleTimeout": IDLE_TIMEOUT}
            own = principal_of(None, self._person, any_principal=False)
            mark = {REQUEST_MEMO: sha256(canonical_json(["agui", new[0].id]))}
            with suppress(RunExistsError):  # another message has started it
                await begin(self._asked, NewRun.model_validate(said), said, own, self._run.id, mark)
                del new[0]
        # By the facts that its id derives from: Temporal has them after its first task.
        rights = self._parts.permissions.rights(self._person, self._agent, self._person.name)
        if not rights.issuperset(("read", "message") if new else ("read",)):
            raise NotPermittedError("your permissions do not include to continue this thread")
        for each in new:
            await self._run.send_once(Delivered(content=each.text), each.id)

    async def _decide(self, entry: ResumeEntry) -> None:
        """Send an answer as a decision; one to a closed question changes nothing."""
        access = await self._parts.require(self._person, "decide", self._run.id)
        sent = entry.payload if isinstance(entry.payload, dict) else {"approved": entry.payload}
        said = {key: sent[key] for key in ("decision", "result", "reason") if key in sent}
        said |= {"arguments": sent["editedArgs"]} if "editedArgs" in sent else {}
        if sent.get("approved") is False:
            said["decision"] = "deny"
        elif sent.get("approved") is True or "result" in said:
            verdict = "edit" if "arguments" in said else "approve"
            said.setdefault("decision", "respond" if "result" in said else verdict)
        for each in await self._parts.approvals(access, self._run.id):
            if str(SelectedCall.of(self._run.id, each)) == entry.interrupt_id:
                if each.kind == "reconcile" and "decision" not in sent and "result" not in sent:
                    raise HttpProblem("invalid_decision", "Send what happened as `decision`.")
                await self._parts.decide_by(self._person, self._run.id, each, said)

    async def _follow(self) -> AsyncGenerator[Event | str, None]:
        """Yield the messages so far, and the events up to an answer, an interrupt or the end."""
        run, thread = self._run, self._thread
        state = (await self._news())[-1]  # the snapshot has the others
        for first in [thread.snapshot(), *thread.step("STARTED"), state]:
            yield first
        async with aclosing(frames(run, StreamCursor(thread.events), report=run.status)) as moves:
            async for each in moves:
                data = {} if isinstance(each, str) else each.data
                events: list[Event | str] = [each] if isinstance(each, str) else []
                events += thread.token(data)
                report: RunReport | None = data.get("report")
                entries = report.log.entries if report else 0  # it may be later than the frames
                if entries > thread.position or data.get("n", 0) > thread.events:
                    events += await self._news()
                if outcome := report and await self._outcome(report):
                    events += [*thread.step("FINISHED"), thread.snapshot()]
                    events.append({"type": "RUN_FINISHED", **self._ids, "outcome": outcome})
                for event in events:
                    yield event
                if outcome:
                    return
        end = (await run.ending(unread="not read here")).event()
        last = {"type": "RUN_FINISHED", **self._ids, "outcome": {"type": "cancelled"}}
        if end["type"] == "done":
            last |= {"outcome": {"type": "success"}, "result": end["output"]}
        elif end["code"] != "cancelled":
            last = {"type": "RUN_ERROR", "code": end["code"], "message": end["message"]}
        for final in [*thread.step("FINISHED"), last]:
            yield final

    async def _news(self) -> list[Event]:
        """Return the events of the new entries of the log, and at last the state if it is new."""
        thread, entries = self._thread, self._run.entries(names.CONTEXT, self._thread.position)
        events = [event async for record in entries for event in thread.read(record)]
        if thread.has_new_state:
            events.append({"type": "STATE_SNAPSHOT", "snapshot": await self._run.state()})
            thread.has_new_state = False
        return events

    async def _outcome(self, report: RunReport) -> Event | None:
        """Return the outcome if the run waits for the user, whose decision would count."""
        if report.status != "awaiting_approval":
            return {"type": "success"} if report.status == "awaiting_message" else None
        run, person = self._run, self._person
        access = await self._parts.access(person, run.id)
        left = {each.interrupt_id for each in self._sent.resume if each.status == "cancelled"}
        asked = [
            interrupt_of(run.id, each)
            for each in await self._parts.approvals(access, run.id)
            if str(SelectedCall.of(run.id, each)) not in left
            and "decide" in access.rights
            and is_approver(person, each.approvers)
            and not has_decided(person, each)
            and each.find_round() is not None
            and not (each.kind == "call" and (await run.tool(each.tool)).approval.not_by)
        ]
        return {"type": "interrupt", "interrupts": asked} if asked else None
