"""Arguments: from what a model wrote to what a tool is given.

Three steps, each able to refuse: read the text leniently, coerce the values toward the schema,
validate. Coercion only ever does what leaves no doubt of what was meant; a null is never turned
into a value. What was written is kept elsewhere, as it was.
"""

from typing import Any

from holdfast.schemas.tool import Schema
from holdfast.validation.coercion import coerce
from holdfast.validation.lenient_json import ensure_json, read_json
from holdfast.validation.validator import errors
from holdfast.validation.work_budget import bounded


class InvalidArguments(Exception):
    """What was written cannot be run; `problems` say why, field by field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def read_arguments(written: dict[str, Any] | str) -> dict[str, Any]:
    """Return the object of arguments that a call was written with; no text at all is an empty one.

    Raises:
        InvalidArguments: it is none.
    """
    if isinstance(written, str) and not written.strip():
        return {}
    try:
        value = read_json(written) if isinstance(written, str) else ensure_json(written)
    except ValueError as error:
        raise InvalidArguments(f"the arguments are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments("the arguments are no JSON object")
    return value


def fit(value: Any, schema: Schema | bool) -> Any:
    """Return the value, coerced toward the schema and valid.

    Raises:
        InvalidArguments: it does not fit; the message names each field.
    """
    with bounded():
        coerced = coerce(value, schema)
        problems = errors(coerced, schema)
    if problems:
        raise InvalidArguments(*problems)
    return coerced
