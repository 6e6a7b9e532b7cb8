"""Dialogs of Slack (modal views): the reason for a denial, and changed arguments."""

import json
from typing import Any, Final

from holdfast.client.question_text import call_name
from holdfast.runtime.slack import block, escaped
from holdfast.runtime.text_safety import arguments_line
from holdfast.schemas.decision import PendingApproval
from holdfast.web.slack.clicks import Click

REASON: Final = "reason"
_ARGUMENT: Final = "argument "
_VERBS: Final = {"deny": "Deny", "edit": "Approve with changes"}


def dialog(click: Click, approval: PendingApproval) -> dict[str, Any]:
    """Return the view that asks for a reason, and for an edit for the arguments."""
    verb, edited = _VERBS[click.action], approval.arguments if click.action == "edit" else {}
    inputs = [_input(_ARGUMENT + name, name, value) for name, value in edited.items()]
    shown = f"*{escaped(call_name(approval))}*\n{escaped(arguments_line(approval.arguments))}"
    return {
        "type": "modal",
        "callback_id": click.action,
        "private_metadata": click.metadata,
        "title": _plain(verb),
        "submit": _plain("Approve" if edited else verb),
        "close": _plain("Cancel"),
        "blocks": [block(shown), *inputs, _input(REASON, "Reason", "", multiline=True)],
    }


def decision_of(click: Click, approval: PendingApproval) -> dict[str, Any]:
    """Return the decision of a click or a dialog; without a change, an edit is an approval."""
    values = click.values or {}
    fields = {"reason": values[REASON]} if values.get(REASON) else {}
    if click.action != "edit":
        return {"decision": click.action, **fields}
    arguments = {
        name: _read(old, values.get(_ARGUMENT + name, str(old)) or "")
        for name, old in approval.arguments.items()
    }
    if arguments == approval.arguments:
        return {"decision": "approve", **fields}
    return {"decision": "edit", "arguments": arguments, **fields}


def _read(old: Any, text: str) -> Any:
    if isinstance(old, str):
        return text
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the run rejects it, and reports why
    return old if number == old else number


def _input(id: str, label: str, value: Any, *, multiline: bool = False) -> dict[str, Any]:
    element = {"type": "plain_text_input", "action_id": "value", "multiline": multiline}
    element |= {"initial_value": str(value)} if value != "" else {}
    made = {"type": "input", "block_id": id, "label": _plain(label), "element": element}
    return made | {"optional": value == ""}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}
