"""The rows of `docs/release-checks.md`: the result of each check, and whether it is current."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.process import ROOT
from bench.published import COMMIT_CHARS, git, is_ancestor
from tests.release.checks import CHECKS, Check
from tests.replay.shelf import dated_release

PAGE = ROOT / "docs/release-checks.md"
CURRENT, NOT_RUN, FAILED, SKIPPED = "current", "not run", "failed", "skipped"
NONE = "–"
_HEAD = (
    "| check | command | commit | exit code | minutes | notes |\n"
    "| --- | --- | --- | ---: | ---: | --- |"
)
_MARKED = re.compile(r"(?<=<!-- release checks -->\n).*?(?=<!-- /release checks -->)", re.DOTALL)
# What a command prints that cannot do its work, or a part of it.
_LEFT_OUT = re.compile(r"^(skipped|not measured|not tried): .*|^.*\bleft out\b.*", re.MULTILINE)
_SUMMARY = re.compile(r"^=* ?(\d+ \w+.*) in [\d.]+s.*$", re.MULTILINE)


@dataclass(frozen=True)
class CheckResult:
    """What a check resulted in."""

    commit: str
    exit_code: int
    minutes: float
    notes: str = ""

    @classmethod
    def of_log(cls, commit: str, exit_code: int, minutes: float, log: Path) -> "CheckResult":
        """Return the row of a check that has ended; its notes are taken from its output."""
        text = log.read_text(encoding="utf-8", errors="replace")
        found = [each[0] for each in _LEFT_OUT.finditer(text)][:2] + _SUMMARY.findall(text)[-1:]
        notes = [each.replace("|", "/")[:160] for each in found]
        if exit_code:
            notes.append(f"log: {log.relative_to(ROOT) if log.is_relative_to(ROOT) else log}")
        return cls(commit, exit_code, minutes, "; ".join(notes))


def rows(text: str) -> dict[str, CheckResult]:
    """Return the rows of a page whose check was run."""
    table = _MARKED.search(text)
    assert table is not None
    found = {}
    for line in table.group().strip().splitlines()[2:]:
        name, _, commit, code, minutes, notes = (cell.strip() for cell in line.split("|")[1:-1])
        if commit != NONE:
            found[name] = CheckResult(commit.strip("`"), int(code), float(minutes), notes)
    return found


def written(text: str, made: Mapping[str, CheckResult]) -> str:
    """Return a page with a row for each check."""
    lines = [_HEAD]
    for check in CHECKS.values():
        row, cells = made.get(check.name), [NONE, NONE, NONE, ""]
        if row is not None:
            cells = [f"`{row.commit}`", f"{row.exit_code}", f"{row.minutes:.1f}", row.notes]
        lines.append(f"| {check.name} | `{check.command}` | {' | '.join(cells)} |")
    return _MARKED.sub(lambda _: "\n".join([*lines, ""]), text)


def state(check: Check, row: CheckResult | None, of: str = "HEAD", root: Path = ROOT) -> str:
    """Return whether a row is a result of a commit, or why it is none."""
    if row is None:
        return NOT_RUN
    if not is_ancestor(row.commit, of, root):
        return f"stale: {row.commit} is not before {of}"
    if changed := git("diff", "--name-only", row.commit, of, "--", *check.paths, root=root):
        return f"stale: {changed.splitlines()[0]} has changed since"
    if row.exit_code:
        return FAILED
    return SKIPPED if row.notes.startswith(("skipped", "not measured", "not tried")) else CURRENT


def problems(changelog: str, page: str, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong: a row of another history, and of a release, a check that is not current.

    The rows of a release are those up to the commit that dates it; later ones are for the next.
    """
    found = rows(page)
    for name, row in found.items():
        if not is_ancestor(row.commit, root=root):
            yield f"{name}: the commit {row.commit} is not in this history"
    if version := dated_release(changelog):
        heading = f"## [{version}] - "
        words = ("log", "--reverse", f"--format=%h --abbrev={COMMIT_CHARS}", f"-S{heading}")
        dated = git(*words, "--", "CHANGELOG.md", root=root).split()
        of = dated[0] if dated else "HEAD"
        for name, check in CHECKS.items():
            at = found.get(name)
            is_later = at is not None and not is_ancestor(at.commit, of, root)
            if not is_later and (wrong := state(check, at, of, root)) != CURRENT:
                yield f"{name}: {wrong}"
