"""§13: what loading refuses, reported in one line each: the place, what is wrong, and the fix."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from holdfast.hosting import worker
from holdfast.hosting.process_exit import WRONG_SETUP
from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.publish import FOLDER
from tests.contract.wrong_inputs.loading import ARGUMENTS, FILES, Files, Place, WrongInput
from tests.contract.wrong_inputs.loading_agents import AGENTS
from tests.contract.wrong_inputs.loading_calls import (
    BUDGETS,
    CALLS,
    CYCLES,
    LIMITS,
    WHOLE_BUDGETS,
)
from tests.contract.wrong_inputs.loading_connections import (
    ENDPOINTS,
    KEY_FILES,
    KEYS,
    NOTIFIER_FILES,
    NOTIFIERS,
)
from tests.contract.wrong_inputs.loading_files import FILES as UNREADABLE
from tests.contract.wrong_inputs.loading_modules import MODULES
from tests.contract.wrong_inputs.loading_settings import SCHEDULES, SETTINGS
from tests.contract.wrong_inputs.loading_tools import TOOLS

CONTENT: Sequence[WrongInput] = (
    *(*TOOLS, *AGENTS, *CALLS, *LIMITS, *BUDGETS),
    *(*ENDPOINTS, *KEYS, *NOTIFIERS),
)
ROWS: Sequence[WrongInput] = (
    *(*CONTENT, *UNREADABLE, *MODULES, *SETTINGS),
    *(*KEY_FILES, *NOTIFIER_FILES, *CYCLES, *WHOLE_BUDGETS, *SCHEDULES),
)
# Some go through the command itself, in processes of their own.
THROUGH_THE_COMMAND = (TOOLS[0], MODULES[4])
ROOT = Path(__file__).parents[2]
PUBLISHED = {
    "tools": "tool",
    "agents": "agent",
    "budgets.yaml": "budgets",
    "endpoints.yaml": "endpoints",
    "keys.yaml": "keys",
    "limits.yaml": "limits",
    "notify.yaml": "notify",
}


def put(folder: Path, files: Files) -> None:
    """Put the good place there, with these files in it."""
    for name, text in {**FILES, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match text:
            case Place.FOLDER:
                path.mkdir(exist_ok=True)
            case Place.DEAD_LINK:
                path.symlink_to("nowhere")
            case Place.LINK_TO_FOLDER:
                path.symlink_to(folder)
            case str():
                path.write_text(text, encoding="utf-8")
            case bytes():
                path.write_bytes(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the check runs: its environment has no settings."""
    for variable in os.environ:
        if variable.startswith(("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "OLLAMA_")):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_is_reported_in_a_line_with_what_to_do(
    row: WrongInput,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    put(folder, row.files)
    for variable, value in row.environment.items():
        monkeypatch.setenv(variable, value)
    code = worker.main(["--check", *row.arguments])
    out, err = capfd.readouterr()
    assert err.replace(f"{folder}/", "").splitlines() == list(row.says)
    assert (code, out) == (WRONG_SETUP, "")
    assert all("; " in line for line in row.says)


@pytest.mark.parametrize("row", THROUGH_THE_COMMAND, ids=lambda row: row.name)
@pytest.mark.usefixtures("quick_starts")
async def test_the_command_reports_the_same(row: WrongInput, folder: Path) -> None:
    put(folder, row.files)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "check", *ARGUMENTS),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert err.decode().replace(f"{folder}/", "").splitlines() == list(row.says)
    assert (process.returncode, out) == (WRONG_SETUP, b"")


def test_the_good_place_itself_loads(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(folder, {})
    assert worker.main(["--check", *ARGUMENTS]) == 0
    assert capfd.readouterr().out.endswith("1 tool, 0 agents, endpoints m: OK\n")


@pytest.mark.parametrize("row", CONTENT, ids=lambda row: row.name)
def test_an_editor_with_the_published_schema_finds_it_where_the_row_has_that(
    row: WrongInput, folder: Path
) -> None:
    put(folder, row.files)
    [name] = row.files
    schema = json.loads((FOLDER / f"{PUBLISHED[Path(name).parts[0]]}.schema.json").read_text())
    errors = list(Draft202012Validator(schema).iter_errors(read_source(Path(name)).value))
    assert bool(errors) is row.editor


def test_the_rows_are_many_and_no_two_are_one() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 150
