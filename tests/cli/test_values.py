"""What may stand behind the options of a command."""

import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from holdfast.cli import option_values
from holdfast.runtime.command_line import read_count

# So many levels that it is not read.
DEEP = '{"a": ' * 9_999 + "1" + "}" * 9_999


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


def test_the_help_of_all_commands_imports_no_library_of_a_client() -> None:
    """Most of what a command takes to start is what it imports."""
    script = "import sys, holdfast.cli.main as cli; cli.client_parser([]); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not {"temporalio", "httpx", "rich", "holdfast.client"} & {*ended.stdout.split()}
    assert "argparse" in ended.stdout, ended.stderr
