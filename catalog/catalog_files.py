"""The files of a catalog folder: which of them are read, and how they look from outside.

Loading reads exactly the files that watching looks at: both ask here.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.runtime.settings_files.signature import Signature, _stamp

TOOLS, AGENTS = "tools", "agents"
TOOL_SUFFIXES = (".json", ".yaml", ".yml")
AGENT_SUFFIXES = (*TOOL_SUFFIXES, ".md")
MAX_FILES = 10_000


class UnlistedError(Exception):
    """A folder that is there, but whose files cannot be listed."""

    def __init__(self, reason: str, mend: str) -> None:
        super().__init__(reason, mend)
        self.reason, self.mend = reason, mend


def listed(folder: Path, suffixes: tuple[str, ...]) -> Signature | None:
    """The files in the folder and in those below it, in order; None if there is no such folder.

    Hidden ones are left out, and so is what is no file. What a link leads to is looked at; one
    that leads nowhere is a file that cannot be read.

    Raises:
        UnlistedError: it holds too many files, or may not be read.
    """
    seen = _seen(folder, suffixes)
    if seen is None:
        return None
    return {path: seen[path] for path in sorted(seen) if seen[path] is not None}


def folder_signature(folder: Path | None) -> Signature:
    """How a catalog folder looks now; of no folder, nothing. Raises no `OSError`."""
    if folder is None:
        return {}
    found = _folders(folder)
    for name, suffixes in ((TOOLS, TOOL_SUFFIXES), (AGENTS, AGENT_SUFFIXES)):
        try:
            found.update(_seen(folder / name, suffixes) or {})
        except UnlistedError as error:
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
        raise UnlistedError(reason, "make it a readable folder") from error
    if len(entries) > MAX_FILES:
        raise UnlistedError("it holds too many files", f"use at most {MAX_FILES}")
    return {entry.path: _stamp(entry) if _is_read(entry, suffixes) else None for entry in entries}


def _folders(folder: Path) -> Signature:
    """The names of a catalog's folders: one that is not read may be meant to be."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.path: None
                for entry in islice(entries, MAX_FILES)
                # Python makes this one beside a module of tools when it is imported.
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
