"""The files of a catalog folder: their list and their signatures.

Loading and watching both use this module, so that they read the same files.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.runtime.settings_files.file_problems import FileProblem
from holdfast.runtime.settings_files.source import Signature, file_stamp, path_suggestion
from holdfast.schemas.phrases import closest_names
from holdfast.validation.problems import FixableError

_NEARLY = 0.85
# Files with lists of records, which are no mistake. Files that editors put beside another do not
# end in these words.
_OTHERS = (".jsonl",)
_WORD = re.compile(r"\.[a-z0-9]+\Z")
_SLIPS = {".markdown": ".md"}

TOOLS, AGENTS = "tools", "agents"
TOOL_SUFFIXES = (".json", ".yaml", ".yml")
AGENT_SUFFIXES = (*TOOL_SUFFIXES, ".md")
MAX_FILES = 10_000


class UnlistableFolderError(FixableError):
    """An existing folder whose files cannot be listed."""


def list_files(folder: Path, suffixes: tuple[str, ...]) -> Signature | None:
    """List the files in a folder and below it in order, or return None without such a folder.

    Hidden files and everything that is not a file are left out. A link is followed; a link without
    a target is a file that cannot be read.

    Raises:
        UnlistableFolderError: the folder holds too many files, or is not readable.
    """
    seen = _seen(folder, suffixes)
    if seen is None:
        return None
    return {path: seen[path] for path in sorted(seen) if seen[path] is not None}


def folder_signature(folder: Path | None) -> Signature:
    """Return the signature of a catalog folder's files; empty without a folder."""
    if folder is None:
        return {}
    found = _folders(folder)
    for name, suffixes in ((TOOLS, TOOL_SUFFIXES), (AGENTS, AGENT_SUFFIXES)):
        try:
            found.update(_seen(folder / name, suffixes) or {})
        except UnlistableFolderError as error:
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
        raise UnlistableFolderError(reason, "make it a readable folder") from error
    if len(entries) > MAX_FILES:
        raise UnlistableFolderError("it holds too many files", f"use at most {MAX_FILES}")
    return {
        entry.path: file_stamp(entry) if _is_read(entry, suffixes) else None for entry in entries
    }


def _folders(folder: Path) -> Signature:
    """Return the names of a catalog's folders: an unknown folder may be a misspelling."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.path: None
                for entry in islice(entries, MAX_FILES)
                # Python creates this one beside an imported module of tools.
                if entry.is_dir() and entry.name != "__pycache__"
            }
    except OSError as error:
        return {str(folder): error.strerror or str(error)}


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def _is_read(entry: os.DirEntry[str], suffixes: tuple[str, ...]) -> bool:
    return entry.name.lower().endswith(suffixes)


def unread_file_problems(folder: Path) -> Iterator[FileProblem]:
    """Yield a problem for each file that is not read because its name is slightly wrong."""
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
        fix = f"name the folder around it: `{folder.parent}`"
        yield FileProblem(str(folder), None, "this is the inside of a catalog", fix)
    names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    for name in (TOOLS, AGENTS):
        for close in closest_names(name, set(names) - {TOOLS, AGENTS}, _NEARLY):
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
    return FileProblem(str(folder), None, "there is no such folder", path_suggestion(folder))


def _in(folder: Path, suffixes: tuple[str, ...]) -> Iterator[FileProblem]:
    for path in sorted(islice(_paths(folder), MAX_FILES)):
        suffix = path.suffix.lower()
        if path.is_dir() and path.is_symlink():
            fix = "put the folder itself here, or link its files"
            yield FileProblem(str(path), None, "a link to a folder is not followed", fix)
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
    """Return the name under which the file would be read, or None if it is another kind of file."""
    suffix, stem = path.suffix.lower(), Path(path.stem)
    if suffix in (".txt", ".text") and stem.suffix.lower() in suffixes:
        return stem.name
    if suffix in suffixes or suffix in _OTHERS or not _WORD.match(suffix):
        return None
    slip = _SLIPS.get(suffix)
    near = [slip] if slip in suffixes else closest_names(suffix, suffixes, _NEARLY)
    return f"{stem}{near[0]}" if near else None
