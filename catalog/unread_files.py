"""Files and folders of a catalog that nobody would read, for a slip in their names.

What has another kind of name altogether is left alone: a catalog may hold what it likes.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.catalog.catalog_files import AGENT_SUFFIXES, AGENTS, MAX_FILES, TOOL_SUFFIXES, TOOLS
from holdfast.runtime.settings_files.file_problems import FileProblem
from holdfast.runtime.settings_files.source import path_mend
from holdfast.schemas.phrases import closest

_NEARLY = 0.85
# Lists of records, which are no slip. What editors put beside a file ends in no such word.
_OTHERS = (".jsonl",)
_WORD = re.compile(r"\.[a-z0-9]+\Z")
_SLIPS = {".markdown": ".md"}


def mislaid(folder: Path) -> Iterator[FileProblem]:
    """What a catalog folder holds that is not read, and was meant to be."""
    try:
        yield from _mislaid(folder)
    except OSError as error:
        reason = f"it cannot be read: {error.strerror or error}"
        yield FileProblem(str(folder), None, reason, "make it a readable folder")


def _mislaid(folder: Path) -> Iterator[FileProblem]:
    if not folder.is_dir():
        yield _no_folder(folder)
        return
    if folder.resolve().name in (TOOLS, AGENTS) and not any(map(Path.is_dir, _rooms(folder))):
        mend = f"name the folder around it: `{folder.parent}`"
        yield FileProblem(str(folder), None, "this is the inside of a catalog", mend)
    names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    for name in (TOOLS, AGENTS):
        for close in closest(name, set(names) - {TOOLS, AGENTS}, _NEARLY):
            if name not in names:
                reason = "a folder of this name is not read"
                yield FileProblem(str(folder / close), None, reason, f"call it `{name}`")
    for name, suffixes in ((TOOLS, TOOL_SUFFIXES), (AGENTS, AGENT_SUFFIXES)):
        yield from _in(folder / name, suffixes)


def _rooms(folder: Path) -> tuple[Path, Path]:
    return folder / TOOLS, folder / AGENTS


def _no_folder(folder: Path) -> FileProblem:
    if folder.exists():
        return FileProblem(str(folder), None, "this is a file", "name a folder with `--catalog`")
    return FileProblem(str(folder), None, "there is no such folder", path_mend(folder))


def _in(folder: Path, suffixes: tuple[str, ...]) -> Iterator[FileProblem]:
    for path in sorted(islice(_paths(folder), MAX_FILES)):
        suffix = path.suffix.lower()
        if path.is_dir() and path.is_symlink():
            mend = "put the folder itself here, or link its files"
            yield FileProblem(str(path), None, "a link to a folder is not followed", mend)
        elif suffix in suffixes and path.is_dir():
            yield FileProblem(str(path), None, "this is a folder", f"call it `{path.stem}`")
        elif path.is_file() and (meant := _meant(path, suffixes)):
            reason = f"a file that ends in `{''.join(path.suffixes[-2:])}` is not read"
            yield FileProblem(str(path), None, reason, f"call it `{meant}`")


def _paths(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in (*folders, *files) if not name.startswith("."))


def _meant(path: Path, suffixes: tuple[str, ...]) -> str | None:
    """The name under which the file would be read; None where that is not what it is for."""
    suffix, stem = path.suffix.lower(), Path(path.stem)
    if suffix in (".txt", ".text") and stem.suffix.lower() in suffixes:
        return stem.name
    if suffix in suffixes or suffix in _OTHERS or not _WORD.match(suffix):
        return None
    slip = _SLIPS.get(suffix)
    near = [slip] if slip in suffixes else closest(suffix, suffixes, _NEARLY)
    return f"{stem}{near[0]}" if near else None
