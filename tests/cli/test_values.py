"""What may stand behind the options of a command."""

import io
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli import option_values

# So many levels that nobody reads it.
DEEP = '{"a": ' * 9_999 + "1" + "}" * 9_999


def test_a_text_may_stand_in_a_file_or_come_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input.txt"
    file.write_text("from a file")
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))

    assert option_values.text(f"@{file}") == "from a file"
    assert option_values.text("-") == "from a pipe"
    assert option_values.text("itself") == "itself"


def test_an_input_that_is_a_json_object_is_sent_as_one() -> None:
    assert option_values.run_input(' {"order": 1}') == {"order": 1}
    assert option_values.run_input("{not JSON") == "{not JSON"
    assert option_values.run_input("[1]") == "[1]"
    assert option_values.run_input(DEEP) == DEEP


def test_a_result_is_json_or_text() -> None:
    assert option_values.json_or_text('{"ok": true}') == {"ok": True}
    assert option_values.json_or_text("null") is None
    assert option_values.json_or_text("it worked") == "it worked"
    assert option_values.json_or_text(DEEP) == DEEP


def test_a_principal_is_an_id_or_an_object() -> None:
    assert option_values.principal("anna") == {"id": "anna"}
    assert option_values.principal('{"id": "anna", "scopes": ["a"]}') == {
        "id": "anna",
        "scopes": ["a"],
    }


def test_an_agent_and_a_tool_are_a_name_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text('{"name": "x"}')

    assert option_values.name_or_definition("support") == "support"
    assert option_values.name_or_definition(f"@{file}") == {"name": "x"}
    assert option_values.name_or_definition("look_up") == "look_up"
    assert option_values.name_or_definition(f"@{file}") == {"name": "x"}


def test_groups_are_separated_by_commas() -> None:
    assert option_values.groups("finance, ops,") == ["finance", "ops"]


def test_messages_are_a_list_of_objects(tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    file.write_text('[{"content": "Hello."}]')

    assert option_values.json_objects(f"@{file}") == [{"content": "Hello."}]
    assert option_values.json_objects("[]") == []


@pytest.mark.parametrize(
    ("read", "given"),
    [
        *((option_values.json_object, given) for given in ("{", "[1]", "@/no/file", "1", DEEP)),
        *((option_values.json_objects, given) for given in ("[", "{}", "[1]", '"x"', "@/no/file")),
        *((option_values.number, given) for given in ("0", "-1", "1.5", "many", "")),
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
