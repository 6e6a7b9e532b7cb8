"""Importing the Python modules that a user names, and telling where one fails."""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from activities.catalog.faults import Problem


class ImportFailedError(Exception):
    """A module that cannot be imported, or an activity in it that cannot be read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def import_module(name: str) -> ModuleType:
    """Import a module by dotted name, or by the path of its `.py` file.

    Raises:
        ImportFailedError: it does not exist, or raises; told by the line in it that does.
    """
    path = Path(name)
    by_path = path.suffix == ".py"
    _search(path.resolve().parent if by_path else Path.cwd())
    try:
        return _import_file(path) if by_path else importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ImportFailedError(_import_problem(name, error)) from error


def _search(folder: Path) -> None:
    """What stands beside a module can be imported by it; it shadows nothing of the worker."""
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


def _import_problem(name: str, error: BaseException) -> Problem:
    reason = f"it cannot be imported: {type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return Problem(error.filename, error.lineno, reason, "mend it there")
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return Problem(name, None, "there is no such module", "check the name, and where it is run")
    if isinstance(error, FileNotFoundError) and not error.errno:
        return Problem(name, None, "there is no such file", "check the path")
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [
        frame
        for frame in frames
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    if not theirs:
        return Problem(name, None, reason, "mend the module")
    return Problem(theirs[0].filename, theirs[0].lineno, reason, "mend it there")
