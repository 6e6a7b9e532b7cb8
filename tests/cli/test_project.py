"""`holdfast init` and `holdfast demo`: a new project can be checked, tested and run as printed."""

import json
import re
import subprocess
import sys
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
