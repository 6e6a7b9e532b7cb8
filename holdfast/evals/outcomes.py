"""What a run did, read from its log and its end."""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.client.result import RunEnding
from holdfast.evals.checks import Call, Outcome
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    ToolCallEntry,
    ToolStartEntry,
    read_record,
)


def outcome_of(ending: RunEnding, log: Iterable[Mapping[str, Any]], problem: str = "") -> Outcome:
    """Return what a run did: its calls are those that were started.

    `problem` is why it was ended from outside.
    """
    made, calls, approvals = dict[str, Call](), list[Call](), list[str]()
    for each in log:
        match read_record(each).entry:
            case ToolCallEntry(call_id=id, tool=tool, arguments=arguments):
                made[id] = Call(tool, _object(arguments))
            case DecisionEntry(call_id=id, arguments=dict(edited)) if id in made:
                made[id] = Call(made[id].tool, edited)
            case ToolStartEntry(call_id=id, tool=tool, arguments=arguments):
                known = made.get(id)
                whole = arguments if known is None or arguments is not None else known.arguments
                calls.append(Call(tool, _object(whole)))
            case ConfirmationRequiredEntry(reminder=0, forwarded=[], approval=asked):
                approvals += asked.tool_names()
    result = ending.result
    spent = result or ending.spent
    return Outcome(
        ending.status,
        None if result is None else result.output,
        calls,
        {} if result is None or not isinstance(result.state, dict) else result.state,
        approvals,
        0 if spent is None else spent.turns,
        None if spent is None else spent.usage.cost,
        problem or ending.message,
    )


def _object(arguments: Any) -> Mapping[str, Any]:
    return arguments if isinstance(arguments, dict) else {}
