"""The results of suites: a table, a baseline to compare with, and JUnit's XML for others."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from holdfast.evals.checks import Outcome
from holdfast.runtime.text_safety import clean
from holdfast.validation.problems import FixableError

# By this name, what all runs together fail by.
ALL_RUNS = "all runs"
_SLACK = 1e-9


@dataclass(frozen=True)
class CaseRun:
    """One run of a case: why it is not as expected, a line each, and its time in seconds."""

    run_id: str
    outcome: Outcome
    failures: Sequence[str] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class CaseResult:
    """The runs of a case, `wanted` of which have to pass, as a part of all."""

    suite: str
    name: str
    wanted: float
    runs: Sequence[CaseRun]

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.name}"

    @property
    def passed(self) -> int:
        return sum(not run.failures for run in self.runs)

    @property
    def rate(self) -> float:
        """Return the part of the runs that passed."""
        return self.passed / len(self.runs)

    @property
    def cost(self) -> float | None:
        costs = [run.outcome.cost for run in self.runs]
        return None if None in costs else sum(cost or 0 for cost in costs)

    def reasons(self) -> list[str]:
        """Return why runs failed, each once."""
        return [*dict.fromkeys(line for run in self.runs for line in run.failures)]


def regressions(
    results: Iterable[CaseResult], baseline: Mapping[str, float], fail_under: float | None
) -> dict[str, str]:
    """Return why the suites fail, a line each by the key of a case, or by `ALL_RUNS`.

    Against a baseline, a case fails if fewer of its runs pass than did there; a case that is not in
    it, as without one, if fewer pass than it requires.
    """
    found, results = dict[str, str](), [*results]
    for each in results:
        before = baseline.get(each.key)
        if each.rate < (each.wanted if before is None else before) - _SLACK:
            than = f"not {each.wanted:.0%}" if before is None else f"and {before:.0%} before"
            found[each.key] = f"{each.key}: {each.rate:.0%} of its runs passed, {than}"
    rate = sum(each.passed for each in results) / sum(len(each.runs) for each in results)
    if fail_under is not None and rate < fail_under - _SLACK:
        found[ALL_RUNS] = f"{rate:.0%} of all runs passed; at least {fail_under:.0%}"
    return found


def read_baseline(path: Path) -> dict[str, float]:
    """Read the rates of a file that `write_baseline` has written.

    Raises:
        FixableError: it is no such file.
    """
    try:
        rates = json.loads(path.read_text(encoding="utf-8"))["rates"]
        return {str(key): float(rate) for key, rate in rates.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise FixableError(
            f"{path} is no baseline: {error}", "write one with --write-baseline"
        ) from None


def baseline(results: Iterable[CaseResult]) -> str:
    """Return the rates of the results as JSON, for `read_baseline`."""
    rates = {each.key: each.rate for each in results}
    return json.dumps({"rates": rates}, indent=2) + "\n"


def write_text(path: Path, text: str | None = None) -> None:
    """Write a file; without a text, report only whether it can be written.

    Raises:
        FixableError: it cannot.
    """
    try:
        if text is not None:
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            path.touch()
            path.unlink()
        elif not path.is_file() or not os.access(path, os.W_OK):
            raise PermissionError(0, "it is no file that this command may write")
    except OSError as error:
        wrong = f"{path} cannot be written: {error.strerror}"
        raise FixableError(wrong, "name another file") from None


def junit(results: Iterable[CaseResult], failed: Mapping[str, str]) -> str:
    """Return the results as JUnit's XML: a suite each, a case each; `failed` are `regressions`."""
    suites = dict[str, list[CaseResult]]()
    for each in results:
        suites.setdefault(each.suite, []).append(each)
    root = Element("testsuites")
    for name, cases in suites.items():
        failures = sum(each.key in failed for each in cases)
        counts = {"tests": str(len(cases)), "failures": str(failures)}
        suite = SubElement(root, "testsuite", {"name": clean(name), **counts})
        for each in cases:
            seconds = f"{sum(run.seconds for run in each.runs):.3f}"
            attributes = {"classname": clean(name), "name": clean(each.name), "time": seconds}
            case = SubElement(suite, "testcase", attributes)
            if each.key in failed:
                failure = SubElement(case, "failure", {"message": clean(failed[each.key])})
                failure.text = "\n".join(map(clean, each.reasons()))
    if ALL_RUNS in failed:
        counts = {"tests": "1", "failures": "1"}
        suite = SubElement(root, "testsuite", {"name": ALL_RUNS, **counts})
        case = SubElement(suite, "testcase", {"classname": ALL_RUNS, "name": "--fail-under"})
        SubElement(case, "failure", {"message": failed[ALL_RUNS]})
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"
