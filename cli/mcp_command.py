"""`holdfast mcp lock`: write down which tools of MCP servers new runs may have."""

import os

from holdfast.cli.parser import Commands
from holdfast.client.errors import DONE, wrong_command
from holdfast.hosting.process_exit import StartError
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.text_safety import one_line

_LINE_CHARS = 1_000


def add_parser(commands: Commands) -> None:
    """Add `mcp`, with `lock`."""
    parser = commands.add_parser("mcp", help="lock the tools of MCP servers: `mcp lock`")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    text = "write the digests of the servers' tools into the catalog: new runs have these alone"
    parser = actions.add_parser("lock", help=text, description=f"{text.capitalize()}.")
    add = parser.add_argument
    add("--catalog", metavar="DIR", help="the folder that mcp.lock.json is written to")
    text = "the MCP servers, which are connected to (servers.yaml)"
    add("--servers", metavar="FILE", help=text)
    parser.set_defaults(command=lock, parser=parser)


async def lock(*, catalog: str | None, servers: str | None) -> int:
    """Print what has changed since the tools were locked, and lock them as they are listed now."""
    # Imported here: the other commands need no worker, and start sooner.
    from holdfast.activities.mcp.server_settings import load_servers
    from holdfast.catalog.mcp_tools import MCP_LOCK, Listing, load_lock, lock_changes, lock_text
    from holdfast.hosting.options import read_options
    from holdfast.hosting.resources import mcp_servers

    given = {"--catalog": catalog, "--servers": servers}
    settings = read_options([f"{name}={value}" for name, value in given.items() if value]).settings
    if settings.catalog is None or settings.servers is None:
        todo = "write `holdfast mcp lock --catalog DIR --servers FILE`"
        raise wrong_command("a lock needs a catalog and servers", todo)
    secrets = Secrets(environment_secrets(os.environ))
    try:
        before, loaded = load_lock(settings.catalog) or {}, load_servers(settings.servers)
    except LoadError as error:
        raise StartError([str(problem) for problem in error.problems]) from None
    listing: Listing = {}
    if (found := mcp_servers(loaded, secrets)) is not None:
        async with found.running():
            listing = await found.list_tools(list(loaded))
    if failed := [each for each in listing.values() if isinstance(each, str)]:
        raise StartError([f"holdfast: {each}; nothing was locked" for each in failed])
    listed = {name: each for name, each in listing.items() if not isinstance(each, str)}
    for line in lock_changes(before, listed):
        print(one_line(secrets.clean_for_operator(line), _LINE_CHARS))
    file, count = settings.catalog / MCP_LOCK, sum(map(len, listed.values()))
    try:
        file.write_text(lock_text(listed), encoding="utf-8")
    except OSError as error:
        wrong = f"{file} cannot be written: {error.strerror}"
        raise wrong_command(wrong, "name a folder that can be written to") from None
    print(f"{file}: {count} tool{'' if count == 1 else 's'} locked")
    return DONE
