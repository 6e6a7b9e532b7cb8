"""What Temporal's own UI and lists show of a run: search attributes, summaries, current details."""

import json
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from schemas import names
    from schemas.decision import Waiting

from workflows.engine.run import Run

MAX_CELL_CHARACTERS = 500
MAX_SUMMARY_CHARACTERS = 200
MAX_WAITING_SHOWN = 20

_KEYWORD = {
    name: SearchAttributeKey.for_keyword(name)
    for name in (names.AGENT_NAME, names.AGENT_STATUS, names.AGENT_PRINCIPAL)
}
_PENDING = SearchAttributeKey.for_keyword_list(names.PENDING_TOOLS)


def attributes(run: Run) -> dict[str, Any]:
    """The values by which runs are found; names and states alone, no content."""
    pending = {question.tool: None for question in run.kept.desk.open()}
    principal = run.kept.principal
    return {
        names.AGENT_NAME: run.kept.agent.name,
        names.AGENT_STATUS: run.status,
        names.AGENT_PRINCIPAL: principal.id if principal is not None else None,
        names.PENDING_TOOLS: list(pending) or None,
    }


def updates(
    old: dict[str, Any], new: dict[str, Any], known: list[str]
) -> list[SearchAttributeUpdate[Any]]:
    """What has to be written, of what the namespace knows: another name would fail the run."""
    return [
        _update(name, value)
        for name, value in new.items()
        if name in known and old.get(name) != value
    ]


def details(run: Run) -> str:
    """The run as it stands, in Markdown, with the command that decides each waiting call."""
    agent, info = run.kept.agent, workflow.info()
    lines = [f"**{agent.name}** is {run.status.replace('_', ' ')}, turn {run.turn}."]
    waiting = [question.waiting() for question in run.kept.desk.open()]
    for one in waiting[:MAX_WAITING_SHOWN]:
        lines += _waiting(one, info.workflow_id)
    if len(waiting) > MAX_WAITING_SHOWN:
        lines.append(f"\n… and {len(waiting) - MAX_WAITING_SHOWN} more: query `{names.APPROVALS}`")
    return "\n".join(lines)


def summary(text: str) -> str:
    """One line for a timeline."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SUMMARY_CHARACTERS else line[: MAX_SUMMARY_CHARACTERS - 1] + "…"


def call_summary(tool: str, label: str | None, arguments: dict[str, Any]) -> str:
    """What a call does, in one line: its label and the arguments that fit."""
    shown = ", ".join(f"{key}={_cell(value)}" for key, value in arguments.items())
    return summary(f"{label or tool}: {shown}" if shown else label or tool)


def _update(name: str, value: Any) -> SearchAttributeUpdate[Any]:
    key: SearchAttributeKey[Any] = _PENDING if name == names.PENDING_TOOLS else _KEYWORD[name]
    return key.value_unset() if value is None else key.value_set(value)


def _waiting(one: Waiting, workflow_id: str) -> list[str]:
    command = f"holdfast decide {workflow_id} {one.call_id}"
    decision = json.dumps({"callId": one.call_id, "decision": "approve", "digest": one.digest})
    lines = [
        "",
        f"### Waiting for a person: {_cell(one.label)} (`{one.call_id}`)",
        one.question,
        "",
        "| argument | value |",
        "| --- | --- |",
        *(f"| {_cell(key)} | {_cell(value)} |" for key, value in one.arguments.items()),
        "",
    ]
    if one.reasoning:
        lines += [f"Why, in the model's words: {_cell(one.reasoning)}", ""]
    return [
        *lines,
        f"Asked {one.requested_at}, until {one.expires_at};"
        f" {len(one.decisions)} of {one.quorum} decided.",
        "",
        f"- `{command} approve`",
        f"- `{command} deny --reason '…'`",
        f"- or here: **Send a Signal** `{names.APPROVE}` with `{decision}`",
    ]


def _cell(value: Any) -> str:
    """A value in one cell of a table: what comes from a model cannot break out of it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())[:MAX_CELL_CHARACTERS]
    for mark in "\\`*_[]<>|#!":
        text = text.replace(mark, "\\" + mark)
    return text
