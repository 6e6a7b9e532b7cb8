"""However a server writes an answer, its calls are those that the model made, and no others."""

import json
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import FailedAnswer, ToolNames, TruncatedAnswer, UnreadableAnswer
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import ask, read_answer
from tests.providers.writers import chat_completions, gemini, messages, ollama, responses
from tests.providers.writers.abstract_answer import TOOLS, AbstractAnswer, Choices, answers

Write = Callable[[AbstractAnswer, Choices], bytes]
WRITERS: dict[str, Write] = {
    "openai": chat_completions.write,
    "openai-responses": responses.write,
    "anthropic": messages.write,
    "bedrock": messages.write_converse,
    "gemini": gemini.write,
    "ollama": ollama.write,
}
NAMES = ToolNames(
    ask(tools=[{"name": name, "description": "", "parameters": {}} for name in TOOLS]).tools
)
each_format = pytest.mark.parametrize("spoken", FORMATS.values(), ids=FORMATS)


@each_format
@settings(max_examples=100)
@given(answer=answers(), data=st.data())
def test_an_answer_is_the_same_however_it_is_written(
    spoken: ProviderFormat, answer: AbstractAnswer, data: st.DataObject
) -> None:
    choices = Choices(data.draw)
    sent = WRITERS[spoken.kind](answer, choices)
    note(repr(sent))
    solution = read_answer(spoken, *choices.cut_bytes(sent), names=NAMES)
    between = "\n\n" if spoken.kind == "openai-responses" else ""
    assert solution.text == between.join(answer.texts)
    assert called(solution) == [(call.name, json.dumps(call.arguments)) for call in answer.calls]
    assert (solution.notices, solution.refused) == ([], None)
    assert solution.stop_reason == ("calls" if answer.calls else "stop")


@each_format
@settings(max_examples=100)
@given(answer=answers(), data=st.data())
def test_no_call_has_arguments_that_were_not_sent(
    spoken: ProviderFormat, answer: AbstractAnswer, data: st.DataObject
) -> None:
    choices = Choices(data.draw, is_lossy=True)
    sent = WRITERS[spoken.kind](answer, choices)
    sent = sent[: data.draw(st.just(len(sent)) | st.integers(0, len(sent)))]
    note(repr(sent))
    try:
        solution = read_answer(spoken, *choices.cut_bytes(sent), names=NAMES)
    except (FailedAnswer, TruncatedAnswer, UnreadableAnswer):
        return
    made = Counter((call.name, json.dumps(call.arguments)) for call in answer.calls)
    assert Counter(called(solution)) <= made


def called(solution: Solution) -> list[tuple[str, str]]:
    """The tools and the arguments of the calls that can run: they have a name, and an object."""
    written = [call for call in solution.calls if isinstance(call.arguments, dict) and call.tool]
    return [(call.tool, json.dumps(call.arguments)) for call in written]
