"""A pending approval as one row of a list: its effect first, then its arguments in one line.

A list has no schemas, which would need a query for each row: its money is the `amount` of the run.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from holdfast.runtime.narration import arguments as formats
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.narration.schema_shapes import ShapeReader
from holdfast.runtime.text_safety import as_json, one_line
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.schemas.tool import loop_arguments

MAX_BRIEF_CHARS: Final = 300
_NAME_CHARS: Final = 60
_FIRSTS_CHARS: Final = 100


def question_line(view: QuestionView, agent: str | None = None) -> tuple[str, str]:
    """Return the title of a row, which leads with the effect, and the rest in one line."""
    approval = view.approval
    title, amount = view.subject(agent, "Plan of {}"), formats.total_text([approval.amount])
    effect, in_line = approval.effect, argument_line(approval)
    if approval.kind == "call" and effect:
        title, effect = f"{effect[:1].upper()}{effect[1:]}", title
    elif approval.kind == "call" and amount:
        title = f"{title} · {amount}"
    if amount and re.search(rf"(?<![-\w]){re.escape(amount)}(?![.,]?\d)", f"{title} {effect}"):
        in_line = f"{in_line} · ".removeprefix(f"{amount} · ").removesuffix(" · ")
    return title, " · ".join(filter(None, [effect, in_line]))


def argument_line(waiting: PendingApproval) -> str:
    """Return the arguments as a person reads them; exactly, as JSON, a value that is not short.

    Of a list of objects, return their number and the first value of each; of a plan, the names of
    its steps; nothing for a budget that runs share.
    """
    if waiting.shared_budget:
        return ""
    if waiting.kind == "plan":
        steps = enumerate(shown_calls(waiting.arguments), start=1)
        found = ((n, str(call.get("label") or call.get("tool") or call["id"])) for n, call in steps)
        return ", ".join(f"{n}. {one_line(label, _NAME_CHARS)}" for n, label in found)
    if (items := loop_arguments(waiting.arguments)) is not None:
        # The amount is that of all items.
        each = ({"arguments": one, "amount": ""} for one in items if one is not None)
        return "; ".join(argument_line(waiting.model_copy(update=one)) for one in each)
    arguments, text_schema = waiting.arguments, {"type": ["string", "null"]}
    texts = {name: as_json(value) for name, value in arguments.items()}
    exact = {
        name: text
        for name, text in texts.items()
        if one_line(text, _NAME_CHARS) != text or "\\n" in text
    } | {name: _table_text(rows) for name, rows in _tables(arguments).items()}
    short = {name: value for name, value in arguments.items() if name not in exact}
    rules = {name: text_schema if isinstance(one, str) else True for name, one in arguments.items()}
    shapes = ShapeReader({"properties": rules | _money(short, waiting.amount)})
    labels = formats.labels_of(shapes.read(shapes.root), exact, without=" id")
    parts = [f"{labels[name]} {text}" for name, text in exact.items()]
    # A row may leave out the amount at the start of the line.
    line = formats.arguments_in_line(short, shapes.root, 2 * MAX_BRIEF_CHARS)
    return " · ".join(filter(None, [line, *parts]))


def is_whole(line: str, arguments: Mapping[str, Any]) -> bool:
    """Report whether the line of these arguments, with `MAX_BRIEF_CHARS`, has every value."""
    items = loop_arguments(arguments)
    has_tables = any(map(_tables, filter(None, [arguments] if items is None else items)))
    return len(line) <= MAX_BRIEF_CHARS and not has_tables


def _tables(arguments: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the arguments that are lists of objects."""
    return {
        name: value
        for name, value in arguments.items()
        if value and isinstance(value, list) and all(isinstance(one, Mapping) for one in value)
    }


def _table_text(rows: list[Mapping[str, Any]]) -> str:
    """Return `3 entries: Keyboard, Mouse, Cable`; a text that could pass for more is quoted."""
    firsts = (next(iter(row.values()), "") for row in rows)
    texts = [
        as_json(one) if not isinstance(one, str) or formats.DOT.search(one) or "," in one else one
        for one in firsts
    ]
    count = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}"
    return f"{count}: {one_line(', '.join(texts), _FIRSTS_CHARS)}"


def _money(arguments: Mapping[str, Any], amount: str) -> dict[str, Any]:
    """Return the schema of the argument that is the amount of its call, if only one can be."""
    found, (value, _, code) = dict[str, Any](), amount.partition(" ")
    for name, one in arguments.items():
        for is_minor in (False, True) if value and isinstance(one, str | int | float) else ():
            rules = {"format": "money", "currency": code, "minorUnits": is_minor}
            if formats.exact_money(one, rules) == (Decimal(value), code):
                found.setdefault(name, rules)
    return found if len(found) == 1 else {}
