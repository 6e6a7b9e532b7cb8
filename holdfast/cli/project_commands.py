"""`holdfast init`, `demo`, `check` and `export`: commands on the files of a project.

`init` copies the files of `cli/template`. `demo` runs the project of the current folder: it starts
Temporal, a worker, the inbox and one run, and stops what it started. Its server keeps its data in
`.holdfast/demo.db`.

`check` runs the worker in a process of its own: it imports the modules of others, whose effects
must not reach this command. `export` imports them here. The file of an exported tool names the
activity, which stays in its module: with `--task-queue`, workers that lack it find it on that
queue.
"""

import asyncio
import json
import os
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from holdfast.cli.parser import TIME, Parsers, add_worker_options
from holdfast.cli.prompts.answers import AnswerSource, Approver
from holdfast.client.errors import DONE, WRONG_COMMAND, explain_settings, wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.text_safety import one_line, shell_command
from holdfast.schemas.base import format_duration
from holdfast.schemas.internal.live_answer import VIEWERS_FOLDER
from holdfast.schemas.phrases import TOOL_NAME_PATTERN

TEMPLATE: Final = Path(__file__).with_name("template")
AGENT: Final = "support"
REQUEST: Final = "Order 1042 arrived broken. Please refund it."
DATABASE: Final = Path(".holdfast/demo.db")

WORKER: Final = "holdfast.hosting.worker"
# The worker stops by itself when its modules take too long, unless one of them blocks it entirely.
PATIENCE_SECONDS = 15
_NAME_CHARS = 200


def add_options(parsers: Parsers) -> None:
    """Add the options of `init` and `demo`."""
    folder: dict[str, Any] = {"metavar": "DIR", "nargs": "?", "type": Path, "default": Path()}
    parsers["init"].add_argument("folder", **folder, help="default: this folder")
    parsers["init"].set_defaults(command=init)
    parsers["demo"].set_defaults(command=demo)


async def init(*, folder: Path) -> int:
    """Write a small project into a folder."""
    files = sorted(
        path.relative_to(TEMPLATE)
        for path in filter(Path.is_file, TEMPLATE.rglob("*"))
        if "__pycache__" not in path.parts
    )
    todo = "name another folder: holdfast init DIR"
    if existing := [*filter(os.path.lexists, [folder / file for file in files])]:
        raise wrong_command(f"{existing[0]} exists already", todo)
    try:
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TEMPLATE / file, folder / file)
    except OSError as error:
        wrong = f"{error.filename} cannot be written: {error.strerror}"
        raise wrong_command(wrong, todo) from error
    print("\n".join(str(folder / file) for file in files))
    change_folder = "" if folder == Path() else f"{shell_command('cd', str(folder))} && "
    print(f"\nNext: {change_folder}holdfast demo")
    return DONE


async def demo() -> int:
    """Run the project of the current folder; return the exit code of its run."""
    # Imported here: the other commands need no worker and no HTTP server, and start sooner.
    from holdfast.cli.screens.follow import follow, screen_for
    from holdfast.client.stream.local_viewer import local_viewer
    from holdfast.hosting import temporal
    from holdfast.hosting.dev_server import HOST, DevServer, free_port, run_dev_server
    from holdfast.hosting.options import DEV_TIMEOUTS, WorkerSettings, project_files
    from holdfast.hosting.plugin import HoldfastPlugin
    from holdfast.hosting.resources import load_resources
    from holdfast.hosting.worker import build_worker
    from holdfast.runtime.secrets import Secrets, environment_secrets
    from holdfast.web.app import local_inbox

    files = project_files(Path())
    if files is None:
        wrong = "this folder has no agents/, tools.py and endpoints.yaml"
        raise wrong_command(wrong, "write them first: holdfast init DIR, then cd DIR")
    viewers = [str(DATABASE.parent / VIEWERS_FOLDER)]
    settings = WorkerSettings(**files, **DEV_TIMEOUTS, viewers=viewers)
    resources = load_resources(settings, Secrets(environment_secrets(os.environ)))
    if AGENT not in resources.current_catalog.catalog.agents:
        raise wrong_command(f"there is no agent `{AGENT}` in agents/", "see holdfast run --help")
    server = DevServer(DATABASE, free_port(DevServer.port), free_port(DevServer.ui_port))
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(run_dev_server(server))
        plugin = HoldfastPlugin.of(settings, resources)
        client = await temporal.connect(
            {"target_host": address, "namespace": server.namespace}, [plugin]
        )
        await stack.enter_async_context(build_worker(client, settings))
        ui = f"http://{HOST}:{server.ui_port}"
        agents, user = HoldfastClient(client, settings.task_queue), Approver().name or "you"
        await stack.enter_async_context(local_viewer(agents.live))
        inbox = await stack.enter_async_context(local_inbox(agents, ui, user))
        run = await agents.start(AGENT, REQUEST)
        print(f"inbox, to decide in a browser: {inbox}")
        print(f"Temporal UI: {ui}/namespaces/{server.namespace}/workflows/{run.id}")
        if server.port != DevServer.port:
            print(f"commands in another terminal need: export TEMPORAL_ADDRESS={address}")
        print(f"run {run.id}", flush=True)
        answers = AnswerSource(sys.stdin.fileno(), Approver())
        code = await follow(run, out=screen_for(sys.stdout, run.id), ask=answers)
    again = shell_command("holdfast", "worker", "--dev", "--dev-db", str(DATABASE))
    print(f"The server has stopped. To start it again, with this run: {again}")
    return code


def add_checking(parsers: Parsers) -> None:
    """Add the options of `check` and `export`."""
    add_worker_options(
        parsers["check"],
        *("catalog", "tools", "endpoints", "keys", "encryption", "permits", "notifiers"),
        *("task-queue", "knowledge-url", "principal-tokens", "composed", "provider"),
        *("lost-replies", "json"),
    )
    add = parsers["check"].add_argument
    add("--servers", metavar="FILE", help="the MCP servers, which are connected to (servers.yaml)")
    text = "the time limit of the check (default: %(default)s)"
    add("--timeout", **TIME, default="1m", help=text)
    parsers["check"].set_defaults(command=check)
    add = parsers["export"].add_argument
    add("folder", metavar="DIR", type=Path, help="the catalog to write: its agents/ and tools/")
    text = "a Python module of agents and tools; repeatable"
    add("--tools", metavar="MODULE", action="append", required=True, help=text)
    add("--task-queue", metavar="NAME", help="the task queue of the worker that runs the tools")
    parsers["export"].set_defaults(command=export)


async def check(
    *, tools: Sequence[str] | None, timeout: timedelta, **given: str | Sequence[str] | bool | None
) -> int:
    """Check what the options name, or else the worker's own environment.

    `given` has the worker's other options: a text, a list of texts, a switch, or None.
    """
    arguments = []
    for name, value in {"tools": tools, **given}.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            arguments += [option] * value
        else:
            texts = [value] if isinstance(value, str) else value or []
            arguments += [f"{option}={text}" for text in texts]
    limit_seconds = timeout.total_seconds() + PATIENCE_SECONDS
    process = await asyncio.create_subprocess_exec(
        # `-P`: as for `holdfast worker`, this folder is not the first that is searched.
        *(sys.executable, "-P", "-m", WORKER),
        *("--check", f"--timeout={format_duration(timeout)}"),
        *arguments,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    modules = " or ".join(f"`{module}`" for module in tools or ()) or "a module of `--tools`"
    todo = f"see what {modules} does while it is imported"
    try:
        async with asyncio.timeout(limit_seconds):
            out, err = await process.communicate()
    except TimeoutError:
        wrong = f"the check was cut short: it did not end within {limit_seconds:g} s"
        raise wrong_command(wrong, todo) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    sys.stdout.write(out.decode(errors="replace"))
    sys.stderr.write(err.decode(errors="replace"))
    if process.returncode not in (DONE, WRONG_COMMAND) or not out + err:
        wrong = f"the check was cut short: it ended with code {process.returncode}"
        raise wrong_command(wrong, todo)
    return process.returncode


async def export(*, folder: Path, tools: Sequence[str], task_queue: str | None) -> int:
    """Write the files into a folder; those of the same names are replaced."""
    # Imported here: the other commands read no modules, and start sooner.
    from holdfast.catalog.advice import schema_advice
    from holdfast.catalog.python_module import PythonDefinitions, read_python
    from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition

    found = PythonDefinitions()
    with explain_settings("--tools"):
        for module in tools:
            found += read_python(module, activity_definition)
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
