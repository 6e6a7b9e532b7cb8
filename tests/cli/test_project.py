"""`holdfast init` and `holdfast demo`: a new project can be checked, tested and run as printed."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from holdfast.hosting.options import read_options
from tests.cli.conftest import Holdfast


@pytest.fixture
async def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holdfast: Holdfast) -> Path:
    """Write a project, and make its folder the current one."""
    folder = tmp_path / "my shop"
    said = await holdfast("init", str(folder))
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith(f"\nNext: cd '{folder}' && holdfast demo\n")
    monkeypatch.chdir(folder)
    return folder


def run(*words: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], input=answers, capture_output=True, text=True, check=False
    )


async def test_the_version_names_the_command_and_the_distribution(holdfast: Holdfast) -> None:
    said = await holdfast("--version")
    assert said.out == f"holdfast {version('holdfast-agents')} (holdfast-agents)\n"


async def test_a_new_project_is_checked_and_tested(project: Path, holdfast: Holdfast) -> None:
    checked = await holdfast("check")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out == "2 tools, 1 agent, endpoints demo: OK\n"
    tested = run("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout


def test_a_worker_uses_the_project_of_its_folder_unless_files_are_named(project: Path) -> None:
    settings = read_options([]).settings
    assert (settings.catalog, settings.tools) == (Path(), ["tools.py"])
    assert settings.endpoints == Path("endpoints.yaml")
    named = read_options(["--tools", "tools.py"]).settings
    assert (named.catalog, named.endpoints) == (None, None)
    (project / "tools.py").unlink()
    assert read_options([]).settings.tools == ()


@pytest.mark.usefixtures("default_ports")
def test_the_demonstration_asks_and_the_approved_call_runs(project: Path) -> None:
    ended = run("-m", "holdfast", "demo", answers="y\n")
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert json.loads((project / "refunds.jsonl").read_text())["amount"] == 249.0
    for line in (
        r"temporal dev server: 127\.0\.0\.1:\d+, UI http://127\.0\.0\.1:\d+",
        r"inbox, to decide in a browser: http://127\.0\.0\.1:\d+/sign-in\?key=\S+",
        r"Temporal UI: http://127\.0\.0\.1:\d+/namespaces/default/workflows/support-\w+",
        r"\[a\]pprove .* > y",
        r"output: I have handled the request about order 1042\.",
    ):
        assert re.search(line, ended.stdout), ended.stdout


async def test_no_file_is_overwritten(project: Path, holdfast: Holdfast) -> None:
    (project / "tools.py").write_text("mine")
    for name in ("README.md", "agents/support.md"):
        (project / name).unlink()
    said = await holdfast("init")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "holdfast: endpoints.yaml exists already; name another folder: holdfast init DIR\n"
    )
    assert (project / "tools.py").read_text() == "mine"
    assert not (project / "README.md").exists()


async def test_a_folder_that_cannot_be_used_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holdfast: Holdfast
) -> None:
    (tmp_path / "file").touch()
    said = await holdfast("init", str(tmp_path / "file" / "x"))
    assert said.code == 2
    assert re.fullmatch(r"holdfast: .* cannot be written: .*; name another .*\n", said.err)
    monkeypatch.chdir(tmp_path)
    said = await holdfast("demo")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(
        "holdfast: this folder has no agents/, tools.py and endpoints.yaml; "
    )


async def test_a_project_that_does_not_load_is_an_error_of_one_line(
    project: Path, holdfast: Holdfast
) -> None:
    (project / "tools.py").write_text("import nothing_of_this_name\n")
    said = await holdfast("demo")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "nothing_of_this_name" in said.err
    assert not (project / ".holdfast").exists()
