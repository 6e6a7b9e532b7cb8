"""Where histories are stored: those of each release in a folder of its own, which never changes.

    histories/NAME.json.gz, NAME.golden.json        recorded since the last release
    histories/0.1.0/…, and SHA256SUMS               of 0.1.0: its runs may still be open
    recorded_at.txt                                 the commit that recorded a history last

A history has a name: `approved`, or `0.1.0/approved`. A release takes all that was recorded since
the release before it; another history is still that of the older release.
"""

import hashlib
import re
import subprocess
from pathlib import Path

HISTORIES = Path(__file__).with_name("histories")
RECORDED_AT = Path(__file__).with_name("recorded_at.txt")
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
HISTORY, GOLDEN, SUMS = ".json.gz", ".golden.json", "SHA256SUMS"


def stored(shelf: Path = HISTORIES) -> dict[str, Path]:
    """Return the histories by name."""
    found = sorted(shelf.rglob(f"*{HISTORY}"))
    return {str(path.relative_to(shelf)).removesuffix(HISTORY): path for path in found}


def golden(name: str, shelf: Path = HISTORIES) -> Path:
    """Return the file of the decisions that a run of this history makes."""
    return shelf / f"{name}{GOLDEN}"


def releases(changelog: str) -> list[str]:
    """Return the versions whose histories are frozen, the newest first."""
    return re.findall(r"^## \[(\d[^]]*)\]", changelog, re.MULTILINE)


def dated_release(changelog: str) -> str:
    """Return the newest version with a date, if there is one: until then, its checks are run."""
    found = re.search(r"^## \[(\d[^]]*)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    return found[1] if found else ""


def release(version: str, shelf: Path = HISTORIES) -> None:
    """Move the histories that were recorded since the last release into the folder of this one."""
    folder = shelf / version
    folder.mkdir()
    for path in [*shelf.glob(f"*{HISTORY}"), *shelf.glob(f"*{GOLDEN}")]:
        path.rename(folder / path.name)
    (folder / SUMS).write_text(_sums(folder), encoding="utf-8")


def changed(shelf: Path = HISTORIES) -> list[str]:
    """Return the releases whose files have changed since."""
    folders = [path for path in sorted(shelf.iterdir()) if path.is_dir()]
    return [
        folder.name
        for folder in folders
        if (folder / SUMS).read_text(encoding="utf-8") != _sums(folder)
    ]


def compatible_since() -> str:
    """Return the commit of the newest release, or that of `recorded_at.txt` before the first."""
    versions = releases(CHANGELOG.read_text(encoding="utf-8"))
    return last_commit(HISTORIES / versions[0]) if versions else RECORDED_AT.read_text().strip()


def last_commit(path: Path) -> str:
    """Return the id of the newest commit that changed files below a path."""
    git = ("git", "-C", str(CHANGELOG.parent), "log", "-1", "--format=%H", "--", str(path))
    return subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()


def _sums(folder: Path) -> str:
    """Return the digests as `sha256sum` writes and checks them."""
    files = [path for path in sorted(folder.iterdir()) if path.name != SUMS]
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    return "".join(lines)
