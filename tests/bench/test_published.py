"""Results in the docs: written by what has measured them, with a commit of this history."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import report
from bench.engines import ENGINES
from bench.measures import comparison
from bench.published import commits, has_history, is_ancestor, results, write_result, written
from tests.bench.test_report import results as stored_results
from tests.replay.shelf import CHANGELOG, dated_release

AT = "0123456789ab"


def test_a_result_names_the_commit_that_was_measured() -> None:
    found = {(page.name, name): commits(text) for page, name, text in results()}
    assert len(found) > 20
    if dated_release(CHANGELOG.read_text(encoding="utf-8")):  # older results name none
        assert [name for name, at in found.items() if not at] == []
    if has_history():
        at = {commit for of_result in found.values() for commit in of_result}
        assert [commit for commit in at if not is_ancestor(commit)] == []


def test_the_pages_have_the_stored_figures() -> None:
    on_pages = {name: text for _, name, text in results()}
    stored = {
        name: text
        for page, file in report.RESULTS.items()
        for name, text in report.published(report.read(file), page).items()
    }
    shown = stored.keys() & on_pages.keys()
    assert len(shown) > 10
    assert [name for name in shown if stored[name] != on_pages[name]] == []


def test_a_result_replaces_the_older_one_of_its_name(tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    page.write_text("A\n<!-- bench cold -->\nold\n<!-- /bench cold -->\n<!-- table -->\nB\n")
    write_result("bench cold", written("| new |", AT), docs=tmp_path)
    write_result("bench open", written("on no page", AT), docs=tmp_path)
    marked = f"<!-- bench cold -->\n| new |\n\nCommit `{AT}`.\n<!-- /bench cold -->"
    assert page.read_text() == f"A\n{marked}\n<!-- table -->\nB\n"


@pytest.mark.parametrize("commit", [AT, ""])
async def test_a_part_prints_what_it_measured_and_stores_it_from_a_clean_tree_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    crowd = [{"engine": "holdfast", "at_a_time": 16, "runs_per_second": 5.0}]

    async def measured(*_: Any) -> Any:
        return crowd

    file, aside = tmp_path / "results.json", tmp_path / "aside.json"
    file.write_text(json.dumps(stored_results()))
    monkeypatch.setattr(comparison, "staged_anew", measured)
    monkeypatch.setattr(comparison, "clean_commit", lambda: commit)
    engines = dict.fromkeys(("holdfast", "plain"), ENGINES["holdfast"])
    monkeypatch.setattr(comparison, "ENGINES", engines)
    monkeypatch.setitem(report.RESULTS, "bench", file)
    monkeypatch.setattr(report, "write_result", lambda *_: None)
    sizes = replace(comparison.CROWD, results=file, images=tmp_path)
    monkeypatch.setattr(comparison, "QUICK", replace(sizes, results=aside))

    printed = await comparison.table(sizes=sizes)

    assert "| holdfast | 5 |" in printed
    assert "history per turn" not in printed
    assert (json.loads(file.read_text())["crowd"] == crowd) == bool(commit)
    if commit:
        found = json.loads(file.read_text())
        assert found["commits"] == {"crowd": AT, "versions": AT}
        assert found["turns"] == stored_results()["turns"]
    else:
        assert json.loads(aside.read_text())["crowd"] == crowd
