"""Parsers of command lines whose errors are one line, and readers of the values of options.

A reader is an argparse `type`; its error names what is wrong, and the fix. The options of a
dataclass are stated at its fields, by `option` and `switch`: parsers, environment variables and
help are derived from them.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import Field, field, fields
from math import inf
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from holdfast.schemas.phrases import did_you_mean, misfit_reason, quote_value
from holdfast.validation.problems import FixableError

T = TypeVar("T")
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)\Z", re.DOTALL)


class CommandParser(argparse.ArgumentParser):
    """A parser that raises its errors as `FixableError`: the option, what is wrong, what to do."""

    def parse_options(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return the options of the command line.

        A command's parser is the default of `parser`, and reports what it does not know.

        Raises:
            FixableError: an option is unknown or invalid.
        """
        found, unknown = self.parse_known_args(arguments)
        options = vars(found)
        parser: CommandParser = options.pop("parser", self)
        if unknown:
            word = unknown[0]
            if not word.startswith("-"):
                todo = "put a text of several words in quotes"
                raise FixableError(f"{quote_value(word)} is one word too many", todo)
            option = word.partition("=")[0]
            todo = did_you_mean(option, parser.option_names()) or parser.todo
            raise FixableError(f"there is no option {quote_value(option)}", todo)
        return options

    @property
    def todo(self) -> str:
        return f"see {self.prog} --help"

    def option_names(self) -> list[str]:
        return [each for each in self._option_string_actions if each.startswith("--")]

    def error(self, message: str) -> NoReturn:
        """Raise an error of argparse in the form of our own; argparse calls this."""
        named = re.match(r"argument ([^:]+): (.*)", message, re.DOTALL)
        place, said = (f"`{named.group(1)}`: ", named.group(2)) if named else ("", message)
        said = re.sub(r"\Aexpected (one|at least one) argument\Z", "its value is missing", said)
        said = re.sub(r"\Athe following arguments are required: (.*)", r"\1 is missing", said)
        choice = _CHOICE.match(said)
        if choice is None:
            wrong, _, todo = said.partition("; ")
        else:
            word, known = choice.group(1), choice.group(2).replace("'", "").split(", ")
            wrong = f"{quote_value(word)} does not fit"
            todo = did_you_mean(word, known) or f"write one of {', '.join(known)}"
        raise FixableError(f"{place}{wrong}", todo or self.todo)


def read_by(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader for a function whose `ValueError` names the fix."""

    def reader(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{misfit_reason(text)}; {error}") from error

    return reader


def read_name(text: str) -> str:
    if text.strip():
        return text
    raise argparse.ArgumentTypeError(f"{misfit_reason('')}; write a name")


def number_reader(least: int, most: float, fix: str) -> Callable[[str], int]:
    """Return a reader of whole numbers of this range."""

    def read(text: str) -> int:
        if text.isdecimal() and least <= int(text) <= most:
            return int(text)
        raise ValueError(fix)

    return read_by(read)


read_port = number_reader(0, 65_535, "a port is a number up to 65535; 0 is any free one")
read_count = number_reader(1, inf, "write a whole number from 1 on")


def read_path(text: str) -> Path:
    return Path(read_name(text))


def option(
    default: Any, metavar: str, about: str, read: Callable[[str], Any] = read_name, **more: Any
) -> Any:
    """Return a field that an option sets: the one of its name, or `flag`.

    `read` raises `ValueError` for a text that does not fit; `more` is for argparse.
    """
    metadata = {"metavar": metavar, "help": about, "type": read, **more}
    return field(default=default, metadata=metadata)


def switch(about: str) -> Any:
    """Return a field that is false unless its option is given."""
    return field(default=False, metadata={"action": "store_true", "help": about})


def options_of(model: type) -> dict[str, Field[Any]]:
    """Return the fields of a dataclass that have an option, by the option, such as `--catalog`."""
    named = ((each.metadata.get("flag", each.name), each) for each in fields(model))
    return {f"--{name.replace('_', '-')}": each for name, each in named if each.metadata}


def add_options(add: Callable[..., object], model: type) -> None:
    """Add the options of a dataclass by the `add_argument` of a parser or a group."""
    for name, each in options_of(model).items():
        how = {key: value for key, value in each.metadata.items() if key != "flag"}
        readers = {"type": read_by(how["type"])} if "type" in how else {}
        add(name, dest=each.name, **how | readers)
