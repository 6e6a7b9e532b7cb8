"""Render a pending approval for a terminal: its lines, its prompt, the commands to decide it."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.client.errors import wrong_command
from holdfast.runtime.narration.phrases import EFFECTS, QUESTIONS, claim_phrase, subject_phrase
from holdfast.runtime.narration.question_view import LABEL_CHARS, QuestionView
from holdfast.runtime.text_safety import (
    clean,
    format_age,
    format_date,
    holdfast_command,
    label_in_line,
    one_line,
)
from holdfast.schemas.decision import Kind, PendingApproval, example_edit, no_such_call, shown_calls
from holdfast.schemas.run import DelegatePending

_GROUPS_CHARS = 200
_STRIKE: Final = "approve [--strike CALL]"


def summary(waiting: PendingApproval, value_chars: int) -> list[str]:
    """Return what a person needs to decide, in lines: no value can pass for another."""
    view = QuestionView.of(waiting)
    rows = view.rows + ([("because", view.reasoning)] if view.reasoning else [])
    return [
        view.heading,
        *view.attempts,
        *(f"{name}: {one_line(text, value_chars)}" for name, text in rows),
        *filter(None, (clean(view.facts), view.filled_in)),
    ]


def explanations(waiting: PendingApproval) -> list[str]:
    """Return what the heading leaves out, the effects of the decisions, and the terms."""
    view, effects = QuestionView.of(waiting), EFFECTS if waiting.kind == "call" else ""
    if waiting.kind == "plan":
        edit, means = example_edit(waiting.arguments)
        effects = f"edit, for example: {clean(edit)} ({clean(means)})" if edit else ""
    age = format_age(waiting.requested_at)
    terms = [f"until {format_date(waiting.expires_at)} (requested {age} ago)"]
    terms += [f"without a decision, {view.lapse}"] if waiting.on_timeout else []
    terms += [*view.terms("terminal", view.groups(_GROUPS_CHARS)), *view.decisions]
    terms += filter(None, [claim_phrase(waiting, datetime.now(UTC))])
    texts = (clean(view.facts), view.filled_in, effects, " · ".join(terms))
    return [*view.attempts, *filter(None, texts)]


def prompt(waiting: PendingApproval) -> str:
    keys = "  ".join(choice.label for choice in QUESTIONS[waiting.kind].choices)
    return f"{clean(waiting.call_id)}:  {keys}  > "


def how_to_decide(run_id: str, waiting: PendingApproval) -> str:
    signed = " --key FILE" if waiting.signed else ""
    return f"{_command(run_id, waiting.call_id, waiting.kind)}{signed}"


def _command(run_id: str, call_id: str, kind: Kind) -> str:
    verdicts = [choice.verdict for choice in QUESTIONS[kind].choices if choice.verdict]
    named = "|".join(dict.fromkeys(verdicts))
    if kind == "plan":
        named = named.replace("approve", _STRIKE, 1)
    decide = f"{holdfast_command('decide', run_id, call_id)} {named}"
    return f"{how_to_renew(run_id)}, or {decide}" if kind == "principal_expired" else decide


def how_to_renew(run_id: str) -> str:
    """Return the command that sends a new token of the principal."""
    return f"{holdfast_command('renew', run_id, '--token')} @FILE"


def delegate_line(there: DelegatePending) -> str:
    """Return the run, the call and the command for a pending approval of a delegate."""
    how = _command(there.workflow_id, there.call_id, there.kind)
    name = subject_phrase(there.kind, label_in_line(there.label or there.tool, LABEL_CHARS))
    return f"in {clean(there.workflow_id)}: {name}: {how}"


def parse_call_ids(said: str) -> list[str]:
    """Split the call ids in a text: `t1c2,t1c3` or `t1c2 t1c3`."""
    return said.replace(",", " ").split()


def strike_calls(waiting: PendingApproval, struck: Collection[str]) -> dict[str, Any]:
    """Return the arguments of an edit that strikes calls out of a plan.

    Raises:
        HoldfastError: it is no plan, the calls do not exist, or no call would remain.
    """
    if waiting.kind != "plan":
        raise wrong_command(f"{clean(waiting.call_id)} is no plan", "approve or deny it")
    ids = [call["id"] for call in shown_calls(waiting.arguments)]
    if waiting.find_round() is None:
        wrong = "the plan is too large to be shown whole"
        raise wrong_command(wrong, "send `edit` with all of its `calls` that are to run")
    for one in struck:
        if one not in ids:
            raise wrong_command(*no_such_call(clean(one), map(clean, ids)))
    left = [{"id": one} for one in ids if one not in struck]
    if not left:
        raise wrong_command("no call would be left", "send `deny`")
    return {"calls": left}
