"""The files of suites: what is read, what is refused, and how a case is added."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.evals.suites import add_case, load_suites
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.validation.problems import FixableError


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("agent: desk\ncases: []\n", "2: `cases`: `[]` does not fit; write at least 1"),
        (
            "agent: desk\ncases:\n  - {name: a}\n  - {name: a}\n",
            "1: two cases have the name `a`; rename one of them",
        ),
        (
            "agent: desk\ncases:\n  - {name: a, expect: {output: {equal: 1}}}\n",
            "3: unknown field `equal`; did you mean `equals`?",
        ),
        (
            "agent: desk\ncases:\n  - {name: a, decisions: [{tool: t, decision: edit}]}\n",
            "3: `cases[0].decisions[0]`: `edit` belongs to `decision: edit`; write both, or"
            " neither",
        ),
        (
            "agent: desk\ncases:\n  - {name: a, answers: [{tool: t, result: 1, error: x}]}\n",
            "3: `cases[0].answers[0]`: it has a `result` and an `error`; leave one of them out",
        ),
    ],
)
def test_what_is_wrong_with_a_suite_is_named(tmp_path: Path, written: str, problem: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(written)
    with pytest.raises(LoadError) as raised:
        load_suites([path])
    assert [str(each) for each in raised.value.problems] == [f"{path}:{problem}"]


TEXTS = ["09112", "1e5", "5E2", "+08", "yes", "~", "2026-03-01", "a\u2028b", "x\n\n y\n"]


@pytest.mark.parametrize("name", ["s.yaml", "s.yml", "s.json"])
def test_an_added_case_is_read_as_it_was_recorded(tmp_path: Path, name: str) -> None:
    path, own = tmp_path / name, tmp_path / "s.new.yaml"
    own.write_text("mine")
    arguments = {text: text for text in TEXTS}
    for n in (1, 2):
        add_case(
            path, "desk", {"name": f"c{n}", "answers": [{"tool": "t", "arguments": arguments}]}
        )
        path.chmod(0o640)
    suite = load_suites([path])["s"]
    assert [each.answers[0].arguments for each in suite.cases] == [arguments, arguments]
    assert (path.suffix == ".json") == path.read_text().startswith("{")
    assert (own.read_text(), path.stat().st_mode & 0o777) == ("mine", 0o640)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([name, own.name])


HEAD = "# yaml-language-server: $schema=evals.schema.json\nagent: desk\n"


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        (f"{HEAD}cases:\n  # the first\n  - name: a\n", True),
        (f"{HEAD}cases:\n- name: a\n  request: {{input: hi}}  # unhappy", True),
        (f"{HEAD}cases:\n  - name: a\n    request:\n      input: |+\n        hi\n\n", True),
        (f"{HEAD}cases:\n  - name: a\nrepeat: 2\n", False),
        (f"{HEAD}cases: [{{name: a}}]\n", False),
    ],
)
def test_the_text_of_a_suite_stays_where_a_case_fits_below(
    tmp_path: Path, text: str, is_kept: bool
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    before = load_suites([path])["s"]
    add_case(path, "desk", {"name": "b"})
    after = load_suites([path])["s"]
    assert [each.name for each in after.cases] == ["a", "b"]
    assert (after.cases[0], after.repeat) == (before.cases[0], before.repeat)
    assert path.read_text().startswith(text) is is_kept


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({"name": "a"}, "has a case a already; name another with --name"),
        ({"name": "a b"}, ":4: `cases[1].name`: `a b` does not fit; "),
        ({"name": "b", "messages": ["x" * 1_000_000]}, " bytes are too many; "),
        ({"name": "b", "messages": ["\ud800"]}, "values that JSON cannot represent; "),
    ],
)
def test_a_case_that_does_not_fit_changes_no_suite(
    tmp_path: Path, case: dict[str, Any], problem: str
) -> None:
    path, text = tmp_path / "s.yaml", "agent: desk\ncases:\n- name: a\n"
    path.write_text(text)
    with pytest.raises((FixableError, LoadError)) as raised:
        add_case(path, "desk", case)
    assert str(raised.value).startswith(str(path))
    assert problem in str(raised.value)
    assert ([*tmp_path.iterdir()], path.read_text()) == ([path], text)


def test_a_folder_has_suites_in_each_format_and_other_files(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yml", "c.JSON"):
        (tmp_path / name).write_text('{"agent": "desk", "cases": [{"name": "a"}]}')
    beside = {"rates.json": '{"rates": {}}', "a.yml": "[1]", "run.json": '{"agent": "desk"}'}
    for name, text in {**beside, "README.md": "Suites"}.items():
        (tmp_path / name).write_text(text)
    assert [*load_suites([tmp_path])] == ["a", "b", "c"]
    for name in beside:
        with pytest.raises(LoadError, match=name):
            load_suites([tmp_path / name])
    (tmp_path / "d.yaml").write_text("[1]")
    with pytest.raises(LoadError, match=r"d\.yaml"):
        load_suites([tmp_path])
