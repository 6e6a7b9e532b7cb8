"""The rows of the release checks are those of this history, and current at a release."""

from pathlib import Path

import pytest

from bench.published import git, has_history
from tests.release.checks import CHECKS
from tests.release.rows import PAGE, CheckResult, problems, rows, state, written
from tests.replay.shelf import CHANGELOG
from tests.support.process import ROOT

in_history = pytest.mark.skipif(not has_history(), reason="the older commits are not here")
DATED = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-12-02\n"


def test_the_page_has_a_row_of_each_check() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, rows(page)) == page


@in_history
def test_rows_are_of_this_history_and_current_at_a_release() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [*problems(CHANGELOG.read_text(encoding="utf-8"), page)] == []


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository with one commit."""
    git("init", "--quiet", root=tmp_path)
    commit(tmp_path, "holdfast/run.py")
    return tmp_path


def commit(root: Path, file: str, text: str = "") -> str:
    """Change a file in a commit; its id."""
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text or f"{file} {git('log', '--format=%h', root=root)}")
    git("add", ".", root=root)
    author = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
    git(*author, "commit", "--quiet", "-m", file, root=root)
    return git("rev-parse", "--short=12", "HEAD", root=root)


@pytest.mark.parametrize(
    ("file", "is_stale"),
    [
        ("docs/tools/tools.md", False),
        ("CHANGELOG.md", False),
        ("tests/soak/__main__.py", False),
        ("tests/faults/counts/random.json", False),
        ("tests/languages/wire.py", True),
        ("examples/go_tool/main.go", True),
        ("holdfast/run.py", True),
    ],
)
def test_a_row_is_stale_once_a_file_that_its_check_reads_has_changed(
    history: Path, file: str, is_stale: bool
) -> None:
    row = CheckResult(git("rev-parse", "HEAD", root=history), 0, 1.0)
    commit(history, file)
    assert state(CHECKS["test-go"], row, root=history).startswith("stale") == is_stale


@pytest.mark.parametrize(
    ("exit_code", "printed", "expected"),
    [
        (0, "== 7 passed in 2.00s ==", "current"),
        (2, "== 1 failed, 6 passed in 2.00s ==", "failed"),
        (0, "skipped: the Go example needs Go 1.26 or newer", "skipped"),
        (0, "not measured: Go is not installed", "skipped"),
    ],
)
def test_a_check_that_left_out_its_work_is_not_current(
    history: Path, exit_code: int, printed: str, expected: str
) -> None:
    (history / "log").write_text(f"…\n{printed}\n")
    at = git("rev-parse", "HEAD", root=history)
    row = CheckResult.of_log(at, exit_code, 1.0, history / "log")
    assert state(CHECKS["test-go"], row, root=history) == expected
    assert row.notes.startswith(printed.strip("= ")[:8])


def test_a_release_needs_current_rows_at_the_commit_that_dates_it(history: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    stale = git("rev-parse", "--short=12", "HEAD", root=history)
    at = commit(history, "holdfast/run.py", "fixed")
    row = dict.fromkeys(CHECKS, CheckResult(at, 0, 1.0))
    good, lacks = written(page, row), written(page, {**row, "bench": CheckResult(stale, 0, 1.0)})
    assert [*problems("## [Unreleased]\n## [0.1.0]\n", lacks, history)] == []
    commit(history, "CHANGELOG.md", DATED)
    assert [*problems(DATED, good, history)] == []
    [wrong] = problems(DATED, lacks, history)
    assert wrong.startswith("bench: stale: ")
    later = commit(history, "holdfast/run.py", "changed for the next version")
    repeated = written(page, {**row, "bench": CheckResult(later, 1, 1.0)})
    assert [*problems(DATED, repeated, history)] == []
    git("checkout", "--quiet", at, root=history)
    assert [*problems("", repeated, history)] == [
        f"bench: the commit {later} is not in this history"
    ]


def test_a_check_reads_files_that_are_there() -> None:
    named = {path for check in CHECKS.values() for path in check.paths}
    paths = [path.removeprefix(":(exclude)") for path in named]
    assert [path for path in paths if not (ROOT / path).exists()] == []
