"""What Temporal's lists and timelines show of a run: search attributes and summaries.

Temporal's UI does not show event groups yet, so a summary begins with the turn, where it is in one.
"""

from collections.abc import Iterable
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from schemas import names
    from schemas.agent import ModelSettings
    from schemas.base import json_size
    from schemas.generate import Pointer

from workflows.engine.approval import Question
from workflows.engine.delegates import Delegate
from workflows.engine.hooks import Hook
from workflows.engine.turn import Call
from workflows.engine.work import Work
from workflows.markdown import arguments_line, one_line

# The server ends a run one of whose search attributes takes more than 2 KB.
MAX_LIST_BYTES = 1_900
# A longer one is cut at its beginning where the timeline has no room after its bar.
MAX_SUMMARY_CHARACTERS = 80

_KEYWORD = {
    name: SearchAttributeKey.for_keyword(name)
    for name in (names.AGENT_NAME, names.AGENT_STATUS, names.AGENT_PRINCIPAL)
}
_KEYS: dict[str, SearchAttributeKey[Any]] = {
    **_KEYWORD,
    names.PENDING_TOOLS: SearchAttributeKey.for_keyword_list(names.PENDING_TOOLS),
    names.PENDING_FOR: SearchAttributeKey.for_keyword_list(names.PENDING_FOR),
    names.PENDING_SINCE: SearchAttributeKey.for_datetime(names.PENDING_SINCE),
    names.PENDING_UNTIL: SearchAttributeKey.for_datetime(names.PENDING_UNTIL),
}


def attributes(work: Work) -> dict[str, Any]:
    """The values by which runs and calls are found; names and states alone, no content."""
    principal, questions = work.kept.principal, work.kept.desk.open()
    return {
        names.AGENT_NAME: work.agent_name,
        names.AGENT_STATUS: work.status,
        names.AGENT_PRINCIPAL: principal.id if principal is not None else None,
        names.PENDING_TOOLS: _fitting(tool for each in questions for tool in each.tools) or None,
        names.PENDING_SINCE: max((each.requested_at for each in questions), default=None),
        names.PENDING_UNTIL: min((each.expires_at for each in questions), default=None),
        names.PENDING_FOR: _fitting(group for each in questions for group in _deciding(each))
        or None,
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


def left(known: list[str]) -> list[SearchAttributeUpdate[Any]]:
    """What lists show of a history that a run has left: it is not the run any more."""
    return updates({}, {names.AGENT_STATUS: names.CONTINUED}, known)


def summary(text: str) -> str:
    """One line for a timeline, which shows it as plain text."""
    return one_line(text, MAX_SUMMARY_CHARACTERS)


def model_summary(pointer: Pointer, model: ModelSettings) -> str:
    """A request to a model, in one line."""
    what = "decides what to do"
    if pointer.summary:
        what = f"sums up the conversation so far, entries 1 to {pointer.upto}"
    return summary(f"Turn {pointer.turn}: the model {what} ({model.name or model.endpoint})")


def answer_summary(turn: int, call: Call) -> str:
    """A request by which a model answers a call, in one line."""
    assert call.tool is not None  # it is carried out
    return _line(turn, f"the model answers {call.tool.label or call.tool.name}", call.arguments)


def delegate_summary(delegate: Delegate, parent: str) -> str:
    """A run that carries out a call of another, in one line: lists show it as plain text."""
    return summary(f"Carries out {delegate.call_id}, {delegate.tool}, of {parent}")


def call_summary(turn: int, call: Call, decided: str) -> str:
    """A call that is carried out, in one line: who decided so, and the arguments that fit.

    The timeline names the activity before it, so a tool without a label is not named again.
    """
    assert call.tool is not None  # it is carried out
    bound = call.tool.activity
    same = call.tool.label is None and bound is not None and call.tool.name == bound.type
    name = "" if same else call.tool.label or call.tool.name
    said = ", ".join(part for part in (name, decided) if part)
    return _line(turn, said, call.arguments)


def hook_summary(turn: int, hook: Hook) -> str:
    """A hook that is asked about a call, in one line."""
    where = f"Turn {turn}: " if turn else ""
    return summary(f"{where}the hook _{hook.name} is asked about {hook.call_id}")


def question_summary(turn: int, question: Question) -> str:
    """The wait for a decision, in one line; what there is to do stands elsewhere in the UI."""
    said = f"waits for a person (see User Metadata): {question.label}"
    return _line(turn, said, question.brief)


def _line(turn: int, said: str, arguments: dict[str, Any]) -> str:
    with_ = arguments_line(arguments, MAX_SUMMARY_CHARACTERS)
    where = f"Turn {turn}" if turn else ""
    return summary(": ".join(part for part in (where, said, with_) if part))


def _deciding(question: Question) -> list[str]:
    """The groups that decide on a question."""
    return question.policy.approvers or [names.FOR_ANYBODY]


def _fitting(found: Iterable[str]) -> list[str]:
    """The names, each once: as many of the first as have room."""
    fitting: list[str] = []
    for name in dict.fromkeys(found):
        if json_size([*fitting, name]) > MAX_LIST_BYTES:
            break
        fitting.append(name)
    return fitting


def _update(name: str, value: Any) -> SearchAttributeUpdate[Any]:
    key = _KEYS[name]
    return key.value_unset() if value is None else key.value_set(value)
