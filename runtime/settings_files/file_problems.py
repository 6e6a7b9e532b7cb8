"""The problems of files and values that do not load.

A `ValueProblem` names its place within a value. The reader of a file turns it into a `FileProblem`
with a line. A run's request has no file: its problems are reported with their path.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import ValueProblem, Where

Lines = dict[Where, int]
"""The line of each place in a value, from 1."""

# The most values that a file may hold, with its aliases expanded.
MAX_VALUES = 100_000
MAX_DEPTH = 100


class InvalidValueError(Exception):
    """A value that does not load, with every problem that was found in it."""

    def __init__(self, faults: Iterable[ValueProblem]) -> None:
        self.faults = list(faults)
        super().__init__(". ".join(str(fault) for fault in self.faults))


class UnreadableError(Exception):
    """A text that is not in its format; `line` is the line of the problem, from 1.

    `line` is None if there is no text.
    """

    def __init__(self, line: int | None, reason: str, mend: str) -> None:
        super().__init__(line, reason, mend)
        self.line, self.reason, self.mend = line, reason, mend


@dataclass(frozen=True)
class FileProblem:
    """A problem in a file; `line` counts from 1, and None is the file as a whole.

    `field` is the place within the value: `tools[0]._activity.type`; empty for the whole value.
    """

    file: str
    line: int | None
    reason: str
    mend: str
    field: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        field = "" if self._names_field() else f"{quote_value(self.field)}: "
        said = f"{self.reason}; {self.mend}" if self.mend else self.reason
        return " ".join(f"{place}: {field}{said}".split())

    def _names_field(self) -> bool:
        named = (self.field, self.field.rpartition(".")[2])
        return not self.field or any(f"`{name}`" in self.reason for name in named)


class LoadError(Exception):
    """Files or settings that do not load, with every problem that was found."""

    def __init__(self, problems: Iterable[FileProblem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
