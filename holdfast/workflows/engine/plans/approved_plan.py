"""The plan that people approved last: its calls, and which of them are left.

A call of it is held back because a message came before it started. It stays approved: an answer
that makes the remaining calls again, unchanged, needs no new approval.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.schemas.internal.continue_as_new import StepSnapshot
from holdfast.schemas.message import AskedCall
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.states import ProposedCall, ToolCall
from holdfast.workflows.engine.state.redaction import truncate

# What identifies the effect of each call that is held back; None if that is not known.
Keys = Mapping[ToolCall, str | None]

MAX_STANDING_CALLS = 50
MAX_STANDING_BYTES = 300

_STANDING = "The state of the plan that a person approved, for your information:"
_HOW = (
    "The remaining calls are still approved: make them again unchanged to run them."
    " Anything else is a new plan, which a person decides on."
)


class ApprovedPlan:
    """The calls of the plan; `held` has the keys of those that were held back."""

    def __init__(self) -> None:
        self.calls: dict[ToolCall, None] = {}
        self.held: Keys = {}

    @property
    def left(self) -> list[ToolCall]:
        return [call for call, key in self.held.items() if key is not None]

    def replace(self, calls: Sequence[ToolCall]) -> None:
        """Set the calls that people have approved."""
        self.calls = dict.fromkeys(calls)

    def hold(self, keys: Keys) -> None:
        self.held = keys

    def take_up(self, made: Mapping[ToolCall, ToolCall]) -> None:
        """Put the calls that were made again in place of those held back."""
        self.held = {call: key for call, key in self.held.items() if call not in made}
        self.calls = {made.get(call, call): None for call in self.calls}

    def discard(self) -> None:
        self.calls, self.held = {}, {}

    def describe_progress(self) -> str | None:
        """Describe the approved plan for the model; None if all of it has run."""
        if all(
            isinstance(call.outcome, outcomes.Succeeded | outcomes.Answered) for call in self.calls
        ):
            return None
        lines = []
        for call in self.calls:
            if self.held.get(call) is not None:
                short = truncate(call.prepared.raw_arguments, MAX_STANDING_BYTES)
                state = f" {json.dumps(short, ensure_ascii=False)}: left"
            else:
                error = outcomes.error_of(call.outcome)
                state = ": done" if error is None else f": not done ({error.code})"
            lines.append(f"- {call.id} {call.name}{state}")
        more = len(lines) - MAX_STANDING_CALLS
        shown = [*lines[:MAX_STANDING_CALLS], *([f"(and {more} more)"] if more > 0 else [])]
        return "\n".join([_STANDING, *shown, *([_HOW] if self.left else [])])

    def to_snapshot(self) -> list[StepSnapshot]:
        """Return the approved plan as a snapshot."""
        return [
            StepSnapshot(
                id=call.id,
                tool=call.name,
                given=call.prepared.raw_arguments,
                covered=call.prepared.is_approved and call.prepared.bound is None,
                held=call in self.held,
                key=self.held.get(call),
                error=call.ended.error,
                approver=call.prepared.approver,
            )
            for call in self.calls
        ]

    def restore(self, steps: Sequence[StepSnapshot]) -> None:
        """Continue with the approved plan of a snapshot."""
        for step in steps:
            proposal = AskedCall(id=step.id, provider_id=step.id, tool=step.tool, arguments={})
            call = ToolCall(ProposedCall(proposal))
            known = replace(call.prepared, raw_arguments=step.given)
            call.revise(known.covered(is_approved=step.covered, approver=step.approver))
            call.end(
                outcomes.Succeeded(None) if step.error is None else outcomes.Refused(step.error)
            )
            self.calls[call] = None
            if step.held:
                self.held = {**self.held, call: step.key}
