"""What the activity of a call receives: by `input: call` the context, by places its arguments.

A file is a play (see `tests.engine.plays.playing`) with two more inputs. The line after `> given:
CALL` is what an activity with `input: call` receives of this running call besides its arguments,
and after `> sent: CALL` all values that its own receives; the log is left out. `python -m
tests.engine.call.test_call_context` writes all again: read the difference.
"""

from typing import Any

import pytest

from holdfast.schemas.run import CallContext
from holdfast.schemas.tool import ActivityBinding
from holdfast.workflows.commands.activity_options import activity_arguments
from tests.engine.plays.playing import Transcript, flow, play
from tests.support.text_files import compare, text_files, write_again

PLAYS = text_files(__file__, ".play")
WHOLE = ActivityBinding(type="pay", input="call")


class Given(Transcript):
    """A play whose only lines are the contexts of calls, and refusals."""

    given: str | None = None

    def input(self, key: str, value: Any) -> None:
        if key not in ("given", "sent"):
            super().input(key, value)
            return
        assert self.run.phases.turn is not None
        found = ((each, *each.items) for each in self.run.phases.turn.calls)
        [one] = [each for calls in found for each in calls if each.id == value]
        assert one.is_running
        if key == "sent":
            assert one.tool.activity is not None
            self.given = flow(activity_arguments(one, one.tool.activity, self.run, "order-7"))
            return
        data = activity_arguments(one, WHOLE, self.run, "order-7")[2]
        self.given = flow(data)
        CallContext.model_validate({**data.pop("_call"), "data": data})

    def new_lines(self) -> list[str]:
        refused = [each for each in super().new_lines() if each.startswith("refused: ")]
        lines = refused if self.given is None else [self.given]
        self.given = None
        return lines


@pytest.mark.parametrize("name", PLAYS)
def test_the_activity_of_a_call_receives_what_is_written(name: str) -> None:
    compare(PLAYS[name], play(PLAYS[name].read_text(encoding="utf-8"), Given))


if __name__ == "__main__":
    write_again(__file__)
