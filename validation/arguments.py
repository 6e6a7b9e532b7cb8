"""Turn the arguments that a model wrote into those that a tool receives.

Three steps, each of which can reject: parse the text leniently, coerce the values toward the
schema, validate. Coercion changes a value only if its meaning is unambiguous, and never replaces a
null. The original text is stored elsewhere, unchanged.
"""

from typing import Any

from holdfast.schemas.tool import Schema
from holdfast.validation.coercion import coerce
from holdfast.validation.lenient_json import ensure_json, read_json
from holdfast.validation.validator import errors
from holdfast.validation.work_budget import bounded


class InvalidArguments(Exception):
    """Arguments that cannot be run; `problems` are the reasons, field by field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def read_arguments(written: dict[str, Any] | str) -> dict[str, Any]:
    """Return the object of arguments in the text of a call; an empty text is an empty object.

    Raises:
        InvalidArguments: the text is not an object.
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
        InvalidArguments: the value does not fit; the message names each field.
    """
    with bounded():
        coerced = coerce(value, schema)
        problems = errors(coerced, schema)
    if problems:
        raise InvalidArguments(*problems)
    return coerced
