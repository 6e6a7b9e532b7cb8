"""Present a pending approval to a person: its name, its arguments, its options, the command.

A terminal shows the keys of the choices; away from it the same choices are `holdfast decide`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from holdfast.client.errors import wrong_command
from holdfast.runtime.narration.phrases import (
    REQUESTS,
    decided_phrase,
    filled_in_phrase,
    question_facts,
    request_phrase,
    timeout_phrase,
)
from holdfast.runtime.text_safety import (
    as_json,
    clean,
    format_age,
    format_argument,
    format_date,
    holdfast_command,
    label_in_line,
    local_time,
    name_in_line,
    one_line,
    shorten,
)
from holdfast.schemas.decision import (
    Kind,
    PendingApproval,
    Verdict,
    example_edit,
    no_such_call,
    shown_calls,
)
from holdfast.schemas.json_schema import answer_fields
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.run import DelegatePending

MAX_CALLS: Final = 100
_LABEL_CHARS = 60
_INSTANCE_CHARS = 100
_VALUE_CHARS = 4_000
_PLAN_VALUE_CHARS = 2_000


@dataclass(frozen=True)
class DecisionOption:
    """An option of a question: its key, its label with the key marked, its verdict.

    `synonyms` are further ways to type it. Without a verdict the question is skipped. One that
    `strikes` edits a plan by naming the calls that are left out.
    """

    key: str
    label: str
    verdict: Verdict | None
    synonyms: tuple[str, ...] = ()
    strikes: bool = False

    def means(self, answer: str) -> bool:
        return answer in (self.key, self.label.replace("[", "").replace("]", ""), *self.synonyms)


_SKIP: Final = DecisionOption("s", "[s]kip", None)
OPTIONS: Final[dict[Kind, tuple[DecisionOption, ...]]] = {
    "call": (
        DecisionOption("a", "[a]pprove", "approve", ("y", "yes")),
        DecisionOption("d", "[d]eny", "deny", ("n", "no")),
        DecisionOption("e", "[e]dit", "edit"),
        DecisionOption("r", "[r]espond", "respond"),
        _SKIP,
    ),
    "input": (
        DecisionOption("r", "[r]espond", "respond", ("a", "answer")),
        DecisionOption("d", "[d]eny", "deny", ("n", "no")),
        _SKIP,
    ),
    "plan": (
        DecisionOption("a", "[a]pprove", "approve", ("y", "yes")),
        DecisionOption("d", "[d]eny", "deny", ("n", "no")),
        DecisionOption("k", "stri[k]e calls out", "edit", ("strike",), strikes=True),
        DecisionOption("e", "[e]dit", "edit"),
        _SKIP,
    ),
    "reconcile": (
        DecisionOption("h", "it [h]appened", "happened", ("y", "yes", "happened")),
        DecisionOption(
            "r", "it did not happen, [r]un it again", "did_not_happen", ("n", "no", "c")
        ),
        DecisionOption("g", "[g]ive up", "give_up"),
        _SKIP,
    ),
    "budget": (
        DecisionOption("e", "[e]xtend", "approve", ("a", "approve", "y", "yes")),
        DecisionOption("l", "set the [l]imit", "edit"),
        DecisionOption("n", "do [n]ot extend", "deny", ("d", "deny", "no", "f")),
        _SKIP,
    ),
    "principal_expired": (DecisionOption("d", "[d]eny", "deny", ("n", "no")), _SKIP),
}

_CALL_EFFECTS: Final = (
    "approve: it runs · deny: it does not run, and the model reads your reason · edit: it runs"
    " with your arguments · respond: your answer is its result"
)
_STRIKE: Final = "approve [--strike CALL]"


def title(waiting: PendingApproval) -> str:
    """Return the name and the id of the call: `Refund an order (t2c1)`."""
    return f"{call_name(waiting)} ({clean(waiting.call_id)})"


def call_name(waiting: PendingApproval) -> str:
    """Return the display name of the call, with its instance: `Refund an order for ada`."""
    whose = f" for {name_in_line(waiting.instance, _INSTANCE_CHARS)}" if waiting.instance else ""
    return label_in_line(waiting.label or waiting.tool, _LABEL_CHARS) + whose


def subject(kind: Kind, name: str) -> str:
    """Return a pending call in a list: its name, and its kind if it needs more than yes or no.

    `Did it happen? Refund an order`
    """
    if kind in ("call", "plan"):  # the label of a plan is `plan of 3 calls`
        return name
    return f"Did it happen? {name}" if kind == "reconcile" else f"{REQUESTS[kind]}: {name}"


def heading(waiting: PendingApproval) -> str:
    """Return the request and the call: `Approval needed: Refund an order (t2c1)`."""
    return f"{request_phrase(waiting.kind, waiting.attempts)}: {title(waiting)}"


def summary(waiting: PendingApproval, value_chars: int) -> list[str]:
    """Return what a person needs to decide, in lines: no value can pass for another."""
    because = [("because", reason)] if (reason := reasoning(waiting)) else []
    facts = clean(question_facts(waiting.kind, waiting.question))
    return [
        heading(waiting),
        *attempts(waiting),
        *(f"{name}: {one_line(text, value_chars)}" for name, text in arguments(waiting) + because),
        *filter(None, (facts, filled_in_phrase(waiting.filled_in))),
    ]


def explanations(waiting: PendingApproval) -> list[str]:
    """Return what the heading leaves out, the effects of the decisions, and the terms."""
    effects = _CALL_EFFECTS if waiting.kind == "call" else ""
    if waiting.kind == "plan":
        edit, means = example_edit(waiting.arguments)
        effects = f"edit, for example: {clean(edit)} ({clean(means)})" if edit else ""
    facts = clean(question_facts(waiting.kind, waiting.question or ""))
    filled = filled_in_phrase(waiting.filled_in)
    return [*attempts(waiting), *filter(None, (facts, filled, effects, _terms(waiting)))]


def attempts(waiting: PendingApproval) -> list[str]:
    times = (local_time(at) for at in waiting.attempts)
    texts = (f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "?" for at in times)
    return [f"attempt {n}: started {at}, no result" for n, at in enumerate(texts, start=1)]


def times_phrase(waiting: PendingApproval) -> str:
    """Return the number of the next attempt: `a third time`."""
    number = len(waiting.attempts) + 1
    return f"a {({2: 'second', 3: 'third'}).get(number, f'{number}th')} time"


def prompt(waiting: PendingApproval) -> str:
    keys = "  ".join(choice.label for choice in OPTIONS[waiting.kind])
    return f"{clean(waiting.call_id)}:  {keys}  > "


def arguments(waiting: PendingApproval) -> list[tuple[str, str]]:
    """Return the arguments by name, or the calls of a plan; a cut value has the hidden length."""
    if waiting.kind == "plan":
        calls = list(shown_calls(waiting.arguments))
        rows = []
        for number, call in enumerate(calls[:MAX_CALLS], start=1):
            name = f"{call['id']} {call.get('label') or call.get('tool') or ''}"
            row = f"{number}. {one_line(name, _LABEL_CHARS)}", "\n".join(_plan_call_lines(call))
            rows.append(row)
        more = len(calls) - MAX_CALLS
        note = [("…", f"{more} more calls: see holdfast approvals --json")] if more > 0 else []
        return rows + note
    rows = []
    answer = ((f"answer: {name}", text) for name, text in answer_fields(waiting.form))
    for name, value in (*waiting.arguments.items(), *answer):
        text = format_argument(value).rstrip("\n")
        hidden = len(text) - _VALUE_CHARS
        if hidden > 0:
            more_of_it = f"… {hidden} more characters: see holdfast approvals --json"
            text = f"{text[:_VALUE_CHARS]}\n{more_of_it}"
        rows.append((one_line(name, _LABEL_CHARS), text))
    return rows


def reasoning(waiting: PendingApproval) -> str:
    """Return the reason that the model gave for the call; may be empty."""
    return clean(waiting.reasoning or "")


def _terms(waiting: PendingApproval) -> str:
    age = format_age(waiting.requested_at)
    parts = [f"until {format_date(waiting.expires_at)} (requested {age} ago)"]
    if waiting.on_timeout:
        phrase = timeout_phrase(waiting.kind, waiting.on_timeout)
        parts.append(f"without a decision, {phrase}")
    if waiting.approvers:
        parts.append(f"decided by {one_line(distinct_names(waiting.approvers), 200)}")
    if waiting.signed:
        parts.append("only signed decisions are accepted")
    if waiting.quorum > 1:
        parts.append(f"{waiting.quorum} people must agree")
    parts += [decided_phrase(decided, waiting.kind) for decided in waiting.decisions]
    return " · ".join(parts)


def how_to_decide(run_id: str, waiting: PendingApproval) -> str:
    signed = " --key FILE" if waiting.signed else ""
    return f"{_command(run_id, waiting.call_id, waiting.kind)}{signed}"


def _command(run_id: str, call_id: str, kind: Kind) -> str:
    verdicts = [option.verdict for option in OPTIONS[kind] if option.verdict]
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
    name = subject(there.kind, label_in_line(there.label or there.tool, _LABEL_CHARS))
    return f"in {clean(there.workflow_id)}: {name}: {how}"


def plan_call_order(call: Mapping[str, Any]) -> str:
    """Return the calls that a call of a plan waits for, and where it writes; may be empty."""
    waits = ", ".join(map(str, call.get("waitsFor") or []))
    lines = [
        f"after {one_line(waits, _PLAN_VALUE_CHARS)}" if waits else "",
        f"for {one_line(str(call['instance']), _LABEL_CHARS)}" if call.get("instance") else "",
        f"writes {one_line(str(call['writes']), _PLAN_VALUE_CHARS)}" if call.get("writes") else "",
        plan_call_bound(call),
    ]
    return ", ".join(part for part in lines if part)


def plan_call_bound(call: Mapping[str, Any]) -> str:
    """Return the bound of the later arguments of a call of a plan; empty without one."""
    bound = call.get("bound")
    return f"within {one_line(as_json(bound), _PLAN_VALUE_CHARS)}" if bound is not None else ""


def plan_call_delegate(call: Mapping[str, Any]) -> str:
    """Return the agent that runs a call of a plan as a delegate; empty without a delegate."""
    agent = call.get("delegate")
    return f"by agent {one_line(str(agent), _LABEL_CHARS)}, in a run of its own" if agent else ""


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


def _plan_call_lines(call: Mapping[str, Any]) -> list[str]:
    """Return a line for each argument, so that no value can pass for another."""
    call_arguments = call.get("arguments")
    lines = []
    for name, value in call_arguments.items() if isinstance(call_arguments, Mapping) else ():
        text = format_argument(value)
        text = shorten(as_json(value) if "\n" in text else text, _PLAN_VALUE_CHARS)
        lines.append(f"{one_line(str(name), _LABEL_CHARS)}: {text}")
    lines += filter(None, [plan_call_delegate(call), plan_call_order(call)])
    if reason := call.get("reasoning"):
        lines.append(f"because: {one_line(str(reason), _PLAN_VALUE_CHARS)}")
    return lines
