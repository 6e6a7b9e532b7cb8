"""However a server writes an answer, its calls are those that the model made, and no others."""

import json
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from holdfast.providers.base import FailedAnswer, ToolNames, TruncatedAnswer, UnreadableAnswer
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import read_answer
from tests.providers.wire.base import Wire
from tests.providers.wire.wires import WIRES
from tests.providers.writers.abstract_answer import TOOLS, AbstractAnswer, Choices, answers

NAMES = ToolNames(TOOLS)
each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


@each_wire
@settings(max_examples=100)
@given(answer=answers(), data=st.data())
def test_an_answer_is_the_same_however_it_is_written(
    wire: Wire, answer: AbstractAnswer, data: st.DataObject
) -> None:
    choices = Choices(data.draw)
    sent = wire.writer.write(answer, choices)
    note(repr(sent))
    solution = read_answer(wire.format, *choices.cut_bytes(sent), names=NAMES)
    between = "\n\n" if wire.format.kind == "openai-responses" else ""
    assert solution.text == between.join(answer.texts)
    assert called(solution) == [(call.name, json.dumps(call.arguments)) for call in answer.calls]
    assert (solution.notices, solution.refused) == ([], None)
    assert solution.stop_reason == ("calls" if answer.calls else "stop")


@each_wire
@settings(max_examples=100)
@given(answer=answers(), data=st.data())
def test_no_call_has_arguments_that_were_not_sent(
    wire: Wire, answer: AbstractAnswer, data: st.DataObject
) -> None:
    choices = Choices(data.draw, is_lossy=True)
    sent = wire.writer.write(answer, choices)
    sent = sent[: data.draw(st.just(len(sent)) | st.integers(0, len(sent)))]
    note(repr(sent))
    try:
        solution = read_answer(wire.format, *choices.cut_bytes(sent), names=NAMES)
    except (FailedAnswer, TruncatedAnswer, UnreadableAnswer):
        return
    made = Counter((call.name, json.dumps(call.arguments)) for call in answer.calls)
    assert Counter(called(solution)) <= made


def called(solution: Solution) -> list[tuple[str, str]]:
    """The tools and the arguments of the calls that can run: they have a name, and an object."""
    written = [call for call in solution.calls if isinstance(call.arguments, dict) and call.tool]
    return [(call.tool, json.dumps(call.arguments)) for call in written]
