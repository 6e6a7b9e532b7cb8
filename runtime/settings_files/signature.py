"""What a file looks like from outside: whether it has to be read again."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, int, int] | str | None
"""A file's size in bytes, and when it and its inode were changed, in ns; or why it cannot be seen.
None is what is not read: of that, only the name can matter.

The inode's time tells a file put in another's place with an equal size and time: builds that can be
repeated give every file the same time.
"""
Signature = dict[str, Stamp]
"""How files look from outside, by path. Two that are equal are of files that say the same."""


def file_signature(files: Iterable[str]) -> Signature:
    """How these files look now. Raises no `OSError`."""
    return {file: _stamp(Path(file)) for file in files}


def _stamp(file: os.DirEntry[str] | Path) -> Stamp:
    try:
        seen = file.stat()
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISREG(seen.st_mode):
        return None
    return seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
