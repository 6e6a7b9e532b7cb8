"""Where histories are kept: those of each release in a folder of its own, of which none is changed.

    histories/NAME.json.gz, NAME.golden.json        of what is not released yet
    histories/0.1.0/…, and SHA256SUMS               of what 0.1.0 wrote: runs of it may be under way

A history has a name: `approved`, or `0.1.0/approved`. A release takes along all that was recorded
since the one before it; what was recorded for that still stands for it.
"""

import hashlib
import re
from pathlib import Path

HISTORIES = Path(__file__).with_name("histories")
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
HISTORY, GOLDEN, SUMS = ".json.gz", ".golden.json", "SHA256SUMS"


def stored(shelf: Path = HISTORIES) -> dict[str, Path]:
    """The histories by name."""
    found = sorted(shelf.rglob(f"*{HISTORY}"))
    return {str(path.relative_to(shelf)).removesuffix(HISTORY): path for path in found}


def golden(name: str, shelf: Path = HISTORIES) -> Path:
    """Where it stands what a run decided whose history has this name."""
    return shelf / f"{name}{GOLDEN}"


def releases(changelog: str) -> list[str]:
    """The versions that were released, the newest first."""
    return re.findall(r"^## \[(\d[^]]*)\]", changelog, re.MULTILINE)


def release(version: str, shelf: Path = HISTORIES) -> None:
    """Put away what is not released yet, as what this version wrote."""
    folder = shelf / version
    folder.mkdir()
    for path in [*shelf.glob(f"*{HISTORY}"), *shelf.glob(f"*{GOLDEN}")]:
        path.rename(folder / path.name)
    (folder / SUMS).write_text(_sums(folder), encoding="utf-8")


def changed(shelf: Path = HISTORIES) -> list[str]:
    """The releases of which not everything is as it was put away."""
    folders = [path for path in sorted(shelf.iterdir()) if path.is_dir()]
    return [
        folder.name
        for folder in folders
        if (folder / SUMS).read_text(encoding="utf-8") != _sums(folder)
    ]


def _sums(folder: Path) -> str:
    """As `sha256sum` writes and checks them."""
    files = [path for path in sorted(folder.iterdir()) if path.name != SUMS]
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    return "".join(lines)
