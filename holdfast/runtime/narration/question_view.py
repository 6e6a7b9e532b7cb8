"""One question to a person in words, which every surface renders without words of its own.

    PendingApproval ─► QuestionView ─► terminal, Temporal's UI, inbox, notification, Slack, MCP

The words are those of `phrases`; a surface orders, marks and cuts them. Where surfaces word the
same thing differently, the tables there have the words of each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from holdfast.runtime.narration import arguments as formatting
from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.arguments import arguments_in_line, fits_in_line, total_text
from holdfast.runtime.text_safety import (
    as_json,
    as_sentence,
    clean,
    format_argument,
    format_date,
    label_in_line,
    name_in_line,
    one_line,
    shorten,
)
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.schemas.json_schema import answer_fields
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.tool import loop_arguments

LABEL_CHARS: Final = 60
MAX_CALLS: Final = 100
_VALUE_CHARS: Final = 4_000
_INSTANCE_CHARS: Final = 100
_SUBJECT_CHARS: Final = 200
_BUTTON_CHARS: Final = 72
_RULE_CHARS: Final = 600
_PLAN_VALUE_CHARS: Final = 2_000


@dataclass(frozen=True)
class QuestionView:
    """A pending approval in words.

    `request`: what is needed, `Attempt 2, outcome unknown`. `name`: that of the call, with its
    instance, `Refund an order for ada`; `title` has its id, too. `attempts`: a line for each of an
    unknown outcome; `next_attempt`: `a third time`. `facts`: what the run states beside it,
    `filled_in`: the arguments that are not in the call as written, `reasoning`: the model's; each
    may be empty. `lapse`: what happens if no one decides, `it is denied`. `decisions`: those so
    far, `approved by ada (signed)`.
    """

    approval: PendingApproval
    request: str
    name: str
    title: str
    attempts: list[str]
    next_attempt: str
    facts: str
    filled_in: str
    reasoning: str
    lapse: str
    decisions: list[str]

    @classmethod
    def of(cls, one: PendingApproval, *, is_single_call: bool = False) -> Self:
        """Describe a pending approval, of a run or of a single call."""
        kind, number = one.kind, len(one.attempts)
        request = phrases.QUESTIONS[kind].request
        if one.attempts:
            request = f"Attempt {number}, {request[:1].lower()}{request[1:]}"
        whose = f" for {name_in_line(one.instance, _INSTANCE_CHARS)}" if one.instance else ""
        items = phrases.items_phrase(loop_arguments(one.arguments))
        name = label_in_line(one.label or one.tool, LABEL_CHARS) + items + whose
        facts = "" if kind == "call" else one.question
        if kind == "plan":
            facts = "".join(facts.partition(phrases.REFUSED_CALLS)[1:])
        filled = ", ".join(one_line(place, phrases.NAME_CHARS) for place in one.filled_in)
        return cls(
            approval=one,
            request=request,
            name=name,
            title=f"{name} ({clean(one.call_id)})",
            attempts=[
                f"attempt {n}: started {format_date(at, seconds=True)}, no result"
                for n, at in enumerate(one.attempts, start=1)
            ],
            next_attempt=f"a {phrases.ordinal(number + 1)} time",
            facts=facts,
            filled_in=f"Filled in by a default or a hook: {filled}" if filled else "",
            reasoning=clean(one.reasoning or ""),
            lapse=phrases.timeout_phrase(kind, one.on_timeout, is_single_call=is_single_call),
            decisions=[phrases.decided_phrase(each, kind) for each in one.decisions],
        )

    @property
    def heading(self) -> str:
        """Return the request and the call: `Approval needed: Refund an order (t2c1)`."""
        return f"{self.request}: {self.title}"

    def subject(self, agent: str | None, of_plan: str = "A plan of {}") -> str:
        """Return what is decided on: the call, the plan, or the limit that its agent is at.

        `of_plan` takes the number of steps. `lost_property has reached its limit of cost: 1.0`
        """
        kind, arguments = self.approval.kind, self.approval.arguments
        if kind == "plan":
            number = len(list(shown_calls(arguments)))
            return of_plan.format(f"{number} step{'' if number == 1 else 's'}")
        if kind != "budget":
            return phrases.subject_phrase(kind, self.name) if kind == "reconcile" else self.name
        limits = ", ".join(
            f"{phrases.budget_phrase(name)}: {format_argument(limit)}"
            for name, limit in arguments.items()
        )
        who = one_line(agent or "", LABEL_CHARS) or "The run"
        if shared := self.approval.shared_budget:
            return one_line(f"{who} needs more than is left of the budget {shared}", _SUBJECT_CHARS)
        return one_line(f"{who} has reached its limit of {limits}", _SUBJECT_CHARS)

    @property
    def unknown_reason(self) -> str:
        """Return why the outcome of a call is unknown, as a sentence; may be empty."""
        text = clean(self.facts).partition(" Did it happen?")[0]
        text = text.replace(f"`{self.approval.tool}`", self.name)
        return as_sentence(text.replace("`", "")) if text else ""

    def approve_button(self, schema: Any) -> str:
        """Return the label of the button that approves: `Approve refund of €249.00`.

        Without an `effect` of the tool it names every value or none: a label with a part of them
        would look complete. The arguments have this schema.
        """
        one = self.approval
        is_loop, line = loop_arguments(one.arguments) is not None, total_text([one.amount])
        line = line if is_loop else arguments_in_line(one.arguments, schema, _BUTTON_CHARS)
        label = f"Approve: {' · '.join(filter(None, [self.name, line]))}"
        if is_loop:
            return shorten(label, _BUTTON_CHARS)
        if one.effect:
            label = f"Approve {one.effect}"
        is_whole = self._fits_in_button and len(label) <= _BUTTON_CHARS
        return label if is_whole else "Approve as shown"

    def again_button(self, schema: Any) -> str:
        """Return the label of the button that runs the call again, with the number of the attempt.

        `Send a payment a third time: €1,200.00 · IBAN DE02120300000000202051`
        """
        one = self.approval
        line = one.effect or arguments_in_line(one.arguments, schema, _BUTTON_CHARS + 1)
        if not self._fits_in_button or len(line) > _BUTTON_CHARS:
            line = total_text([one.amount]) or "as shown"
        return f"{self.name} {self.next_attempt}{': ' * bool(line)}{line}"

    @property
    def _fits_in_button(self) -> bool:
        one = self.approval
        return bool(one.effect) or all(map(fits_in_line, one.arguments.values()))

    def rule(self, *, with_people: bool = False) -> str:
        """Return by which rule it is pending, and why: `finance, 2 people: amount is over 1,000`.

        A rule without a name has, `with_people`, who decides in its place. Of several rules, each;
        empty without one.
        """
        one, texts, who = self.approval, list[str](), ""
        if with_people and len(one.rules) == 1:
            people = f", {one.quorum} people" if one.quorum > 1 else ""
            who = f"{distinct_names(one.approvers) or 'anyone'}{people}"
        for rule in one.rules:
            parts = (clean(rule.name or who), phrases.rule_phrase(rule))
            texts.append(": ".join(filter(None, parts)))
        text = "; ".join(dict.fromkeys(texts))
        if len(texts) > 1 and one.kind != "plan":
            text = f"every rule, since its values cannot be checked: {text}"
        return one_line(text, _RULE_CHARS)

    def expiry(self, at: str) -> str:
        """Return what happens if no one has decided `at` that time, as a sentence."""
        return f"If no one decides by {at}, {self.lapse}."

    def groups(self, limit_chars: int, between: str = ", ") -> str:
        """Return the groups that decide, in one line; empty: anyone does."""
        return one_line(distinct_names(self.approval.approvers, between), limit_chars)

    def terms(self, surface: phrases.Surface, groups: str = "", **more: str | None) -> list[str]:
        """Return who decides, in the words of a surface; `groups` as that surface writes them."""
        quorum = self.approval.quorum
        found = {"rule": self.rule() or None, "approvers" if groups else "anyone": groups, **more}
        found |= {"quorum": str(quorum) if quorum > 1 else None}
        found |= {"signed": "" if self.approval.signed else None}
        words = phrases.TERMS[surface]
        return [words[name].format(found[name]) for name in words if found.get(name) is not None]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Return the arguments and the required answer by name; of a plan, its calls.

        A cut value has the hidden length.
        """
        rows = list[tuple[str, str]]()
        if self.approval.kind == "plan":
            for number, call in enumerate(shown_calls(self.approval.arguments), start=1):
                name = f"{call['id']} {call.get('label') or call.get('tool') or ''}"
                lines = "\n".join(_step_lines(call))
                rows.append((f"{number}. {one_line(name, LABEL_CHARS)}", lines))
            more = f"{len(rows) - MAX_CALLS} more calls: {phrases.SEE_ALL}"
            return rows if len(rows) <= MAX_CALLS else [*rows[:MAX_CALLS], ("…", more)]
        for number, item in enumerate(loop_arguments(self.approval.arguments) or ()):
            lines = phrases.NOT_RUN if item is None else "\n".join(_step_lines({"arguments": item}))
            own = names.item_id(one_line(self.approval.call_id, LABEL_CHARS), number)
            rows.append((own, lines))
        if rows:
            return rows
        answer = ((f"answer: {name}", text) for name, text in answer_fields(self.approval.form))
        for name, value in (*self.approval.arguments.items(), *answer):
            text = format_argument(value).rstrip("\n")
            hidden = len(text) - _VALUE_CHARS
            if hidden > 0:
                text = f"{text[:_VALUE_CHARS]}\n… {hidden} more characters: {phrases.SEE_ALL}"
            rows.append((formatting.exact_name(name), text))
        return rows


def _step_lines(call: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each argument, so that no value can pass for another."""
    arguments = call.get("arguments")
    for name, value in arguments.items() if isinstance(arguments, Mapping) else ():
        text = format_argument(value)
        text = shorten(as_json(value) if "\n" in text else text, _PLAN_VALUE_CHARS)
        yield f"{formatting.exact_name(str(name))}: {text}"
    waits = ", ".join(map(str, call.get("waitsFor") or []))
    order = [
        f"after {one_line(waits, _PLAN_VALUE_CHARS)}" if waits else "",
        f"for {one_line(str(call['instance']), LABEL_CHARS)}" if call.get("instance") else "",
        f"writes {one_line(str(call['writes']), _PLAN_VALUE_CHARS)}" if call.get("writes") else "",
        step_bound(call),
    ]
    yield from filter(None, [step_delegate(call), ", ".join(filter(None, order))])
    if reason := call.get("reasoning"):
        yield f"because: {one_line(str(reason), _PLAN_VALUE_CHARS)}"


def step_bound(call: Mapping[str, Any]) -> str:
    """Return the bound of the later arguments of a call of a plan; empty without one."""
    bound = call.get("bound")
    return f"within {one_line(as_json(bound), _PLAN_VALUE_CHARS)}" if bound is not None else ""


def step_delegate(call: Mapping[str, Any]) -> str:
    """Return the agent that runs a call of a plan as a delegate; empty without a delegate."""
    agent = call.get("delegate")
    return f"by agent {one_line(str(agent), LABEL_CHARS)}, in a run of its own" if agent else ""
