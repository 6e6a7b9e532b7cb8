"""Import the Python modules that a user names, and report the line at which one fails."""

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import timedelta
from itertools import dropwhile
from pathlib import Path
from types import ModuleType

from holdfast.runtime.settings_files.file_problems import FileProblem
from holdfast.runtime.settings_files.source import path_suggestion
from holdfast.schemas.base import format_duration

MAX_MESSAGE_CHARS = 300


class ImportFailedError(Exception):
    """A module that cannot be imported, or an activity in it that cannot be read."""

    def __init__(self, problem: FileProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


def import_module(name: str) -> ModuleType:
    """Import a module by dotted name, or by the path of its `.py` file.

    Raises:
        ImportFailedError: the module does not exist, or raises; the error has the line in the
            module.
    """
    path = Path(name)
    by_path = path.suffix == ".py"
    if not by_path and not _DOTTED.match(name):
        fix = "write its dotted name, or the path of its `.py` file"
        raise ImportFailedError(FileProblem(name or '""', None, "this is no Python module", fix))
    _search(path.resolve().parent if by_path else Path.cwd())
    try:
        return _import_file(path) if by_path else importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ImportFailedError(_import_problem(name, error)) from error


def _search(folder: Path) -> None:
    """Append the folder to `sys.path`, where it shadows no module of the worker."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    full = str(path.resolve())
    name = f"{path.stem}_{hashlib.sha256(full.encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # the name ends in `.py`
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_problem(name: str, error: BaseException) -> FileProblem:
    reason = f"it cannot be imported: {type(error).__name__}: {_message(error)}"
    if isinstance(error, SyntaxError) and error.filename:
        return FileProblem(error.filename, error.lineno, reason, "fix it there")
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return FileProblem(
            name, None, "there is no such module", "check the name, and where it is run"
        )
    if isinstance(error, FileNotFoundError) and not error.errno:
        return FileProblem(name, None, "there is no such file", path_suggestion(Path(name)))
    theirs = user_frame(traceback.extract_tb(error.__traceback__))
    if theirs is None:
        return FileProblem(name, None, reason, "fix the module")
    return FileProblem(theirs.filename, theirs.lineno, reason, "fix it there")


def stuck_import_problem(
    stack: Iterable[traceback.FrameSummary], timeout: timedelta
) -> FileProblem:
    """Return the problem of an import that exceeds its time limit, with its current line."""
    theirs = user_frame(stack)
    reason = f"loading has not ended in {format_duration(timeout)}"
    if theirs is None:
        return FileProblem("holdfast", None, reason, "give it more time with `--timeout`")
    fix = "make requests and wait in activities, not while the module is imported"
    return FileProblem(theirs.filename, theirs.lineno, f"{reason}: it is at this line", fix)


def user_frame(frames: Iterable[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """Return the frame of the user's module: the first after our own."""
    imported = dropwhile(lambda frame: frame.filename != __file__, frames)
    theirs = (
        frame
        for frame in imported
        if "importlib" not in frame.filename and frame.filename != __file__
    )
    return next(theirs, None)


def _message(error: BaseException) -> str:
    """Return one line of the error, without the place, which is reported separately."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = "it has no message"
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]
