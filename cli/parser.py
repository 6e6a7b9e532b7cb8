"""The command line: its options that several commands share, and its errors, of one line each."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from holdfast.cli import option_values
from holdfast.cli.prompts.answers import Approver
from holdfast.client.command_errors import WRONG_COMMAND, wrong_command
from holdfast.client.signing import load_signer
from holdfast.schemas.phrases import closest_names, quote_value, suggest_names

# The result of `add_subparsers`, whose class has no public name.
Commands = Any

RUN: Final[dict[str, Any]] = {"metavar": "RUN", "type": option_values.name}
CALL: Final[dict[str, Any]] = {"metavar": "CALL", "type": option_values.name}
NAME: Final[dict[str, Any]] = {"metavar": "NAME", "type": option_values.name}
OBJECT: Final[dict[str, Any]] = {"metavar": "JSON", "type": option_values.json_object}
TIME: Final[dict[str, Any]] = {"metavar": "TIME", "type": option_values.duration}

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)\Z", re.DOTALL)


def add_person(parser: argparse.ArgumentParser) -> Any:
    """Add the options for the approver; return the group of the ways to sign, to add others."""
    add = parser.add_argument
    add("--by", metavar="NAME", help="the approver (default: you)")
    text = "the groups of the approver"
    add("--groups", metavar="A,B", type=option_values.groups, default=[], help=text)
    signing = parser.add_mutually_exclusive_group()
    signing.add_argument("--key", metavar="FILE", help="sign decisions with this private key (PEM)")
    add("--kid", metavar="ID", help="the id of the key in the worker's key set")
    return signing


def take_approver(options: dict[str, Any]) -> Approver:
    """Take the options of `add_person` out of the given ones.

    Raises:
        CommandError: the key cannot be used.
    """
    signer = load_signer(options.pop("key"), options.pop("kid"))
    return Approver(options.pop("by"), options.pop("groups"), signer)


class Parser(argparse.ArgumentParser):
    """A parser of commands, or of one of them."""

    def parse(self, arguments: Sequence[str] | None) -> dict[str, Any]:
        """Return the options of the given command, whose parser is the default of `parser`."""
        found, unknown = self.parse_known_args(arguments)
        options = vars(found)
        parser: Parser = options.pop("parser")
        if unknown:
            word = unknown[0]
            if not word.startswith("-"):
                todo = "put a text of several words in quotes"
                parser.end(f"{quote_value(word)} is one word too many", todo)
            close = closest_names(word.partition("=")[0], parser._option_string_actions)
            todo = suggest_names(word, close) if close else ""
            parser.end(f"there is no option {quote_value(word)}", todo)
        return options

    def error(self, message: str) -> NoReturn:
        """Exit with an error of argparse, in the form of our own."""
        named = re.match(r"argument ([^:]+): (.*)", message, re.DOTALL)
        place, said = (f"`{named.group(1)}`: ", named.group(2)) if named else ("", message)
        said = re.sub(r"\Aexpected (one|at least one) argument\Z", "its value is missing", said)
        said = re.sub(r"\Athe following arguments are required: (.*)", r"\1 is missing", said)
        choice = _CHOICE.match(said)
        if choice is None:
            wrong, _, todo = said.partition("; ")
        else:
            word, known = choice.group(1), re.split(", ", choice.group(2).replace("'", ""))
            close = closest_names(word, known)
            wrong = f"{quote_value(word)} does not fit"
            todo = suggest_names(word, close) if close else f"write one of {', '.join(known)}"
        self.end(f"{place}{wrong}", todo)

    def end(self, wrong: str, todo: str) -> NoReturn:
        """Exit with an error; without `todo`, it names the help."""
        line = wrong_command(wrong, todo or f"see {self.prog} --help").line()
        self.exit(WRONG_COMMAND, f"{line}\n")
