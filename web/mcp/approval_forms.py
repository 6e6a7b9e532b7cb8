"""Approvals as forms that a trusted client shows to a person, and their answers as decisions.

An answer is for one question with one digest, which its key names. It counts as any decision: once,
while the call is pending.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from holdfast.client import question_text
from holdfast.client.errors import invalid_input
from holdfast.client.question_text import MAX_CALLS
from holdfast.client.run import Run
from holdfast.runtime.narration.phrases import filled_in_phrase, question_facts
from holdfast.runtime.text_safety import clean, one_line
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.web.auth.sessions import Person
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.run_results import RunResults, approval_key
from holdfast.web.services import Services

MAX_VALUE_CHARS: Final = 2_000
_REASON: Final = {"type": "string", "title": "Reason", "maxLength": 10_000}
_DECISION: Final = {"type": "string", "title": "Decision", "enum": ["approve", "deny"]}
_DECIDES: Final[Any] = {
    "type": "object",
    "properties": {"decision": _DECISION, "reason": _REASON},
    "required": ["decision"],
}
# What fields of the protocol's forms can have; the run checks the answer by the whole schema.
_NOTES: Final = ("type", "title", "description", "default")
_FIELDS: Final = {
    "string": ("enum", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
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
    ) -> dict[str, ElicitRequest]:
        """Return the forms of these approvals by their keys; none for what is too large to show."""
        found = {}
        for each in approvals:
            rows = question_text.arguments(each)
            is_whole = all(len(value) <= MAX_VALUE_CHARS for _, value in rows)
            is_whole = is_whole and len(rows) <= MAX_CALLS and each.find_round() is not None
            if not is_whole or (schema := await _form(run, each)) is None:
                continue
            if reason := question_text.reasoning(each):
                rows.append(("because", reason))
            facts = clean(question_facts(each.kind, each.question))
            lines = [
                question_text.heading(each),
                *(f"{name}: {one_line(value, MAX_VALUE_CHARS)}" for name, value in rows),
                *filter(None, (facts, filled_in_phrase(each.filled_in))),
                f"Run {clean(run.id)}: {self._results.where_to_decide(run.id, each)}",
            ]
            params = ElicitRequestFormParams(message="\n".join(lines), requested_schema=schema)
            found[approval_key(each)] = ElicitRequest(params=params)
        return found

    async def decide(self, run: Run, answers: Mapping[str, Any], approver: Person) -> list[str]:
        """Send the answers as decisions; return a text for each decision and each late answer.

        Raises:
            HoldfastError: the run rejects a decision, or does not answer.
        """
        pending = {approval_key(each): each for each in await run.approvals()}
        notes = []
        for key, answer in answers.items():
            if not isinstance(answer, ElicitResult) or answer.action != "accept":
                continue
            call_id = clean(key.rpartition(".")[0])
            if key not in pending:
                notes.append(f"{call_id} is not pending any more: this answer changed nothing.")
                continue
            decision = _decision(pending[key], answer.content or {}, approver)
            await self._services.decide(run.id, pending[key], decision)
            notes.append(f"{call_id}: {decision.decision}, by {clean(approver.name)}.")
        return notes


def _decision(approval: PendingApproval, content: dict[str, Any], approver: Person) -> Decision:
    said: dict[str, Any] = {"decision": "respond", "result": content}
    if approval.kind != "input":
        said = {key: content[key] for key in ("decision", "reason") if content.get(key)}
    said |= {"callId": approval.call_id, "digest": approval.digest}
    said |= {"by": approver.name, "groups": list(approver.groups)}
    try:
        return Decision.model_validate(said)
    except ValidationError as error:
        raise invalid_input("decision", error, said, Decision, "fill the form in") from None


async def _form(run: Run, approval: PendingApproval) -> dict[str, Any] | None:
    if approval.kind in ("call", "plan", "budget"):
        return dict(_DECIDES)
    if approval.form:  # of an MCP server, as the protocol has it; of several requests, nested
        fields = approval.form.get("properties") or {}
        if not fields or any("properties" in each for each in fields.values()):
            return None
        required = approval.form.get("required", [])
        return {"type": "object", "properties": fields, "required": required}
    return _flat((await run.tool(approval.tool)).output) if approval.kind == "input" else None


def _flat(schema: Any) -> dict[str, Any] | None:
    """Return the form of an answer; None if the protocol has no fields for it."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not fields or schema.get("type") != "object":
        return None
    for field in fields.values():
        if not isinstance(field, dict) or field.get("type") not in _FIELDS:
            return None
        texts = field.get("enum", [])
        if field.get("format") not in _FORMATS or not all(isinstance(each, str) for each in texts):
            return None
    kept = {
        name: {key: field[key] for key in (*_NOTES, *_FIELDS[field["type"]]) if key in field}
        for name, field in fields.items()
    }
    return {"type": "object", "properties": kept, "required": schema.get("required", [])}
