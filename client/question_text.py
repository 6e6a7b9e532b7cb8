"""A call that waits, put to a person: what it is, what may be decided, and how to decide it later.

A terminal shows the keys of the choices; away from it the same choices are `holdfast decide`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.runtime.text_safety import (
    as_json,
    clean,
    format_age,
    format_argument,
    format_date,
    holdfast_command,
    one_line,
    shorten,
)
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import (
    Decided,
    Kind,
    PendingApproval,
    Verdict,
    example_edit,
    no_such_call,
    shown_calls,
)
from holdfast.schemas.internal.delegate import DelegatePending

MAX_CALLS: Final = 100
_LABEL_CHARS = 60
_VALUE_CHARS = 2_000

_LABEL_CHARS = 60
_INSTANCE_CHARS = 100
_VALUE_CHARS = 4_000


class CannotStrikeError(ValueError):
    """Calls cannot be struck out of a plan: what is wrong, and what to do."""

    def __init__(self, wrong: str, todo: str) -> None:
        super().__init__(f"{wrong}; {todo}")
        self.wrong, self.todo = wrong, todo


@dataclass(frozen=True)
class DecisionOption:
    """One thing that a person may do: its key, its word with the key marked, what is decided.

    `others` are further ways to say it. Without a verdict the question is put off. One that
    `strikes` edits a plan by naming the calls that are left out.
    """

    key: str
    label: str
    verdict: Verdict | None
    synonyms: tuple[str, ...] = ()
    strikes: bool = False

    def means(self, answer: str) -> bool:
        """Whether a person's answer is this choice."""
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
    "plan": (
        DecisionOption("a", "[a]pprove", "approve", ("y", "yes")),
        DecisionOption("d", "[d]eny", "deny", ("n", "no")),
        DecisionOption("k", "stri[k]e calls out", "edit", ("strike",), strikes=True),
        DecisionOption("e", "[e]dit", "edit"),
        _SKIP,
    ),
    "reconcile": (
        DecisionOption("h", "[h]appened", "happened", ("y", "yes")),
        DecisionOption("c", "[c]arry out again", "did_not_happen", ("n", "no")),
        DecisionOption("g", "[g]ive up", "give_up"),
        _SKIP,
    ),
    "budget": (
        DecisionOption("e", "[e]xtend", "approve", ("a", "approve", "y", "yes")),
        DecisionOption("l", "set the [l]imit", "edit"),
        DecisionOption("f", "[f]inish the run", "deny", ("d", "deny", "n", "no")),
        _SKIP,
    ),
}

_QUESTIONS: Final[dict[Kind, str]] = {
    "call": "Shall it be carried out?",
    "plan": "Shall all of it be carried out?",
    "reconcile": "It was started, and nobody knows how it ended. Did it happen?",
    "budget": "The run is at a limit of its budget. Shall it go on?",
}
# Where the run's own words do not say it.
_EFFECTS: Final[dict[Kind, str]] = {
    "call": "approve: it is carried out · deny: it is not, and your reason is passed on · edit:"
    " it is carried out with your arguments · respond: your answer is its result",
}
_LAPSES: Final = {"approve": "it is carried out", "fail": "the run fails"}
# What `holdfast decide` is told where the key's word is not a verdict.
_COMMANDS: Final[dict[Kind, str]] = {
    "call": "approve|deny|edit|respond",
    "plan": "approve [--strike CALL]|deny|edit",
    "reconcile": "happened|did_not_happen|give_up",
    "budget": "approve|edit|deny",
}


def title(waiting: PendingApproval) -> str:
    """What waits: `Refund an order (t2c1)`."""
    return f"{call_name(waiting)} ({clean(waiting.call_id)})"


def call_name(waiting: PendingApproval) -> str:
    """The call's name for people, and in a run with instances whose data it is about: `Refund an
    order for ada`."""
    return one_line(waiting.label or waiting.tool, _LABEL_CHARS) + _whose(waiting)


def question(waiting: PendingApproval) -> str:
    """What the person is asked, in the run's own words where it has some."""
    return clean(waiting.question) or _QUESTIONS[waiting.kind]


def effects(waiting: PendingApproval) -> str:
    """What each decision does; of a plan, whose question says it, an example of an edit. Empty
    where the question says it all."""
    return how_to_edit(waiting) if waiting.kind == "plan" else _EFFECTS.get(waiting.kind, "")


def prompt(waiting: PendingApproval) -> str:
    """The line that asks for a key."""
    keys = "  ".join(choice.label for choice in OPTIONS[waiting.kind])
    return f"{clean(waiting.call_id)}:  {keys}  > "


def arguments(waiting: PendingApproval) -> list[tuple[str, str]]:
    """The arguments by name, as a person checks them; of a plan, its calls. A long one says how
    much is not shown."""
    if waiting.kind == "plan":
        return plan_rows(waiting)
    return [
        (one_line(name, _LABEL_CHARS), _bounded(format_argument(value).rstrip("\n")))
        for name, value in waiting.arguments.items()
    ]


def reasoning(waiting: PendingApproval) -> str:
    """Why the model makes the call; empty where it did not say."""
    return clean(waiting.reasoning or "")


def terms(waiting: PendingApproval) -> str:
    """Until when, by whom, and who has decided already."""
    parts = [
        f"until {format_date(waiting.expires_at)} (asked {format_age(waiting.requested_at)} ago)"
    ]
    if waiting.on_timeout:
        parts.append(f"if nobody decides, {_LAPSES[waiting.on_timeout]}")
    if waiting.approvers:
        parts.append(f"decided by {one_line(', '.join(waiting.approvers), 200)}")
    if waiting.signed:
        parts.append("only signed decisions count")
    if waiting.quorum > 1:
        parts.append(f"{waiting.quorum} people must agree")
    parts += [_given(decided) for decided in waiting.decisions]
    return " · ".join(parts)


def how_to_decide(run_id: str, waiting: PendingApproval) -> str:
    """The command that decides it, with its choices."""
    signed = " --key FILE" if waiting.signed else ""
    return (
        f"{holdfast_command('decide', run_id, waiting.call_id)} {_COMMANDS[waiting.kind]}{signed}"
    )


def delegate_line(there: DelegatePending) -> str:
    """What waits in a delegate: the run, the call's name for people, the command that decides."""
    how = f"{holdfast_command('decide', there.workflow_id, there.call_id)} {_COMMANDS[there.kind]}"
    name = one_line(there.label or there.tool, _LABEL_CHARS)
    return f"in {clean(there.workflow_id)}: {name}: {how}"


def _whose(waiting: PendingApproval) -> str:
    return f" for {one_line(waiting.instance, _INSTANCE_CHARS)}" if waiting.instance else ""


def _given(decided: Decided) -> str:
    signed = " (signed)" if decided.signed else ""
    return f"{one_line(decided.by or 'somebody', _LABEL_CHARS)} said {decided.decision}{signed}"


def _bounded(text: str) -> str:
    hidden = len(text) - _VALUE_CHARS
    if hidden <= 0:
        return text
    return f"{text[:_VALUE_CHARS]}\n… {hidden} more characters: see holdfast approvals --json"


def plan_rows(waiting: PendingApproval) -> list[tuple[str, str]]:
    """The calls by number and name, each with what it would do."""
    calls = list(shown_calls(waiting.arguments))
    told = [
        (f"{number}. {plan_call_name(call)}", "\n".join(_lines(call)))
        for number, call in enumerate(calls[:MAX_CALLS], start=1)
    ]
    more = len(calls) - MAX_CALLS
    return [*told, ("…", f"{more} more calls: see holdfast approvals --json")] if more > 0 else told


def plan_call_name(call: Mapping[str, Any]) -> str:
    """A call of a plan by its id and the name that people know its tool by."""
    return one_line(f"{call['id']} {call.get('label') or call.get('tool') or ''}", _LABEL_CHARS)


def plan_call_order(call: Mapping[str, Any]) -> str:
    """What a call of a plan waits for, and where it writes, in a line; empty for neither."""
    waits = ", ".join(map(str, call.get("waitsFor") or []))
    said = [
        f"after {one_line(waits, _VALUE_CHARS)}" if waits else "",
        f"for {one_line(str(call['instance']), _LABEL_CHARS)}" if call.get("instance") else "",
        f"writes {one_line(str(call['writes']), _VALUE_CHARS)}" if call.get("writes") else "",
    ]
    return ", ".join(part for part in said if part)


def plan_call_delegate(call: Mapping[str, Any]) -> str:
    """That a call of a plan is a whole run of another agent; empty where it is none."""
    agent = call.get("delegate")
    return f"by agent {one_line(str(agent), _LABEL_CHARS)}, in a run of its own" if agent else ""


def how_to_edit(waiting: PendingApproval) -> str:
    """An example of an edit; empty where no call is shown."""
    edit, means = example_edit(waiting.arguments)
    return f"edit, for example: {clean(edit)} ({clean(means)})" if edit else ""


def parse_call_ids(said: str) -> list[str]:
    """The calls that a person names at once: `t1c2,t1c3` or `t1c2 t1c3`."""
    return said.replace(",", " ").split()


def strike_calls(waiting: PendingApproval, struck: Collection[str]) -> dict[str, Any]:
    """What an edit says that strikes calls out of a plan.

    Raises:
        CannotStrikeError: it is no plan, or there are no such calls, or none would be left.
    """
    if waiting.kind != "plan":
        raise CannotStrikeError(f"{clean(waiting.call_id)} is no plan", "approve or deny it")
    ids = [call["id"] for call in shown_calls(waiting.arguments)]
    if not _is_whole(waiting):
        wrong = "the plan is too large to be shown whole"
        raise CannotStrikeError(wrong, "say `edit` with all of its `calls` that are to stay")
    for one in struck:
        if one not in ids:
            raise CannotStrikeError(*no_such_call(clean(one), map(clean, ids)))
    left = [{"id": one} for one in ids if one not in struck]
    if not left:
        raise CannotStrikeError("no call would be left", "say `deny`")
    return {"calls": left}


def _is_whole(waiting: PendingApproval) -> bool:
    """Whether the plan is shown as it is decided on, and not in part."""
    shown = {"tool": waiting.tool, "arguments": waiting.arguments, "kind": "plan", "round": 1}
    return sha256(canonical_json(shown)) == waiting.digest


def _lines(call: Mapping[str, Any]) -> list[str]:
    """What a call would do: a line for each argument, so that no value can pass for another."""
    given = call.get("arguments")
    told = [
        f"{one_line(str(key), _LABEL_CHARS)}: {_in_line(value)}"
        for key, value in (given.items() if isinstance(given, Mapping) else ())
    ]
    why = call.get("reasoning")
    return [
        *told,
        *filter(None, [plan_call_delegate(call), plan_call_order(call)]),
        *([f"because: {one_line(str(why), _VALUE_CHARS)}"] if why else []),
    ]


def _in_line(value: Any) -> str:
    text = format_argument(value)
    return shorten(as_json(value) if "\n" in text else text, _VALUE_CHARS)
