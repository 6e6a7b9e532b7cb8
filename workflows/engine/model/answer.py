"""Parse a model's answer: its calls, the output of the run, or the reason why it is invalid."""

import json
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.agent import Agent
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.tool import Schema, Tool
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.lenient_json import read_json
from holdfast.validation.validator import errors
from holdfast.workflows.engine.model.composed import UnreadableAnswer, read_answer
from holdfast.workflows.engine.state.data import MISSING, Data, VisibleData
from holdfast.workflows.engine.state.references import Unresolved, resolve

_COMPOSED = 'Answer with one JSON object alone: {"calls": [...], "output": ...}.'


class InvalidOutput(Exception):
    """The answer is not a valid output; the message describes the problem to the model."""


@dataclass(frozen=True)
class ParsedAnswer:
    """A parsed answer: `solution` has its calls, wherever they were in the answer.

    In composed calling, `said` is the text for people, `output` the output in the answer (or
    MISSING), and `wrong` the reason why the answer cannot be read.
    """

    solution: Solution
    said: str | None = None
    output: Any = MISSING
    wrong: str | None = None

    @property
    def text(self) -> str:
        """Return its text without the calls."""
        return self.solution.text if self.said is None else self.said


def parse_answer(solution: Solution, agent: Agent, tools: list[Tool]) -> ParsedAnswer:
    """Parse an answer in which these tools can be called."""
    if agent.calling == "native":
        return ParsedAnswer(solution)
    try:
        read = read_answer(solution.text, agent, tools)
    except UnreadableAnswer as error:
        cut = " It was cut off: write less." if solution.stop_reason == "length" else ""
        wrong = f"invalid_output: {error}.{cut} {_COMPOSED}"
        return ParsedAnswer(solution.model_copy(update={"calls": []}), wrong=wrong)
    output = "" if read.output is MISSING else _as_text(read.output)
    said = "\n\n".join(filter(None, (read.beside, output)))
    return ParsedAnswer(solution.model_copy(update={"calls": read.calls}), said, read.output)


def answer_output(answer: ParsedAnswer, agent: Agent, data: Data, *, last: bool) -> Any:
    """Return the output of an answer; in composed calling, it may contain references.

    Raises:
        InvalidOutput: The answer has no valid output.
    """
    if answer.wrong is not None:
        raise InvalidOutput(answer.wrong)
    if agent.calling == "native":
        return parse_output(answer.solution.text, agent.output, last=last)
    if answer.output is MISSING:
        raise InvalidOutput(f"The answer had neither calls nor an output. {_COMPOSED}")
    try:
        output = resolve(answer.output, VisibleData(data))
        return _as_text(output) if agent.output is None else fit(output, agent.output)
    except Unresolved as error:
        raise InvalidOutput(f"unresolved_reference: `output`: {error}. Answer again.") from None
    except InvalidArguments as error:
        raise InvalidOutput(
            f"invalid_output: `output`: {error}. Answer again, so that it fits."
        ) from None


def parse_output(text: str, schema: Schema | bool | None, *, last: bool) -> Any:
    """Return the output in an answer's text; in the `last` answer, an empty text is one too.

    Raises:
        InvalidOutput: The text is not a valid output.
    """
    if not text.strip() and not last:
        raise InvalidOutput("The answer was empty. Call a tool, or answer.")
    if schema is None:
        return text
    try:
        return fit(read_json(text), schema)
    except (ValueError, InvalidArguments) as error:
        if not errors(text, schema):
            return text  # the schema accepts a text, and this is one without its quotes
        raise InvalidOutput(
            f"invalid_output: {error}. Answer with JSON alone that fits the schema."
        ) from None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
