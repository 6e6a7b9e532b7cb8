"""§10: a turn costs what happens in it, however many came before.

What is counted is work, not time: the steps of Python's own machine, and the JSON that is written.
"""

import sys
from dataclasses import dataclass
from statistics import median_low
from types import FrameType
from typing import Any

from holdfast.runtime.narration.call_summaries import CallSummaries
from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.log_entry import read_record
from holdfast.workflows.commands.publisher import attributes
from holdfast.workflows.engine.phases import AskModel
from holdfast.workflows.ui_details.markdown import short_arguments
from tests.engine.driver import Play, call, reply, tool

EARLY, LATE, MEASURED_TURNS = 20, 400, 5
RESULT = "lorem ipsum " * 170


@dataclass
class Work:
    """What was done: steps, and characters of JSON."""

    steps: int = 0
    json_characters: int = 0

    def __enter__(self) -> "Work":
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.steps += 1
        elif event == "return" and frame.f_code.co_name == "dumps" and arg is not None:
            self.json_characters += len(arg)
        return self._trace


class Long:
    """A run without an end: each turn asks for a record, and keeps what it reads."""

    def __init__(self, *, people: bool = False) -> None:
        reads = tool("look", output_path="†state.last", side_effects=people)
        budget = dict.fromkeys(("max_turns", "max_iterations", "max_calls"), 1_000)
        self.play = Play(reads, definition={"budget": budget}, outcomes={"look": RESULT})
        self.summaries = CallSummaries(short_arguments)
        self.read = 0

    def turn(self) -> None:
        """One turn, with all that a shell does in it."""
        play, step = self.play, self.play.next()
        assert isinstance(step, AskModel)
        play.run.settings.page(ConversationPageRequest(after=self.read, upto=step.pointer.entries))
        self.read = step.pointer.entries
        play.model.append(reply("", call("look", {"id": 1})))
        play.take(step)
        play.take(play.next())
        self.summaries.follow(map(read_record, play.log.records_after(self.summaries.last_entry)))
        attributes(play.run)

    def measured(self, first: int) -> Work:
        """The work of a turn, from this one on: the median, since now and then one seals a page."""
        while self.play.run.state.meter.turns < first - 1:
            self.turn()
        works = []
        for _ in range(MEASURED_TURNS):
            with Work() as work:
                self.turn()
            works.append(work)
        return Work(
            median_low(work.steps for work in works),
            median_low(work.json_characters for work in works),
        )


def test_a_turn_costs_the_same_at_the_end_as_at_the_beginning() -> None:
    long = Long()
    early, late = long.measured(EARLY), long.measured(LATE)
    assert early.steps > 1_000
    assert early.json_characters > len(RESULT)
    assert late.steps <= 1.05 * early.steps
    assert late.json_characters <= 1.05 * early.json_characters
