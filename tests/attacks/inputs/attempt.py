"""Send wrong inputs to a run, from a text, and read what becomes of each.

A file has a sentence that states the rule, the run in YAML (as a play, see
`tests.engine.plays.playing`), and attempts, each a paragraph. In the YAML, `pay` is what the tool
`pay` has besides its defaults, and `given` the list of inputs before each attempt, which starts
with a run of its own: by default the model calls `pay`. A line of an attempt that begins with `> `
is an input, the lines after it are its effects:

    asked      a person is asked about a call; in a plan, about its calls
    decided    a decision counted
    ran        a call runs, with these arguments
    ended      a call ended with an error
    ignored    a decision by signal that was rejected
    rejected   an update, a start or an internal input that was rejected, with its error
    noted      a notice in the log
    message    a message to the model, of a person or of the engine
    ended run  the run's end

Besides the inputs of a play:

    > start: {…}                      a request starts another run of the agent
    > decide: {callId, decision, …}   a decision by update; `signal` one by signal
    > ann: {approve: t1c1, token: {}} a signed one; the claims are good but for those that are given
    > delegate: {…}                   the internal signal of a delegate
    > signal NAME: …                  a signal of this name
    > hook NAME: …                    what the activity of a hook returns from now on
    > continued: […]                  what a run would be continued with

In a decision, `shown` as the digest or the nonce is that of the pending question; a digest may also
be a call, as `{tool, arguments}`.
"""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import yaml
from pydantic import ValidationError
from temporalio import workflow
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision
from holdfast.schemas.run import DelegateNews, RunRequest
from holdfast.workflows import agent, input
from holdfast.workflows.decisions import unverified_decision
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.continue_as_new import read_start_arguments
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.run_messages import Mailbox
from holdfast.workflows.engine.run_state import TokenRejected
from tests.engine.plays.playing import Transcript, flow, line

RUN_ID = "run-1"
_PAY: dict[str, Any] = {
    "_tool": "pay",
    "_sideEffects": True,
    "properties": {"amount": {"type": "number"}, "note": {}},
    "required": ["amount"],
}
_INFO = SimpleNamespace(cron_schedule=None, retry_policy=None, workflow_id=RUN_ID)
_CONVERTER = pydantic_data_converter.payload_converter
_DECISIONS = ("approve", "deny", "edit", "respond", "happened", "did_not_happen", "give_up")


class Attempt(Transcript):
    """A run that receives wrong inputs; it rests where it needs the next one."""

    def input(self, key: str, value: Any) -> None:
        """Apply one input; an error that it raises is its effect."""
        try:
            self._apply(key, value)
        except DecisionRejected as error:
            self.refusals.append(f"{error.code}: {error}")
        except (InvalidRequest, TokenRejected, ValueError) as error:
            self.refusals.append(str(error))
        self.settle()
        for question in self.desk.list_open():
            for early in self.desk.take_early(question, have_tokens=True):
                self._count_or_log(early)
        self.settle()

    def _apply(self, key: str, value: Any) -> None:
        match key.split():
            case ["signal", name]:
                note = self.run.state.log.add_notice
                shell = SimpleNamespace(signals=agent.AgentWorkflow.signals, _note=note)
                agent.AgentWorkflow.unknown(shell, name, [])  # type: ignore[arg-type]
            case [name] if name in _INPUTS:
                _INPUTS[name](self, value)
            case _:
                super().input(key, value)

    def start(self, request: Any) -> None:
        """Start another run of the agent."""
        parsed = input.parse_request(request, (), RunRequest, '{"agent": …, "input": …}')
        if parsed.request is None:
            raise InvalidRequest(parsed.problem)
        AgentRun.start(parsed.request, self.definition, Mailbox(), PendingApprovals(), self.clock)

    def update(self, decision: Any) -> None:
        """Send a decision by update."""
        sent = input.parse_decision(self._filled(decision))
        self.run.questions.count(unverified_decision(sent))

    def signal(self, sent: Any) -> None:
        """Send a decision by signal."""
        decision = input.parse_decision(self._filled(sent))
        if not self.desk.add_early(decision):
            self._count_or_log(decision)

    def read_news(self, news: Any) -> None:
        """Receive the internal signal of a delegate."""
        try:
            DelegateNews.read(news)
        except ValidationError:
            raise ValueError("it is no news of a delegate") from None

    def read_state(self, values: Any) -> None:
        """Continue with this."""
        read_start_arguments(values)

    def send(self, message: Any) -> None:
        """Send a message."""
        delivered = agent._delivered(message)
        if delivered.audience == "model":
            self.mailbox.put(delivered)

    def decide_as(self, person: str, value: Any) -> None:
        """Send a decision of a person by update."""
        if isinstance(value, str):
            decision, call_id = value.split()
            value = {decision: call_id}
        more = dict(value)
        [name] = [name for name in value if name in _DECISIONS]
        self.update({"callId": more.pop(name), "decision": name, "by": person, **more})

    def _count_or_log(self, decision: Decision) -> None:
        try:
            self.run.questions.count(unverified_decision(decision))
        except DecisionRejected as error:
            self.run.questions.log_ignored(decision, str(error))

    def _filled(self, sent: Any) -> Any:
        """Return a decision with the digest and the nonce, and its token as a text."""
        if not isinstance(sent, dict):
            return sent
        question = self.desk.find_open(str(sent.get("callId")))
        for name, value in sent.items():
            if name in ("digest", "resultDigest") and isinstance(value, dict):
                sent = sent | {name: sha256(canonical_json(value))}
            elif value == "shown" and question is not None:
                shown = question.digest if name == "digest" else question.nonce("run")
                sent = sent | {name: shown}
            elif name == "token" and isinstance(value, dict):
                sent = sent | {name: self._token(sent, question, value)}
        return sent

    def _token(self, sent: dict[str, Any], question: Question | None, claims: Any) -> str:
        """Return a token with these claims, as if its signature were good."""
        claims = self._filled({"callId": sent["callId"], **claims})
        good = {
            "sub": sent.get("by"),
            "digest": "0" * 64 if question is None else question.digest,
            "workflowId": RUN_ID,
            "exp": 2_000_000_000,
            "id": "id-1",
        }
        said = {name: value for name, value in (good | claims).items() if value is not None}
        parts = (json.dumps(part).encode() for part in ({"alg": "EdDSA"}, said))
        encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
        return ".".join([*encoded, "c2lnbmVk"])

    def effects(self) -> Iterator[str]:
        """Yield a line for each entry that the log gained, and for each refusal."""
        records = self.records()
        for record in records[self.shown :]:
            call = record.get("callId")
            match record:
                case {"type": "tool_start"}:
                    yield f"ran {call} {record['tool']} {flow(self._arguments(record))}"
                case {"type": "tool_end", "error": error}:
                    yield f"ended {call} {error['code']}: {error['message']}"
                case {"type": "confirmation_required", "approval": approval}:
                    kind = "" if approval["kind"] == "call" else f" ({approval['kind']})"
                    yield f"asked {call}{kind} {approval['tool']} {flow(approval['arguments'])}"
                case {"type": "decision", "ignored": why}:
                    yield f"ignored {call}: {why}"
                case {"type": "decision"}:
                    yield "decided" + line(record).removeprefix("decision").replace("  ", " ")
                case {"type": "notice", "text": text}:
                    yield f"noted {text}"
                case {"type": "message", "message": {"role": "user", "content": str(text)}}:
                    yield f"message {text}"
                case {"type": "done" | "error"}:
                    yield f"ended run {line(record).partition('  ')[2]}"
        self.shown = len(records)
        yield from (f"rejected {why}" for why in self.refusals)
        self.refusals.clear()

    def _arguments(self, record: dict[str, Any]) -> Any:
        turn = self.run.phases.turn
        calls = {one.id: one.arguments for one in turn.calls} if turn else {}
        return record.get("arguments", calls.get(record["callId"]))


_INPUTS: dict[str, Callable[[Attempt, Any], None]] = {
    "start": Attempt.start,
    "decide": Attempt.update,
    "signal": Attempt.signal,
    "delegate": Attempt.read_news,
    "continued": Attempt.read_state,
    "message": Attempt.send,
}


def attempt(text: str) -> str:
    """Return the text of a file with the effects that its inputs have now."""
    head, _, body = text.partition("\n---\n")
    _, _, run = head.partition("\n\n")
    paragraphs = []
    for paragraph in body.strip("\n").split("\n\n"):
        said = yaml.safe_load(run) or {}
        given = said.pop("given", [{"model": [{"pay": {"amount": 5}}]}])
        tools = said.setdefault("agent", {}).setdefault("tools", [])
        tools.append({**copy.deepcopy(_PAY), **said.pop("pay", {})})
        with (
            mock.patch.object(workflow, "info", return_value=_INFO),
            mock.patch.object(workflow, "payload_converter", return_value=_CONVERTER),
        ):
            tried = Attempt(said)
            for each in given:
                [(key, value)] = each.items()
                tried.input(str(key), value)
            assert not tried.refusals, tried.refusals
            list(tried.effects())
            lines = []
            for command in (one for one in paragraph.splitlines() if one.startswith("> ")):
                [(key, value)] = yaml.safe_load(command[2:]).items()
                tried.input(str(key), value)
                lines += [command, *(each.replace("\n", " ⏎ ") for each in tried.effects())]
        paragraphs.append("\n".join(lines))
    return "\n".join([head, "---", "\n\n".join(paragraphs), ""])
