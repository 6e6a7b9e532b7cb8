"""`holdfast init` and `holdfast demo`: a small project, and a demonstration of it.

`init` copies the files of `cli/template`. `demo` runs the project of the current folder: it starts
Temporal, a worker, the inbox and one run, and stops what it started. Its server keeps its data in
`.holdfast/demo.db`.
"""

import os
import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from holdfast.cli.parser import Commands
from holdfast.cli.prompts.answers import AnswerSource, Approver
from holdfast.client.errors import DONE, wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.text_safety import shell_command
from holdfast.schemas.internal.live_answer import VIEWERS_FOLDER

TEMPLATE: Final = Path(__file__).with_name("template")
AGENT: Final = "support"
REQUEST: Final = "Order 1042 arrived broken. Please refund it."
DATABASE: Final = Path(".holdfast/demo.db")


def add_parsers(commands: Commands) -> None:
    """Add `init` and `demo`."""
    text = "write a small project: a tool, an agent, a scripted model, a test"
    parser = commands.add_parser("init", help=text)
    folder = {"metavar": "DIR", "nargs": "?", "type": Path, "default": Path()}
    parser.add_argument("folder", **folder, help="default: this folder")
    parser.set_defaults(command=init)
    text = "run the project of this folder: a server, a worker, and a run that asks for approval"
    parser = commands.add_parser("demo", help=text, description=f"{text.capitalize()}.")
    parser.set_defaults(command=demo)


async def init(*, folder: Path) -> int:
    """Write a small project into a folder."""
    files = sorted(
        path.relative_to(TEMPLATE)
        for path in TEMPLATE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    todo = "name another folder: holdfast init DIR"
    existing = [file for file in files if (folder / file).is_symlink() or (folder / file).exists()]
    if existing:
        raise wrong_command(f"{folder / existing[0]} exists already", todo)
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
    from holdfast.hosting.options import DEV_HEARTBEAT_TIMEOUT, WorkerSettings, project_files
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
    settings = WorkerSettings(**files, heartbeat_timeout=DEV_HEARTBEAT_TIMEOUT, viewers=viewers)
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
