"""`holdfast export`: the files of the agents and tools that Python modules define.

The modules are imported here. A tool's file names the activity, which stays in its module: with
`--task-queue`, workers that lack it find it on that queue.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.parser import Commands
from holdfast.client.errors import DONE, wrong_command, wrong_settings
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.phrases import TOOL_NAME_PATTERN

_NAME_CHARS = 200


def add_parser(commands: Commands) -> None:
    """Add `export`."""
    text = "write the files of the agents and tools of Python modules"
    parser = commands.add_parser("export", help=text, description=f"{text.capitalize()}.")
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, help="the catalog to write: its agents/ and tools/")
    text = "a Python module of agents and tools; repeatable"
    add("--tools", metavar="MODULE", action="append", required=True, help=text)
    add("--task-queue", metavar="NAME", help="the task queue of the worker that runs the tools")
    parser.set_defaults(command=export)


async def export(*, folder: Path, tools: Sequence[str], task_queue: str | None) -> int:
    """Write the files into a folder; those of the same names are replaced."""
    # Imported here: the other commands read no modules, and start sooner.
    from holdfast.catalog.advice import schema_advice
    from holdfast.catalog.python_module import PythonDefinitions, read_python
    from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition

    found = PythonDefinitions()
    try:
        for module in tools:
            found += read_python(module, activity_definition)
    except LoadError as error:
        raise wrong_settings("--tools", error.problems) from None
    forms: dict[Path, dict[str, Any]] = {
        _file("agents", each.value["name"]): each.value for each in found.agents
    }
    for each in found.activities:
        if each.is_tool:
            queue = {} if task_queue is None else {"taskQueue": task_queue}
            binding = {**each.source.value["_activity"], **queue}
            forms[_file("tools", each.name)] = {**each.source.value, "_activity": binding}
    written = [(each, False) for each in found.agents]
    written += [(each.source, True) for each in found.activities if each.is_tool]
    for source, is_tool in written:
        for problem in source.problems(schema_advice(source.value, is_tool=is_tool)):
            print(problem, file=sys.stderr)
    try:
        for path, form in forms.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(form, indent=2, ensure_ascii=False)
            (folder / path).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        wrong = f"{error.filename} cannot be written: {error.strerror}"
        raise wrong_command(wrong, "name another folder: holdfast export DIR") from error
    print("\n".join(str(folder / path) for path in forms))
    return DONE


def _file(folder: str, name: str) -> Path:
    """Return the file of an agent or a tool; an activity may have any name."""
    if not re.fullmatch(TOOL_NAME_PATTERN, name):
        wrong = f"`{one_line(name, _NAME_CHARS)}` is no name of a file in {folder}/"
        raise wrong_command(wrong, "rename it: letters, digits, `_`, `.` and `-`")
    return Path(folder, f"{name}.json")
