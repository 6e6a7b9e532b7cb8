"""`holdfast inbox`, `holdfast mcp` and `holdfast codec`: commands that serve HTTP or MCP.

Each listens on this machine, for the user who starts it; for other machines, it is behind a proxy
with https. `holdfast inbox` has the pages where people decide on pending approvals. `holdfast mcp`
offers agents and tools to MCP clients, by standard input and output or over HTTP, and locks the
tools of MCP servers; it is a client of runs: the worker runs them. `holdfast codec` is the endpoint
with which Temporal's UI shows encrypted runs. What they serve is built in `holdfast.web`.
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.parser import NAME, Parsers, add_listening, add_person, add_worker_options
from holdfast.cli.prompts.answers import Approver
from holdfast.client.connection import client_converter, connect
from holdfast.client.errors import DONE, wrong_command
from holdfast.hosting.options import ProbeAddress, read_options, read_probe_address
from holdfast.hosting.process_exit import StartError
from holdfast.runtime.command_line import read_by, read_name
from holdfast.runtime.encryption.codec import CONVERTER_VARIABLE, VARIABLE
from holdfast.runtime.secrets import HOW_TO_SET, Secrets, environment_secrets, shared_secret
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.storage import locations
from holdfast.runtime.text_safety import one_line
from holdfast.schemas import names
from holdfast.web.http.origins import read_origin

if TYPE_CHECKING:
    from holdfast.catalog.loader import Catalog

CODEC_PORT: Final = 8234
TOKEN_VARIABLE: Final = "HOLDFAST_CODEC_TOKEN"
INBOX_PORT: Final = 8235
SETTINGS_VARIABLE: Final = "HOLDFAST_INBOX"
_LINE_CHARS = 1_000


def add_options(parsers: Parsers) -> None:
    """Add the options of `codec`, `inbox` and `mcp`."""
    parser = parsers["codec"]
    add = parser.add_argument
    add("--encryption", metavar="FILE", help="the worker's keys (default: HOLDFAST_ENCRYPTION)")
    text = "the address of Temporal's UI, such as http://127.0.0.1:8233; repeatable"
    url: dict[str, Any] = {"metavar": "URL", "type": read_by(read_origin)}
    add("--origin", dest="origins", **url, action="append", required=True, help=text)
    add_listening(parser, CODEC_PORT)
    add("--url", **url, help="its public address behind a proxy")
    text = "the variable that holds its secret (default: %(default)s)"
    add("--token-env", **NAME, default=TOKEN_VARIABLE, help=text)
    text = "the worker's store (default: HOLDFAST_STORE, or that of --dev)"
    location = read_by(locations.parse_store_location)
    add("--store", metavar="PLACE", type=location, action="append", default=[], help=text)
    parser.set_defaults(command=codec)
    parser = parsers["inbox"]
    text = f"its settings, inbox.yaml (default: {SETTINGS_VARIABLE})"
    parser.add_argument("--settings", metavar="FILE", help=text)
    add_listening(parser, INBOX_PORT)
    add_person(parser)
    add_catalog(parser)
    parser.set_defaults(command=inbox)
    _add_mcp(parsers["mcp"])


def _add_mcp(parser: ArgumentParser) -> None:
    parser.set_defaults(command=serve_mcp)
    add = parser.add_argument
    add_catalog(parser)
    add("--task-queue", metavar="NAME", help=f"the worker's (default: {names.TASK_QUEUE})")
    add("--inbox-url", metavar="URL", help="the address of the inbox, where people decide")
    text = "the person at the program that starts this one: answers to its forms are decisions"
    add_person(parser, "--approver", text)
    text = "serve over HTTP at this port, on this machine or at this address"
    add("--listen", metavar="[ADDRESS:]PORT", type=read_by(read_probe_address), help=text)
    url: dict[str, Any] = {"metavar": "URL", "type": read_by(read_origin)}
    add("--url", **url, help="with --listen: its public address behind a proxy")
    text = "with --listen: the keys that verify tokens, as of the inbox (keys.yaml)"
    add("--keys", metavar="FILE|URL", help=text)
    text = "with --keys: the id of a client whose users decide in it; repeatable"
    several: dict[str, Any] = {"type": read_name, "action": "append", "default": []}
    add("--trusted-client", dest="trusted", metavar="ID", **several, help=text)
    text = "the keys of forms, which processes side by side share (as encryption.yaml)"
    add("--state-keys", metavar="FILE", help=text)
    actions = parser.add_subparsers(metavar="ACTION")
    text = "write the digests of the servers' tools into the catalog: new runs have these alone"
    parser = actions.add_parser("lock", help=text, description=f"{text.capitalize()}.")
    add = parser.add_argument
    add("--catalog", metavar="DIR", help="the folder that mcp.lock.json is written to")
    text = "the MCP servers, which are connected to (servers.yaml)"
    add("--servers", metavar="FILE", help=text)
    parser.set_defaults(command=lock, parser=parser)


def add_catalog(parser: ArgumentParser) -> None:
    """Add the options that name agents and tools, which `load_catalog` reads."""
    add_worker_options(parser, "catalog", "tools", "servers")


async def serve_mcp(
    *,
    inbox_url: str | None,
    approver: Approver,
    listen: ProbeAddress | None,
    url: str | None,
    keys: str | None,
    trusted: Sequence[str],
    state_keys: str | None,
    **given: str | Sequence[str] | None,
) -> int:
    """Serve MCP clients, until the standard input ends or over HTTP until it is stopped."""
    if listen is None and (url or keys or trusted):
        raise wrong_command("--url, --keys and --trusted-client are for HTTP", "add --listen PORT")
    if listen is not None and (approver.by or approver.groups):
        wrong = "--approver and --groups are for standard input"
        raise wrong_command(wrong, "name clients: --trusted-client")
    if trusted and not keys:
        raise wrong_command("only tokens name clients", "name the keys that verify them: --keys")
    # Imported here: its library is in an extra, and takes half a second.
    from holdfast.web.mcp import server
    from holdfast.web.mcp.offered_tools import offered_tools
    from holdfast.web.services import Services

    with redirect_stdout(sys.stderr):  # of modules of tools: standard output is the protocol's
        catalog, queue = load_catalog(given)
    tools, services = offered_tools(catalog), Services(await connect(queue), approver.signer)
    make = partial(server.McpHandlers, services, tools, inbox=inbox_url)
    secrets = server.load_state_keys(state_keys)
    if listen is None:
        await server.serve_stdio(make, secrets, approver.by, approver.groups)
    else:
        await server.serve_http(make, secrets, *listen, url, keys, trusted)
    return DONE


def load_catalog(given: dict[str, str | Sequence[str] | None]) -> tuple["Catalog", str]:
    """Load the catalog of these options as a worker does; return it with the task queue."""
    from holdfast.catalog import mcp_tools
    from holdfast.hosting.resources import load_worker_catalog

    words = []
    for name, value in given.items():
        texts = [value] if isinstance(value, str) else value or []
        words += [f"--{name.replace('_', '-')}={text}" for text in texts]
    settings = read_options(words).settings
    if settings.catalog is None and not settings.tools:
        todo = "name them with `--catalog DIR` or `--tools MODULE`"
        raise wrong_command("there are no agents and no tools", todo)
    try:
        servers = mcp_tools.load_servers(settings.servers)
        # The worker has the endpoints, and notifies.
        current, _ = load_worker_catalog(replace(settings, notify=None), None, (), servers)
    except LoadError as error:
        raise StartError([*map(str, error.problems)]) from None
    return current.catalog, settings.task_queue


async def lock(*, catalog: str | None, servers: str | None, **_: object) -> int:
    """Print what has changed since the tools were locked, and lock them as they are listed now."""
    # Imported here: the other commands need no worker, and start sooner.
    from holdfast.catalog import mcp_tools
    from holdfast.hosting.resources import mcp_servers

    given = {"--catalog": catalog, "--servers": servers}
    settings = read_options([f"{name}={value}" for name, value in given.items() if value]).settings
    if settings.catalog is None or settings.servers is None:
        todo = "write `holdfast mcp lock --catalog DIR --servers FILE`"
        raise wrong_command("a lock needs a catalog and servers", todo)
    secrets = Secrets(environment_secrets(os.environ))
    try:
        before = mcp_tools.load_lock(settings.catalog) or {}
        loaded = mcp_tools.load_servers(settings.servers)
    except LoadError as error:
        raise StartError([*map(str, error.problems)]) from None
    listing: mcp_tools.Listing = {}
    if (found := mcp_servers(loaded, secrets)) is not None:
        async with found.running():
            listing = await found.list_tools(list(loaded))
    if failed := [each for each in listing.values() if isinstance(each, str)]:
        raise StartError([f"holdfast: {each}; nothing was locked" for each in failed])
    all_tools = {name: each for name, each in listing.items() if not isinstance(each, str)}
    listed = {name: [one for one in each if not one.problem] for name, each in all_tools.items()}
    odd = ((name, one) for name, each in all_tools.items() for one in each if one.problem)
    left_out = [f"left out: {name}/{one.name}: {one.problem}" for name, one in odd]
    for line in [*mcp_tools.lock_changes(before, listed), *left_out]:
        print(one_line(secrets.clean_for_operator(line), _LINE_CHARS))
    file, count = settings.catalog / mcp_tools.MCP_LOCK, sum(map(len, listed.values()))
    try:
        file.write_text(mcp_tools.lock_text(listed), encoding="utf-8")
    except OSError as error:
        wrong = f"{file} cannot be written: {error.strerror}"
        raise wrong_command(wrong, "name a folder that can be written to") from None
    print(f"{file}: {count} tool{'' if count == 1 else 's'} locked")
    return DONE


async def inbox(
    *,
    settings: str | None,
    host: str,
    port: int,
    approver: Approver,
    **given: str | Sequence[str] | None,
) -> int:
    """Serve the inbox until it is stopped."""
    # Imported here: the other commands need no HTTP server, and start sooner.
    from holdfast.web.app import serve_inbox
    from holdfast.web.auth.sessions import Person

    await serve_inbox(
        settings or os.environ.get(SETTINGS_VARIABLE),
        "`--settings`" if settings else SETTINGS_VARIABLE,
        host,
        port,
        Person(approver.name or "", tuple(approver.groups)),
        approver.signer,
        lambda: load_catalog(given)[0] if any(given.values()) else None,
        is_user_given=bool(approver.by or approver.groups),
    )
    return DONE


async def codec(
    *,
    encryption: str | None,
    origins: Sequence[str],
    host: str,
    port: int,
    url: str | None,
    token_env: str,
    store: Sequence[locations.StoreLocation | None],
) -> int:
    """Serve the endpoint until it is stopped."""
    # Imported here: the other commands need no HTTP server, and start sooner.
    from holdfast.web.codec import serve_codec
    from holdfast.web.http.serving import check_private

    check_private(host, url, "`--url https://…`")
    secret = shared_secret(token_env)
    if not secret:
        wrong = f"the variable {token_env}, which is to hold the endpoint's secret, is not set"
        raise wrong_command(wrong, HOW_TO_SET)
    file = encryption or os.environ.get(VARIABLE)
    if not (file or os.environ.get(CONVERTER_VARIABLE)):
        raise wrong_command("no keys are named", f"name them with `--encryption` or {VARIABLE}")
    converter = client_converter(file, "`--encryption`" if encryption else VARIABLE)
    assert converter.payload_codec is not None  # there is one with and without keys
    place = store[-1] if store else locations.reader_store_location(os.environ)
    await serve_codec(converter.payload_codec, secret, frozenset(origins), place, host, port, url)
    return DONE
