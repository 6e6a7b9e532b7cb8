"""Tests that are text files: a file states a rule, what is done, and what comes of it.

A runner does what a file states, and compares the text that this gives now with the file. Started
as a module, it writes all of its files again, or those that `-k` names: read the difference.
"""

import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

_WRITES = "HOLDFAST_TESTS_WRITE_FILES"


def text_files(test_module: str, suffix: str) -> dict[str, Path]:
    """Return the files with a suffix in the folder of a test module and below, by their names."""
    folder = Path(test_module).parent
    found = sorted(folder.rglob(f"*{suffix}"))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def compare(path: Path, text: str) -> None:
    """Fail with the difference if a file has another text; if files are written again, write it."""
    if _WRITES in os.environ:
        path.write_text(text, encoding="utf-8")
        return
    written = path.read_text(encoding="utf-8")
    if text != written:
        lines = difflib.unified_diff(
            written.splitlines(), text.splitlines(), "as written", "as it is now", n=10, lineterm=""
        )
        pytest.fail("\n".join([str(path), *lines]), pytrace=False)


def write_again(test_module: str) -> None:
    """Write the files of a test module again; arguments of the command go to pytest."""
    command = [sys.executable, "-m", "pytest", test_module, "-q", "-p", "no:cacheprovider"]
    # In a process of its own: pytest rewrites plugins that this one has imported.
    written = subprocess.run([*command, *sys.argv[1:]], env={**os.environ, _WRITES: "1"})
    sys.exit(written.returncode)
