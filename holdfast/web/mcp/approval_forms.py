"""Approvals as forms that a trusted client shows to a person, and their answers as decisions.

An answer is for one question with one digest, which its key names. It counts as any decision: once,
while the call is pending.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.client import question_text
from holdfast.client.question_text import MAX_CALLS
from holdfast.client.run import Run
from holdfast.runtime.mcp.errors import NoResultError
from holdfast.runtime.mcp.input_forms import read_forms
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.text_safety import clean
from holdfast.schemas.decision import PendingApproval
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
            where = f"Run {clean(run.id)}: {self._results.where_to_decide(run.id, each)}"
            lines = [*question_text.summary(each, MAX_VALUE_CHARS), where]
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
            approval, content = pending[key], answer.content or {}
            said: dict[str, Any] = {"decision": "respond", "result": content}
            if approval.kind != "input":
                said = {name: content[name] for name in ("decision", "reason") if content.get(name)}
            receipt = await self._services.decide_by(approver, run.id, approval, said)
            words = decision_phrase(receipt.decision, approval.kind)
            notes.append(f"{call_id}: {words}, by {clean(approver.name)}.")
        return notes


async def _form(run: Run, approval: PendingApproval) -> dict[str, Any] | None:
    if approval.kind in ("call", "plan", "budget"):
        return dict(_DECIDES)
    if approval.kind != "input":
        return None
    return _answer_form(approval.form or (await run.tool(approval.tool)).output)


def _answer_form(schema: Any) -> dict[str, Any] | None:
    """Return the form of an answer; None if the protocol has no fields for it, or for a secret."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    asked = ElicitRequest(params=ElicitRequestFormParams(message="", requested_schema=schema))
    try:
        form = read_forms(InputRequiredResult(input_requests={"": asked})).forms[""].fields
    except NoResultError:
        return None
    for field in form["properties"].values():
        choices = field.get("items", field)
        is_closed = field["type"] != "array" or not {"enum", "anyOf"}.isdisjoint(choices)
        texts = all(isinstance(each, str) for each in choices.get("enum", ()))
        if not (is_closed and texts and field.get("format") in _FORMATS):
            return None
    return {key: form[key] for key in ("type", "properties", "required")}
