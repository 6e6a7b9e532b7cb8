"""An answer without calls: the output of a run, or what is wrong with it."""

from typing import Any

from schemas.tool import Schema
from workflows.engine.arguments import InvalidArguments, fit
from workflows.engine.reading import read_json


class NoOutput(Exception):
    """The answer is no output; the message tells the model why."""


def output_of(text: str, schema: Schema | bool | None, *, last: bool) -> Any:
    """The output that an answer's text is; of the `last` answer, even an empty text.

    Raises:
        NoOutput: it is none.
    """
    if not text.strip() and not last:
        raise NoOutput("The answer was empty. Call a tool, or answer.")
    if schema is None:
        return text
    try:
        return fit(read_json(text), schema)
    except (ValueError, InvalidArguments) as error:
        raise NoOutput(
            f"invalid_output: {error}. Answer with JSON alone that fits the schema."
        ) from None
