"""The calls of one answer."""

from dataclasses import dataclass

from holdfast.workflows.engine.call.outcomes import Stopped, Succeeded, error_of
from holdfast.workflows.engine.call.states import ToolCall

MAX_STANDING_CALLS = 256


@dataclass
class Turn:
    """The calls of one answer, in source order; people decide on all calls of a plan at once."""

    number: int
    calls: list[ToolCall]
    is_plan: bool = False

    @property
    def is_sequential(self) -> bool:
        """Return whether the calls run one at a time: one sequential tool makes the turn so."""
        return any(call.proposed.tool and call.proposed.tool.sequential for call in self.calls)

    def describe_calls(self) -> list[dict[str, str]]:
        """List the stage of each call as JSON, at most `MAX_STANDING_CALLS`."""
        return [
            {
                "callId": call.id,
                "tool": call.name,
                "stage": "ended" if call.has_ended else call.stage.value,
            }
            for call in self.calls[:MAX_STANDING_CALLS]
        ]

    @property
    def decisive_call(self) -> ToolCall:
        """Return the call whose outcome is that of a run without a model.

        The first that stopped the run, or that failed other than by the failure of another one; or
        else the last.
        """
        stopped = [call for call in self.calls if isinstance(call.outcome, Stopped)]
        failed = [call for call in self.calls if error_of(call.outcome) is not None]
        causes = [
            call for call in failed if not any(one in failed for one in call.dependencies.sources)
        ]
        return next(iter((*stopped, *causes, *failed)), self.calls[-1])

    @property
    def requests_stop(self) -> bool:
        """Return whether every call succeeded and every result requests the end of the run."""
        return bool(self.calls) and all(
            isinstance(call.outcome, Succeeded) and call.outcome.terminate for call in self.calls
        )

    @property
    def stop_message(self) -> str | None:
        """Return the message of the first activity that stopped the run, if any did."""
        for call in self.calls:
            if isinstance(call.outcome, Stopped):
                return call.outcome.message or f"{call.name} stopped the run"
        return None
