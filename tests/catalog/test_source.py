"""Files as they are read: the values they hold, the lines they stand on, and what is refused."""

import errno
from pathlib import Path

import pytest

from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError
from holdfast.runtime.settings_files.source import read_source
from holdfast.validation.problems import Where

JSON = """{
\t"a": {"b": [1,
\t\t{"c\\u00e9": null}]},
\t"d\\ud83d\\ude00": "}],:"
}
"""
YAML = """\
a:
  b: [1,
      {c: ~}]
answer: yes
when: 2026-01-02
on: {x: 1e3, y: 0x1f, z: -7}
"""
MARKDOWN = """\
---
model: {endpoint: m}
tools:
  - t
---

Be brief.

--- no fence
"""


def read(folder: Path, name: str, text: str | bytes) -> object:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_source(path).value


def refusal(folder: Path, name: str, text: str | bytes) -> FileProblem:
    with pytest.raises(LoadError) as refused:
        read(folder, name, text)
    [problem] = refused.value.problems
    return problem


@pytest.mark.parametrize(
    ("name", "text", "where", "line"),
    [
        ("a.json", JSON, (), 1),
        ("a.json", JSON, ("a", "b"), 2),
        ("a.json", JSON, ("a", "b", 1), 3),
        ("a.json", JSON, ("a", "b", 1, "cé"), 3),
        ("a.json", JSON, ("d😀",), 4),
        ("a.json", JSON, ("a", "missing"), 2),
        ("a.yaml", YAML, ("a", "b"), 2),
        ("a.yaml", YAML, ("a", "b", 1, "c"), 3),
        ("a.yaml", YAML, ("when",), 5),
        ("a.md", MARKDOWN, ("model", "endpoint"), 2),
        ("a.md", MARKDOWN, ("tools", 0), 4),
        ("a.md", MARKDOWN, ("instructions",), 6),
        ("a.md", MARKDOWN, ("name",), 2),
    ],
)
def test_every_place_has_its_line(
    tmp_path: Path, name: str, text: str, where: Where, line: int
) -> None:
    (tmp_path / name).write_text(text)
    assert read_source(tmp_path / name).line(where) == line


def test_json_is_read_as_it_stands(tmp_path: Path) -> None:
    value = read(tmp_path, "a.json", JSON)
    assert value == {"a": {"b": [1, {"cé": None}]}, "d😀": "}],:"}


def test_yaml_is_read_by_the_rules_of_yaml_1_2(tmp_path: Path) -> None:
    assert read(tmp_path, "a.yml", YAML) == {
        "a": {"b": [1, {"c": None}]},
        "answer": "yes",
        "when": "2026-01-02",
        "on": {"x": 1000.0, "y": "0x1f", "z": -7},
    }


def test_a_text_under_front_matter_is_the_instructions(tmp_path: Path) -> None:
    assert read(tmp_path, "a.md", MARKDOWN.replace("\n", "\r\n")) == {
        "model": {"endpoint": "m"},
        "tools": ["t"],
        "instructions": "Be brief.\n\n--- no fence",
    }


def test_aliases_resolve_to_what_they_name(tmp_path: Path) -> None:
    value = read(tmp_path, "a.yaml", "a: &x {b: 1}\nc: [*x, *x]\n")
    assert value == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


BOMB = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("a.json", '{"a": 1,\n "b": {"a": 1,\n "a": 2}}', 3, "twice"),
        ("a.json", "[" * 300 + "]" * 300, 1, "too deep"),
        ("a.json", "[" * 300_000, 1, "too deep"),
        ("a.json", "[NaN]", 1, "JSON cannot represent"),
        ("a.json", "[1e999]", 1, "JSON cannot represent"),
        ("a.json", "[" + "1" * 9000 + "]", 1, "no JSON"),
        ("a.json", r'["\ud800"]', 1, "JSON cannot represent"),
        ("a.yaml", "a: 1\n5: 2\n", 2, "no key"),
        ("a.yaml", "a: &x [*x]\n", 1, "too much"),
        ("a.yaml", BOMB, 1, "too much"),
        ("a.yaml", "[" * 5000, 1, "too deep"),
        ("a.yaml", "a: \x00", 1, "no YAML"),
        ("a.md", "---\nname: x\nname: y\n---\n", 3, "twice"),
    ],
)
def test_what_cannot_be_read_is_refused_by_line(
    tmp_path: Path, name: str, text: str | bytes, line: int, reason: str
) -> None:
    refused = refusal(tmp_path, name, text)
    assert refused.line == line
    assert reason in refused.reason
    assert refused.fix


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "a.json").write_text("{}")
    monkeypatch.setattr(Path, "open", forbid)  # root may read everything
    with pytest.raises(LoadError, match="cannot be read: Permission denied"):
        read_source(tmp_path / "a.json")
