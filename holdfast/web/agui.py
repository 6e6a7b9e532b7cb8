"""`POST /agui/{agent}`: a conversation with an agent, as a stream of AG-UI events.

    input ─► start the run, or send it what is new ─► snapshot ─► events ─► an answer, or interrupts

A thread is its sender's: the id of its run derives from both. Nothing is kept here: a client that
was cut off sends the thread again, to any inbox, and continues from the state so far. Ids derive
from the log: `holdfast:turn-3` is the model's message of a turn, `holdfast:t3c1` the result of the
call `t3c1`, `holdfast:n7` any other message; a client's own message keeps its id. So all streams
have the same.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, suppress
from itertools import takewhile
from math import inf
from typing import Any, Final

from starlette.responses import Response

from holdfast.client import question_text
from holdfast.client.start import REQUEST_MEMO, RunExistsError
from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.client.stream.run_feed import RunFeed
from holdfast.client.stream.text_reader import TextReader
from holdfast.runtime.narration.phrases import QUESTIONS
from holdfast.runtime.text_safety import as_json, one_line
from holdfast.schemas import log_entry as log
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.message import ChatMessage, Delivered, TextPart
from holdfast.schemas.run import RunReport
from holdfast.web.api.api_request import ApiRequest, validated
from holdfast.web.api.models import NewRun, ResumeEntry, RunAgentInput
from holdfast.web.api.runs import begin, event_stream, principal_of
from holdfast.web.auth.permissions import has_decided, is_approver
from holdfast.web.http.problems import HttpProblem, NotPermittedError, problem_of
from holdfast.web.http.streaming import comment, frame

OWN_ID: Final = "holdfast:"  # The beginning of the ids that are not a client's.
_REASONS: Final = {"call": "tool_call", "input": "input_required"}
Event = dict[str, Any]


class Thread:
    """The messages up to entry `position` of a log, and how much of its turn's text was sent.

    `own` are the messages of the user that the client has, `new` the ids of those that are sent to
    the run.
    """

    def __init__(self, own: list[Event]) -> None:
        self.position, self.is_over = 0, False
        # A message that the client sent twice is sent to the run once.
        self._own = [*{(each["id"], each["content"]): each for each in own}.values()]
        self.new = set[str]()
        self.has_new_state = True
        self._messages: dict[str, Event] = {}
        self._turn, self._in_turn, self._is_answered = 0, False, False
        self._reader, self._text, self._sent = TextReader(), "", ""

    def snapshot(self) -> Event:
        """Return all messages, in place of those that the client has."""
        messages = [each for each in self._messages.values() if each.keys() > {"id", "role"}]
        unread = [each for each in self._own if each["id"] in self.new]
        return {"type": "MESSAGES_SNAPSHOT", "messages": messages + unread}

    def step(self, change: str) -> list[Event]:
        """Return the change of a turn that is not over."""
        return [{"type": f"STEP_{change}", "stepName": f"turn {self._turn}"}] * self._in_turn

    def write(self, answer: AnswerProgress | None) -> Iterator[Event]:
        """Yield more of the model's text. JSON is sent whole, by `read`."""
        if not self._in_turn or self._is_answered or not (answer and answer.is_of_turn(self._turn)):
            return
        if part := self._reader.read(answer):
            self._text = self._text[: part.at.sent_chars] + part.text
            if not self._text.lstrip().startswith("{"):
                yield from self._send(self._text)

    def read(self, record: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the events of the next entry of the log."""
        self.position, self.is_over = record["n"], record["type"] in log.LAST_ENTRIES
        match log.read_record(record).entry:
            case log.TurnStartEntry(turn=turn):
                self._turn, self._in_turn, self._is_answered = turn, True, False
                self._reader, self._text, self._sent = TextReader(), "", ""
                yield from self.step("STARTED")
            case log.TurnEndEntry():
                yield from self.step("FINISHED")
                self._in_turn = False
            case log.MessageEntry(message=message):
                yield from self._read_message(message)
            case log.ToolCallEntry(call_id=id, tool=tool, arguments=arguments):
                answer, function = self._answer(), {"name": tool, "arguments": as_json(arguments)}
                call = {"id": id, "type": "function", "function": function}
                answer.setdefault("toolCalls", []).append(call)
                made = {"toolCallId": id, "toolCallName": tool, "parentMessageId": answer["id"]}
                yield {"type": "TOOL_CALL_CHUNK", **made, "delta": function["arguments"]}
            case log.WriteEntry():
                self.has_new_state = True
            case log.NoticeEntry(text=text):
                yield {"type": "CUSTOM", "name": "holdfast:notice", "value": {"text": text}}

    def _read_message(self, message: ChatMessage) -> Iterator[Event]:
        said = message.content if message.said is None else message.said
        parts = [TextPart(text=said)] if isinstance(said, str) else said
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        if message.role == "assistant" and self._in_turn:
            self._is_answered, answer = True, self._answer()
            answer.pop("content", None)  # of several answers in a turn, the last one is it
            yield from self._send(text)
            answer |= {"content": text} if text else {}
        elif message.role == "tool" and not message.imported:
            id, result = f"{OWN_ID}{message.call_id}", {"toolCallId": message.call_id}
            result |= {"role": "tool", "content": text}
            self._messages[id] = {"id": id, **result}
            yield {"type": "TOOL_CALL_RESULT", "messageId": id, **result}
        elif message.role != "tool" and text:
            new = {"role": message.role, "content": text}
            added = {"id": f"{OWN_ID}n{self.position}", **new}
            known = next((each for each in self._own if each | new == each), added)
            self._own = [each for each in self._own if each is not known]
            self._messages[known["id"]] = known

    def _answer(self) -> Event:
        """Return the model's message of this turn, which is added if there is none."""
        new = {"id": f"{OWN_ID}turn-{self._turn}", "role": "assistant"}
        return self._messages.setdefault(new["id"], new)

    def _send(self, text: str) -> Iterator[Event]:
        """Yield what is new in the text of the turn; all of it, if it replaces another attempt."""
        if not text.startswith(self._sent):
            self._sent = ""
            yield self.snapshot()  # without the attempt before
        if delta := text[len(self._sent) :]:
            chunk = {"messageId": f"{OWN_ID}turn-{self._turn}", "role": "assistant", "delta": delta}
            yield {"type": "TEXT_MESSAGE_CHUNK", **chunk}
        self._sent = text


def interrupt_of(run_id: str, waiting: PendingApproval) -> Event:
    """Return the interrupt for a pending approval. Its id has the digest that it is bound to."""
    verdicts = [one.verdict for one in QUESTIONS[waiting.kind].choices if one.verdict]
    fields: Event = {"decision": {"enum": verdicts}, "reason": {"type": "string"}}
    if "approve" in verdicts:
        fields["approved"] = {"type": "boolean"}
    if "edit" in verdicts:
        fields["editedArgs"] = {"type": "object", "description": "All arguments, as they run."}
    if not {"respond", "happened"}.isdisjoint(verdicts):
        fields["result"] = {"description": "The result, without a call.", **waiting.form}
    return {
        "id": str(SelectedCall.of(run_id, waiting)),
        "reason": _REASONS.get(waiting.kind, f"holdfast:{waiting.kind}"),
        "message": "\n".join(question_text.summary(waiting, 2_000)),
        **({"toolCallId": waiting.call_id} if waiting.kind in _REASONS else {}),
        "responseSchema": {"type": "object", "properties": fields},
        "expiresAt": waiting.expires_at,
        "metadata": {"holdfast": waiting.to_json()},
    }


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
        self._run = asked.parts.client.run(names.derived_id("agui", key))

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
        new = [each for each in of_user if not each.id.startswith(OWN_ID)][::-1]
        self._thread.new = {each.id for each in new}
        if new:
            queue = self._asked.request.query_params.get("taskQueue", names.TASK_QUEUE)
            said: Event = {"agent": self._agent, "input": new[0].text, "taskQueue": queue}
            said["conversation"] = {"idleTimeout": IDLE_TIMEOUT}
            own = principal_of(None, self._person, any_principal=False)
            mark = {REQUEST_MEMO: sha256(canonical_json(["agui", new[0].id]))}
            run = validated(said, NewRun, "thread")
            with suppress(RunExistsError):  # another message has started it
                await begin(self._asked, run, said, own, self._run.id, mark)
                del new[0]
        # By the facts that its id derives from: Temporal has them after its first task.
        rights = self._parts.permissions.rights(self._person, self._agent, self._person.name)
        if not rights.issuperset(("read", "message") if new else ("read",)):
            raise NotPermittedError("your permissions do not include to continue this thread")
        for each in new:
            # Other updates of the run have ids too: a decision is not one of a message.
            await self._run.send_once(Delivered(content=each.text), f"agui {each.id}")

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
        is_over, last = False, None
        async with aclosing(RunFeed(run).reports(run.status)) as moves:
            while not (is_over or last):
                each = await anext(moves)
                if isinstance(each, str):
                    yield each
                    continue
                look, report = each
                events = [] if report is None else await self._news(report.log.entries)
                for event in events or thread.write(look.streaming):
                    yield event
                is_over = thread.is_over or look.closed
                last = None if is_over or not report else await self._last(report)
        if last is None:
            end, last = await run.ending(unread="not read here"), self._finished("cancelled")
            if end.result is not None and not end.exit_code:
                last = self._finished("success") | {"result": end.result.output}
            elif (code := end.code or end.status) != "cancelled":
                last = {"type": "RUN_ERROR", "code": code, "message": end.message}
        for final in [*thread.step("FINISHED"), thread.snapshot(), last]:
            yield final

    async def _news(self, last: float = inf) -> list[Event]:
        """Return the events of the new entries of the log, and at last the state if it is new."""
        thread, run = self._thread, self._run
        entries = run.entries(names.CONTEXT, thread.position, last)
        events = [event async for record in entries for event in thread.read(record)]
        if thread.has_new_state:
            events.append({"type": "STATE_SNAPSHOT", "snapshot": await self._run.state()})
            thread.has_new_state = False
        return events

    async def _last(self, report: RunReport) -> Event | None:
        """Return the last event if the run waits for the user, whose decision would count."""
        if report.status == "awaiting_message":
            why = report.error and {"type": "RUN_ERROR", **report.error.to_json()}
            return why or self._finished("success")
        if report.status != "awaiting_approval":
            return None
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
            and not (each.kind == "call" and each.excludes_principal([await run.tool(each.tool)]))
        ]
        return self._finished("interrupt", interrupts=asked) if asked else None

    def _finished(self, outcome: str, **more: Any) -> Event:
        return {"type": "RUN_FINISHED", **self._ids, "outcome": {"type": outcome, **more}}
