"""The files of a catalog folder: their list and their signatures.

Loading and watching both use this module, so that they read the same files.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.catalog.mcp_tools import MCP_LOCK
from holdfast.catalog.policies.budgets import BUDGETS
from holdfast.catalog.policies.limits import LIMITS
from holdfast.runtime.settings_files.file_problems import FileProblem, UnreadableError
from holdfast.runtime.settings_files.source import Signature, file_stamp, path_suggestion
from holdfast.schemas.phrases import closest_names

_NEARLY = 0.85
# Files with lists of records, which are no mistake. Files that editors put beside another do not
# end in these words.
_OTHERS = (".jsonl",)
_WORD = re.compile(r"\.[a-z0-9]+\Z")
_SLIPS = {".markdown": ".md"}

TOOLS, AGENTS, SCHEDULES = "tools", "agents", "schedules"
_TOOL_SUFFIXES = (".json", ".yaml", ".yml")
# The file that a name nearly is.
_MEANT = {"limit": LIMITS, "limits": LIMITS, "budget": BUDGETS, "budgets": BUDGETS}
_SUFFIXES = {
    TOOLS: _TOOL_SUFFIXES,
    AGENTS: (*_TOOL_SUFFIXES, ".md"),
    SCHEDULES: _TOOL_SUFFIXES,
}
MAX_FILES = 10_000


def list_files(catalog: Path, kind: str) -> list[Path] | None:
    """List the files of a kind, such as `TOOLS`, in order; None without a folder of them.

    Hidden files and everything that is not a file are left out. A link is followed; a link without
    a target is a file that cannot be read.

    Raises:
        UnreadableError: the folder holds too many files, or is not readable.
    """
    seen = _seen(catalog / kind, _SUFFIXES[kind])
    if seen is None:
        return None
    return [Path(path) for path in sorted(seen) if seen[path] is not None]


def folder_signature(folder: Path | None) -> Signature:
    """Return the signature of a catalog folder's files; empty without a folder."""
    if folder is None:
        return {}
    found: Signature = {}
    try:
        with os.scandir(folder) as entries:
            # The names of folders: an unknown one may be a misspelling. Python creates
            # `__pycache__` beside an imported module of tools.
            found = {
                entry.path: None
                for entry in islice(entries, MAX_FILES)
                if entry.is_dir() and entry.name != "__pycache__"
            }
    except OSError as error:
        found = {str(folder): error.strerror or str(error)}
    for name in (LIMITS, BUDGETS, MCP_LOCK):
        if os.path.lexists(folder / name):
            found[str(folder / name)] = file_stamp(folder / name)
    for name, suffixes in _SUFFIXES.items():
        try:
            found.update(_seen(folder / name, suffixes) or {})
        except UnreadableError as error:
            found[str(folder / name)] = error.reason
    return found


def _seen(folder: Path, suffixes: tuple[str, ...]) -> Signature | None:
    try:
        entries = list(islice(_entries(folder), MAX_FILES + 1))
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        if is_missing and Path(error.filename) == folder:
            return None
        reason = f"it cannot be listed: {error.strerror or error}"
        raise UnreadableError(None, reason, "make it a readable folder") from error
    if len(entries) > MAX_FILES:
        raise UnreadableError(None, "it holds too many files", f"use at most {MAX_FILES}")
    return {
        entry.path: file_stamp(entry) if entry.name.lower().endswith(suffixes) else None
        for entry in entries
    }


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def unread_file_problems(folder: Path) -> Iterator[FileProblem]:
    """Yield a problem for each file that is not read because its name is slightly wrong."""
    try:
        if folder.is_dir():
            names = sorted(each.name for each in folder.iterdir() if each.is_dir())
            if folder.resolve().name in _SUFFIXES and _SUFFIXES.keys().isdisjoint(names):
                fix = f"name the folder around it: `{folder.parent}`"
                yield FileProblem(str(folder), None, "this folder is inside a catalog", fix)
            for name in [name for name in _SUFFIXES if name not in names]:
                for close in closest_names(name, set(names) - _SUFFIXES.keys(), _NEARLY):
                    reason = "a folder of this name is not read"
                    yield FileProblem(str(folder / close), None, reason, f"call it `{name}`")
            for path in sorted(folder.iterdir()):
                meant = _MEANT.get(path.stem.lower(), path.name)
                if meant != path.name and path.suffix.lower() in _TOOL_SUFFIXES:
                    reason = "a file of this name is not read"
                    yield FileProblem(str(path), None, reason, f"call it `{meant}`")
            for name, suffixes in _SUFFIXES.items():
                yield from _misnamed_files(folder / name, suffixes)
        elif folder.exists():
            yield FileProblem(str(folder), None, "this is a file", "name a folder with `--catalog`")
        else:
            fix = path_suggestion(folder)
            yield FileProblem(str(folder), None, "there is no such folder", fix)
    except OSError as error:
        reason = f"it cannot be read: {error.strerror or error}"
        yield FileProblem(str(folder), None, reason, "make it a readable folder")


def _misnamed_files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[FileProblem]:
    try:
        seen = _seen(folder, suffixes) or {}
    except UnreadableError:
        return  # reported by the reader of its files
    for path in map(Path, sorted(seen)):
        suffix, stem = path.suffix.lower(), Path(path.stem)
        # The name under which the file would be read.
        meant = None
        if suffix in (".txt", ".text") and stem.suffix.lower() in suffixes:
            meant = stem.name
        elif suffix not in suffixes and suffix not in _OTHERS and _WORD.match(suffix):
            slip = _SLIPS.get(suffix)
            near = [slip] if slip in suffixes else closest_names(suffix, suffixes, _NEARLY)
            meant = f"{stem}{near[0]}" if near else None
        if path.is_dir() and path.is_symlink():
            fix = "put the folder itself here, or link its files"
            yield FileProblem(str(path), None, "a link to a folder is not followed", fix)
        elif suffix in suffixes and path.is_dir():
            yield FileProblem(str(path), None, "this is a folder", f"call it `{path.stem}`")
        elif meant is not None and path.is_file():
            reason = f"a file that ends in `{''.join(path.suffixes[-2:])}` is not read"
            yield FileProblem(str(path), None, reason, f"call it `{meant}`")
