"""Write the summaries that Temporal's UI shows on activities, timers and child workflows.

The UI does not show event groups yet, so a summary begins with its turn.
"""

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas.agent import ModelSettings
    from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.activities import Hook
from holdfast.workflows.engine.call.tool_call import ToolCall
from holdfast.workflows.engine.delegation import Delegate
from holdfast.workflows.ui_details.markdown import arguments_line, one_line

# The timeline cuts the beginning of a longer one.
MAX_SUMMARY_CHARACTERS = 80


def summary(text: str) -> str:
    """Return one line for a timeline, which shows it as plain text."""
    return one_line(text, MAX_SUMMARY_CHARACTERS)


def model_summary(pointer: ConversationPointer, model: ModelSettings) -> str:
    """Summarize a request to a model."""
    what = "decides what to do"
    if pointer.summary:
        what = f"sums up the conversation so far, entries 1 to {pointer.upto}"
    return summary(f"Turn {pointer.turn}: the model {what} ({model.name or model.endpoint})")


def answer_summary(turn: int, call: ToolCall) -> str:
    """Summarize a request by which a model answers a call."""
    return _line(turn, f"the model answers {call.tool.label or call.tool.name}", call.arguments)


def delegate_summary(delegate: Delegate, parent: str) -> str:
    """Summarize a delegate; lists show it as plain text."""
    return summary(f"Runs {delegate.call_id}, {delegate.tool}, of {parent}")


def call_summary(turn: int, call: ToolCall, decided: str) -> str:
    """Summarize an executed call: the decision on it, and the arguments that fit.

    The timeline shows the activity's name before it, so a tool without a label is not named twice.
    """
    bound = call.tool.activity
    same = call.tool.label is None and bound is not None and call.tool.name == bound.type
    name = "" if same else call.tool.label or call.tool.name
    said = ", ".join(part for part in (name, decided) if part)
    return _line(turn, said, call.arguments)


def hook_summary(turn: int, hook: Hook) -> str:
    """Summarize a hook for a call."""
    where = f"Turn {turn}: " if turn else ""
    return summary(f"{where}the hook _{hook.name} is asked about {hook.call_id}")


def question_summary(turn: int, question: Question) -> str:
    """Summarize the wait for a decision."""
    said = f"decision needed (see User Metadata): {question.label}"
    return _line(turn, said, question.brief)


def _line(turn: int, said: str, arguments: dict[str, Any]) -> str:
    with_ = arguments_line(arguments, MAX_SUMMARY_CHARACTERS)
    where = f"Turn {turn}" if turn else ""
    return summary(": ".join(part for part in (where, said, with_) if part))
