"""Read the values of options: texts, JSON, files and standard input.

Each function is an argparse `type`: it raises `ArgumentTypeError` with the problem.
"""

import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any, TextIO

from holdfast.runtime.attachments import FileError, read_file
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.message import FilePart
from holdfast.schemas.phrases import misfit_reason
from holdfast.validation.lenient_json import InexactNumber, exact_json

MAX_FILE_BYTES = 2_000_000
MAX_TURN_DIGITS = 9


def text(given: str) -> str:
    """Return a text, the content of `@FILE`, or with `-` that of standard input."""
    if given == "-":
        return _whole(sys.stdin, "standard input")
    if not given.startswith("@"):
        return given
    try:
        with Path(given[1:]).open(encoding="utf-8") as file:
            return _whole(file, given[1:])
    except OSError as error:
        raise ArgumentTypeError(f"{given[1:]} cannot be read: {error.strerror}") from error


def run_input(given: str) -> str | dict[str, Any]:
    """Return the JSON object of a text, else the text itself: the input of a run."""
    content = text(given)
    value = as_meant(content) if content.lstrip().startswith("{") else content
    return value if isinstance(value, dict) else content


def attachment(given: str) -> FilePart:
    """Return a file as a part of a message."""
    try:
        return read_file(Path(given))
    except OSError as error:
        raise ArgumentTypeError(f"{given} cannot be read: {error.strerror}") from error
    except FileError as error:
        raise ArgumentTypeError(str(error)) from error


def json_object(given: str) -> dict[str, Any]:
    """Return a JSON object, in the argument itself or in `@FILE`."""
    value, todo = _json(given, "object", '{"order_id": "A-1"}')
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"{misfit_reason(value)}; {todo}")
    return value


def json_objects(given: str) -> list[dict[str, Any]]:
    """Return a JSON list of messages, in the argument itself or in `@FILE`."""
    value, todo = _json(given, "list of messages", '[{"content": "Hello."}]')
    if not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        raise ArgumentTypeError(f"{misfit_reason(value)}; {todo}")
    return value


def json_or_text(given: str) -> Any:
    """Return the JSON value of a text (or `@FILE`), else the text itself."""
    return as_meant(text(given))


def as_meant(said: str) -> Any:
    """Return the JSON value of a text, else the text itself."""
    try:
        return exact_json(said)
    except InexactNumber as error:
        raise ArgumentTypeError(str(error)) from error
    except (ValueError, RecursionError):
        return said


def name_or_definition(given: str) -> str | dict[str, Any]:
    """Return the name of an agent or a tool, or the JSON definition in `@FILE`."""
    return json_object(given) if given.startswith("@") else given


def model(given: str) -> ModelSettings:
    """Return the settings of a model that is written as `ENDPOINT:NAME`."""
    endpoint, _, name = given.partition(":")
    if not (endpoint and name):
        raise ArgumentTypeError("that is no model; write it as ENDPOINT:NAME")
    return ModelSettings(endpoint=endpoint, name=name)


def turn(given: str) -> int:
    """Return the number of a turn, which is written as calls have it: `t3`."""
    number = given.removeprefix("t")
    if number.isdecimal() and len(number) <= MAX_TURN_DIGITS:
        return int(number)
    raise ArgumentTypeError(f"{misfit_reason(given)}; write a turn, such as t3")


def principal(given: str) -> dict[str, Any]:
    """Return the id of a principal without scopes, or `{"id", "scopes"}` as JSON or `@FILE`."""
    return json_object(given) if given.lstrip().startswith(("{", "@")) else {"id": given}


def token(given: str) -> str:
    """Return a JWT: itself, the content of `@FILE`, or with `-` that of standard input."""
    content = text(given).strip()
    if not content:
        raise ArgumentTypeError("there is no token; write it, @FILE or -")
    return content


def principal_token(given: str) -> dict[str, Any]:
    return {"token": token(given)}


def groups(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


def _json(given: str, what: str, example: str) -> tuple[Any, str]:
    """Return the JSON value, and what to write if it is not `what`."""
    place = "in the file" if given.startswith("@") else "or @FILE"
    todo = f"write a JSON {what}, such as {example}, {place}"
    try:
        return exact_json(text(given)), todo
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"that is no JSON: {error}; {todo}") from error


def _whole(stream: TextIO, name: str) -> str:
    try:
        content = stream.read(MAX_FILE_BYTES + 1)
    except UnicodeError as error:
        raise ArgumentTypeError(f"{name} cannot be read: it is no UTF-8 text") from error
    if len(content) > MAX_FILE_BYTES:
        raise ArgumentTypeError(
            f"{name} is over {MAX_FILE_BYTES:,} bytes, more than a run can take"
        )
    return content
