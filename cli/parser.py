"""The command line's complaints: one line, with the word that is wrong and what to do about it."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from holdfast.client.command_errors import WRONG_COMMAND, wrong_command
from holdfast.schemas.phrases import closest_names, quote_value, suggest_names

_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)\Z", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser of commands, or of one of them."""

    def parse(self, arguments: Sequence[str] | None) -> dict[str, Any]:
        """The options of the command that was given.

        Each command's parser is to have itself as the default of `parser`.
        """
        found, unknown = self.parse_known_args(arguments)
        options = vars(found)
        parser: Parser = options.pop("parser")
        if unknown:
            parser.refuse(unknown[0])
        return options

    def refuse(self, word: str) -> NoReturn:
        """End the program, because of a word that has no place."""
        if not word.startswith("-"):
            todo = "put a text of several words in quotes"
            self._end(f"{quote_value(word)} is one word too many", todo)
        close = closest_names(word.partition("=")[0], self._option_string_actions)
        todo = suggest_names(word, close) if close else self._help
        self._end(f"there is no option {quote_value(word)}", todo)

    def error(self, message: str) -> NoReturn:
        """End the program, because of what argparse has found."""
        named = re.match(r"argument ([^:]+): (.*)", message, re.DOTALL)
        place, said = (f"`{named.group(1)}`: ", named.group(2)) if named else ("", message)
        said = re.sub(r"\Aexpected (one|at least one) argument\Z", "its value is missing", said)
        said = re.sub(r"\Athe following arguments are required: (.*)", r"\1 is missing", said)
        choice = _CHOICE.match(said)
        if choice is not None:
            word, known = choice.group(1), re.split(", ", choice.group(2).replace("'", ""))
            self._end(f"{place}{quote_value(word)} does not fit", _meant(word, known))
        wrong, _, todo = said.partition("; ")
        self._end(f"{place}{wrong}", todo or self._help)

    @property
    def _help(self) -> str:
        return f"see {self.prog} --help"

    def _end(self, wrong: str, todo: str) -> NoReturn:
        self.exit(WRONG_COMMAND, f"{wrong_command(wrong, todo).line()}\n")


def _meant(word: str, known: Sequence[str]) -> str:
    """The choices that come near, or else all of them."""
    close = closest_names(word, known)
    return suggest_names(word, close) if close else f"write one of {', '.join(known)}"
