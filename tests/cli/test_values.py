"""What may stand behind the options of a command."""

import io
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli import option_values
from holdfast.runtime.command_line import read_count

# So many levels that it is not read.
DEEP = '{"a": ' * 9_999 + "1" + "}" * 9_999


def test_a_text_may_come_from_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input.txt"
    file.write_text("from a file")
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))

    assert option_values.text(f"@{file}") == "from a file"
    assert option_values.text("-") == "from a pipe"
    assert option_values.text("itself") == "itself"


@pytest.mark.parametrize(
    ("read", "given", "value"),
    [
        (option_values.run_input, ' {"order": 1}', {"order": 1}),
        *((option_values.run_input, text, text) for text in ("{not JSON", "[1]", DEEP)),
        (option_values.json_or_text, '{"ok": true}', {"ok": True}),
        (option_values.json_or_text, "null", None),
        *((option_values.json_or_text, text, text) for text in ("it worked", DEEP)),
        (option_values.principal, "anna", {"id": "anna"}),
        (option_values.principal, '{"id": "anna", "scopes": []}', {"id": "anna", "scopes": []}),
        (option_values.groups, "finance, ops,", ["finance", "ops"]),
        (option_values.name_or_definition, "support", "support"),
        (option_values.json_objects, "[]", []),
    ],
)
def test_a_value_is_read_as_what_it_is(
    read: Callable[[str], object], given: str, value: object
) -> None:
    assert read(given) == value


def test_a_definition_and_messages_may_come_from_a_file(tmp_path: Path) -> None:
    agent, said = tmp_path / "agent.json", tmp_path / "said.json"
    agent.write_text('{"name": "x"}')
    said.write_text('[{"content": "Hello."}]')
    assert option_values.name_or_definition(f"@{agent}") == {"name": "x"}
    assert option_values.json_objects(f"@{said}") == [{"content": "Hello."}]


@pytest.mark.parametrize(
    ("read", "given"),
    [
        *((option_values.json_object, given) for given in ("{", "[1]", "@/no/file", "1", DEEP)),
        *((each, '{"a": 1e400}') for each in (option_values.json_object, option_values.run_input)),
        (option_values.json_or_text, "9007199254740993"),
        *((option_values.json_objects, given) for given in ("[", "{}", "[1]", '"x"', "@/no/file")),
        *((read_count, given) for given in ("0", "-1", "1.5", "many", "")),
        *((option_values.token, given) for given in ("", " ", "@/dev/null")),
    ],
)
def test_what_does_not_fit_is_refused(read: Callable[[str], object], given: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(given)


def test_what_no_run_could_take_is_refused_and_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "big.txt"
    file.write_text("x" * (option_values.MAX_FILE_BYTES + 1))

    with pytest.raises(ArgumentTypeError, match=r"big\.txt is over .* more than a run can take"):
        option_values.text(f"@{file}")
    with file.open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        with pytest.raises(ArgumentTypeError, match="standard input is over"):
            option_values.text("-")


def test_what_is_no_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG")

    with pytest.raises(ArgumentTypeError, match=r"picture\.png cannot be read: it is no UTF-8"):
        option_values.text(f"@{file}")
    with file.open(encoding="utf-8") as piped:
        monkeypatch.setattr("sys.stdin", piped)
        with pytest.raises(ArgumentTypeError, match="standard input cannot be read: it is no UTF"):
            option_values.text("-")
