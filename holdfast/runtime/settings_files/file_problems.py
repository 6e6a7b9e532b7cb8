"""The problems of files and values that do not load.

A `ValueProblem` names its place within a value. The reader of a file turns it into a `FileProblem`
with a line. A run's request has no file: its problems are reported with their path.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.runtime.text_safety import clean
from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import FixableError, ValueProblem


class InvalidValueError(Exception):
    """A value that does not load, with every problem that was found in it."""

    def __init__(self, faults: Iterable[ValueProblem]) -> None:
        self.faults = list(faults)
        super().__init__(". ".join(str(fault) for fault in self.faults))

    @classmethod
    def of(cls, reason: str, fix: str) -> "InvalidValueError":
        """Return the error of a value that has one problem, as a whole."""
        return cls([ValueProblem((), reason, fix)])


class UnreadableError(FixableError):
    """A text that is not in its format; `line` counts from 1, and is None if there is no text."""

    def __init__(self, line: int | None, reason: str, fix: str) -> None:
        super().__init__(reason, fix)
        self.line = line

    def in_file(self, file: object) -> "FileProblem":
        return FileProblem(str(file), self.line, self.reason, self.fix)


@dataclass(frozen=True)
class FileProblem:
    """A problem in a file; `line` counts from 1, and None is the file as a whole.

    `field` is the place within the value: `tools[0]._activity.type`; empty for the whole value.
    """

    file: str
    line: int | None
    reason: str
    fix: str
    field: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        names = (self.field, self.field.rpartition(".")[2])
        is_named = not self.field or any(f"`{name}`" in self.reason for name in names)
        field = "" if is_named else f"{quote_value(self.field)}: "
        message = f"{self.reason}; {self.fix}" if self.fix else self.reason
        return clean(" ".join(f"{place}: {field}{message}".split()))

    def to_json(self) -> dict[str, Any]:
        place = {"file": self.file, "line": self.line}
        return {**place, "reason": self.reason, "mend": self.fix, "field": self.field}


class LoadError(Exception):
    """Files or settings that do not load, with every problem that was found."""

    def __init__(self, problems: Iterable[FileProblem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
