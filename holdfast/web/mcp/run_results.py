"""What a client receives of a run: its result, or its state and where a person decides.

A trusted client shows approvals to a person as forms, whose answers are decisions. An answer is for
one question with one digest, which its key names. It counts as any decision: once, while the call
is pending.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.client import question_text
from holdfast.client.errors import HoldfastError
from holdfast.client.result import RunEnding
from holdfast.client.run import PendingCall, Run
from holdfast.runtime.mcp.errors import NoResultError
from holdfast.runtime.mcp.input_forms import read_forms
from holdfast.runtime.narration.log_narration import LogNarration
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.narration.question_view import MAX_CALLS, QuestionView
from holdfast.runtime.text_safety import arguments_line, as_text, clean, one_line
from holdfast.schemas import names
from holdfast.schemas.base import rfc3339, sha256
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.log_entry import ConfirmationRequiredEntry, LogRecord, read_record
from holdfast.web.auth.sessions import Person
from holdfast.web.mcp.callers import Caller
from holdfast.web.services import Services

RUN_META: Final = "dev.holdfast/run"
# With the longest wait, less than a minute.
_STATE_SECONDS: Final = 5.0
_SHOWN_EVENTS: Final = 30
_LINE_CHARS: Final = 300
# Between this machine and a server of Temporal.
_CLOCK_DIFFERENCE: Final = timedelta(seconds=5)


def approval_key(approval: PendingApproval) -> str:
    """Return the key of a question with these arguments, which no other question has."""
    return f"{approval.call_id}.{sha256(f'{approval.nonce} {approval.digest}'.encode())[:32]}"


async def next_step(
    run: Run,
    seconds: float,
    known: Collection[str] | None,
    report: Callable[[LogRecord, str], Awaitable[None]],
) -> RunEnding | list[PendingCall]:
    """Return the ending of a run, or approvals whose keys are not `known`; none after `seconds`.

    New events are reported with a text: of a new run (`known` is None), all.

    Raises:
        HoldfastError: the run cannot be read.
    """
    narration = LogNarration(run.id, in_terminal=False)
    since = rfc3339(datetime.now(UTC) - _CLOCK_DIFFERENCE)
    if known is None:
        since, known = "", ()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), aclosing(run.events()) as events:
            async for record in events:
                text = _narrate(narration, record)
                if record.at < since:
                    continue
                if text:
                    await report(record, text)
                if isinstance(record.entry, ConfirmationRequiredEntry):
                    pending = await run.approvals()
                    if new := [each for each in pending if approval_key(each) not in known]:
                        return new
            return await run.ending()
    return []


@dataclass(frozen=True)
class RunResults:
    """Makes results of tools; `inbox` is the address of the inbox, if people have one."""

    inbox: str | None = None

    def where_to_decide(self, run_id: str, approval: PendingApproval) -> str:
        """Return where a person decides: the page of the call, or the command."""
        if self.inbox is None:
            return f"`{question_text.how_to_decide(run_id, approval)}`"
        return self._link(run_id, approval.call_id)

    def finished(
        self, run_id: str, ending: RunEnding, notes: Sequence[str] = ()
    ) -> types.CallToolResult:
        """Return the output of a run that has ended, or the reason why there is none."""
        try:
            output = ending.require_output(run_id)
        except HoldfastError as failure:
            return tool_result([*notes, str(failure)], run_id, is_error=True)
        structured = output if isinstance(output, dict) else None
        if ending.status == "stopped":  # by a tool, whose output is not of the agent's schema
            structured = {"run": run_id, "status": ending.status, "output": output}
        made = tool_result(notes, run_id, structured)
        made.content.extend(_blocks(output))
        return made

    def started(self, run_id: str) -> types.CallToolResult:
        """Return the id of a run to a caller that may not read it."""
        told = f"Run {clean(run_id)} has started. The key of your token has no right to read it."
        return tool_result([told], run_id, {"run": run_id, "status": "started"})

    async def current(
        self, run: Run, notes: Sequence[str] = (), *, with_log: bool = False
    ) -> types.CallToolResult:
        """Return the output of a run, or its state if it has not finished."""
        if (await run.observe()).closed:
            return self.finished(run.id, await run.ending(), notes)
        return await self.unfinished(run, notes, with_log=with_log)

    async def unfinished(
        self, run: Run, notes: Sequence[str] = (), *, with_log: bool = False
    ) -> types.CallToolResult:
        """Return the state of a run, and with `with_log` its last events."""
        name, status, lines = clean(run.id), "running", [*notes]
        try:
            async with asyncio.timeout(_STATE_SECONDS):
                report = await run.status()
                status = report.status
                lines.append(f"Run {name} has not finished: {status.replace('_', ' ')}.")
                for each in await run.approvals():
                    shown = f"{QuestionView.of(each).heading} {arguments_line(each.arguments)}"
                    lines.append(f"{shown}: {self.where_to_decide(run.id, each)}")
                for there in report.delegate_approvals:
                    link = self._link(there.workflow_id, there.call_id) if self.inbox else ""
                    lines.append(f"Approval needed {question_text.delegate_line(there)} {link}")
                if with_log:
                    narration = LogNarration(run.id, in_terminal=False)
                    entries = run.entries(names.EVENTS)
                    texts = [_narrate(narration, read_record(each)) async for each in entries]
                    lines.append("\n".join(filter(None, texts[-_SHOWN_EVENTS:])))
        except TimeoutError:
            lines.append(f"Run {name} does not answer: {await run.diagnose()}.")
        except HoldfastError as error:
            lines.append(f"Run {name} does not answer: {error}.")
        if status == "awaiting_approval":
            lines.append("Only a person can decide: show the user where.")
        lines.append(f"`wait_run` with the run `{name}` waits for its result.")
        return tool_result(lines, run.id, {"run": run.id, "status": status})

    def _link(self, run_id: str, call_id: str) -> str:
        return f"{self.inbox}/waiting/{quote(run_id, safe='')}/{quote(call_id, safe='')}"


def tool_result(
    lines: Sequence[str], run_id: str = "", structured: Any = None, *, is_error: bool = False
) -> types.CallToolResult:
    """Return a result with these texts; its `_meta` has the id of the run."""
    return types.CallToolResult(
        content=[types.TextContent(text=line) for line in lines],
        structured_content=structured,
        is_error=is_error,
        meta={RUN_META: run_id} if run_id else None,
    )


def _blocks(output: Any) -> list[types.ContentBlock]:
    """Return an output as content: texts and pictures as they are, anything else as JSON."""
    blocks: list[types.ContentBlock] = []
    for part in output if isinstance(output, list) else ():
        match part:
            case {"type": "text", "text": str(text)}:
                blocks.append(types.TextContent(text=clean(text)))
            case {"type": "image", "data": str(data), "mediaType": str(media_type)}:
                blocks.append(types.ImageContent(data=data, mime_type=media_type))
            case _:
                return [types.TextContent(text=as_text(output))]
    return blocks or [types.TextContent(text=as_text(output))]


def _narrate(narration: LogNarration, record: LogRecord) -> str:
    lines = [each for each in narration.lines(record) if not each.minor]
    texts = (f"{each.word} {each.text} {each.body}" for each in lines)
    return "\n".join(one_line(text, _LINE_CHARS) for text in texts)


MAX_VALUE_CHARS: Final = 2_000
_REASON: Final = {"type": "string", "title": "Reason", "maxLength": 10_000}
_DECISION: Final = {"type": "string", "title": "Decision", "enum": ["approve", "deny"]}
_DECIDES: Final[Any] = {
    "type": "object",
    "properties": {"decision": _DECISION, "reason": _REASON},
    "required": ["decision"],
}
_FORMATS: Final = (None, "date", "date-time", "email", "uri")


def person_to_ask(ctx: ServerRequestContext[Any, Any], caller: Caller) -> Person | None:
    """Return the person who decides in the client, if it is trusted and can show forms."""
    declared = ctx.session.client_capabilities
    shown = declared.elicitation if declared else None
    is_able = shown is not None and (shown.form is not None or shown.url is None)
    is_able = is_able and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return caller.approver if is_able else None


class ApprovalForms:
    """Makes forms of pending approvals, and decisions of their answers."""

    def __init__(self, services: Services, results: RunResults) -> None:
        self._services, self._results = services, results

    async def requests(
        self, run: Run, approvals: Iterable[PendingApproval]
    ) -> dict[str, types.ElicitRequest]:
        """Return the forms of these approvals by their keys; none for what is too large to show."""
        found = {}
        for each in approvals:
            rows = QuestionView.of(each).rows
            is_whole = all(len(value) <= MAX_VALUE_CHARS for _, value in rows)
            is_whole = is_whole and len(rows) <= MAX_CALLS and each.find_round() is not None
            schema = dict(_DECIDES) if each.kind in ("call", "plan", "budget") else None
            if is_whole and each.kind == "input":
                schema = _answer_form(each.form or (await run.tool(each.tool)).output)
            if schema is None or not is_whole:
                continue
            where = f"Run {clean(run.id)}: {self._results.where_to_decide(run.id, each)}"
            message = "\n".join([*question_text.summary(each, MAX_VALUE_CHARS), where])
            params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
            found[approval_key(each)] = types.ElicitRequest(params=params)
        return found

    async def decide(self, run: Run, answers: Mapping[str, Any], approver: Person) -> list[str]:
        """Send the answers as decisions; return a text for each decision and each late answer.

        Raises:
            HoldfastError: the run rejects a decision, or does not answer.
        """
        pending = {approval_key(each): each for each in await run.approvals()}
        notes = []
        for key, answer in answers.items():
            if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
                continue
            call_id = clean(key.rpartition(".")[0])
            if key not in pending:
                notes.append(f"{call_id} is not pending any more: this answer changed nothing.")
                continue
            approval, content = pending[key], answer.content or {}
            said: dict[str, Any] = {"decision": "respond", "result": content}
            if approval.kind != "input":
                said = {name: content[name] for name in ("decision", "reason") if content.get(name)}
            receipt = await self._services.decide_by(approver, run.id, approval, said)
            words = decision_phrase(receipt.decision, approval.kind)
            notes.append(f"{call_id}: {words}, by {clean(approver.name)}.")
        return notes


def _answer_form(schema: Any) -> dict[str, Any] | None:
    """Return the form of an answer; None if the protocol has no fields for it, or for a secret."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    asked = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="", requested_schema=schema)
    )
    try:
        form = read_forms(types.InputRequiredResult(input_requests={"": asked})).forms[""].fields
    except NoResultError:
        return None
    for field in form["properties"].values():
        choices = field.get("items", field)
        is_closed = field["type"] != "array" or not {"enum", "anyOf"}.isdisjoint(choices)
        texts = all(isinstance(each, str) for each in choices.get("enum", ()))
        if not (is_closed and texts and field.get("format") in _FORMATS):
            return None
    return {key: form[key] for key in ("type", "properties", "required")}
