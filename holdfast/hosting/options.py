"""The settings of a worker, and their options on its command line and in the environment.

Each is stated once, as a field. An option overrides its variable. A misspelt option or variable is
an error.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from temporalio.common import WorkerDeploymentVersion

from holdfast.definitions.agent import Agent, AnyTool
from holdfast.hosting.dev_server import DevServer
from holdfast.runtime.command_line import (
    CommandParser,
    add_options,
    number_reader,
    option,
    options_of,
    read_path,
    switch,
)
from holdfast.runtime.storage import locations
from holdfast.schemas import names
from holdfast.schemas.base import format_duration, parse_duration
from holdfast.schemas.internal.live_answer import VIEWERS_FOLDER, VIEWERS_KEY
from holdfast.schemas.phrases import closest_names, misfit_reason
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import MODEL_PROVIDERS
from holdfast.validation.problems import FixableError

_PREFIX = "HOLDFAST_"
_NEARLY = 0.85
# A turn takes some twelve events, and Temporal ends a run at 51,200.
MIN_EVENTS, MAX_EVENTS = 20, 20_000
MAX_CACHED_RUNS = 100_000
# Each takes at least 125 MB, and can keep one core busy.
MAX_PROCESSES = 64
_EVENTS = f"from {MIN_EVENTS} to {MAX_EVENTS}"
_CACHED = f"from 0 to {MAX_CACHED_RUNS}"
_PROCESSES = f"from 1 to {MAX_PROCESSES}"
# With --dev, where heartbeats cost nothing, few runs work, and a person waits for a worker that was
# restarted.
DEV_TIMEOUTS: Final[Mapping[str, Any]] = {
    "heartbeat_timeout": timedelta(seconds=3),
    "sticky_timeout": timedelta(seconds=1),
}
# Of a tool: after the death of its worker, its effect may be unknown until then.
TOOL_HEARTBEAT_TIMEOUT = timedelta(seconds=3)
MAX_NAME_CHARACTERS: Final = 200
# The prefix of names that Temporal reserves.
_RESERVED: Final = "__"
_THIS_MACHINE: Final = "127.0.0.1"
_MAX_PORT: Final = 65_535


class ProbeAddress(NamedTuple):
    """An address of this machine at which probes are answered; port 0 is any free port."""

    host: str
    port: int


def read_probe_address(text: str) -> ProbeAddress:
    """Read `PORT` (this machine alone) or `ADDRESS:PORT`.

    Raises:
        ValueError: the text is neither; the message names the fix.
    """
    host, _, port = text.rpartition(":")
    try:
        address = str(ip_address(host.strip("[]") or _THIS_MACHINE))
    except ValueError:
        address = ""
    if not address or not port.isdecimal() or int(port) > _MAX_PORT:
        raise ValueError("write a port, as 8236, or an address and a port, as 0.0.0.0:8236")
    return ProbeAddress(address, int(port))


def read_version_name(text: str, dividers: str = "") -> str:
    """Return a name that Temporal accepts, without these dividers.

    Raises:
        ValueError: Temporal rejects the name; the message describes a valid one.
    """
    fits = text.isprintable() and 0 < len(text.strip()) == len(text) <= MAX_NAME_CHARACTERS
    if not fits or text.startswith(_RESERVED) or any(each in text for each in dividers):
        without = "".join(f", `{each}`" for each in dividers)
        raise ValueError(
            f"write up to {MAX_NAME_CHARACTERS} characters without a space at either end"
            f"{without}, and without `{_RESERVED}` at the beginning"
        )
    return text


def _path(about: str, metavar: str = "FILE") -> Any:
    return option(None, metavar, about, read_path)


def _several(metavar: str, about: str, **more: Any) -> Any:
    return option((), metavar, f"{about}; repeatable", action="append", **more)


def _time(default: timedelta, note: str = "") -> Any:
    return option(default, "TIME", f"default: {format_duration(default)}{note}", parse_duration)


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker: those with an option, which describes them, and a program's own.

    `tool_heartbeat_timeout` is that of its own tools, if another than of requests to models.
    `agents` are those of a program, with their tools, and `budgets` those beside `budgets.yaml`.
    `plugins` and `converter` are those of the Temporal client that the program makes.
    `between_looks` is the time between two checks of the catalog's files; a change takes two.
    """

    catalog: Path | None = _path("a folder with tools/ and agents/", "DIR")
    tools: Sequence[str | AnyTool] = _several("MODULE", "a Python module of tools")
    endpoints: Path | None = _path("the endpoints of the models (endpoints.yaml)")
    servers: Path | None = _path("the MCP servers whose tools agents may have (servers.yaml)")
    task_queue: str = option(names.TASK_QUEUE, "NAME", f"default: {names.TASK_QUEUE}")
    knowledge_urls: Sequence[str] = _several(
        "PREFIX",
        "a prefix of the addresses that knowledge may be fetched from",
        flag="knowledge-url",
    )
    knowledge_networks: Sequence[str] = _several(
        "NETWORK",
        "a private network that these addresses may be in, such as 10.0.0.0/8",
        flag="knowledge-network",
    )
    notify: str | None = option(
        None, "ACTIVITY", "the activity that notifies people of pending approvals"
    )
    notifiers: Path | None = _path("the channels that pending approvals are sent to (notify.yaml)")
    store: locations.StoreLocation | None = option(
        None,
        "PLACE",
        "the store of values too large for Temporal: a folder, s3://BUCKET/PREFIX, or none "
        "(default: none; with --dev, a folder beside its database)",
        locations.parse_store_location,
    )
    encryption: Path | None = _path("the keys that encrypt all payloads (encryption.yaml)")
    keys: str | None = option(
        None,
        "FILE|URL",
        "the keys that verify tokens: keys.yaml, a JWK set, PEM, or the URL of a set",
    )
    principal_tokens: bool = switch("a run must name its principal by a token")
    catalog_only: bool = switch(
        "a run must name an agent or a tool of the catalog, and cannot define its own"
    )
    permits: Path | None = _path(
        "the keys by which this worker's tools run for admitted runs alone (permits.yaml)"
    )
    # Heartbeats are three times as frequent, each an Action. A worker under load can miss two
    # seconds, and each heartbeat timeout costs a request to a model.
    heartbeat_timeout: timedelta = _time(timedelta(seconds=12), "; for tools and with --dev, 3s")
    tool_heartbeat_timeout: timedelta | None = None
    generate_timeout: timedelta = _time(timedelta(hours=1))
    graceful_timeout: timedelta = _time(timedelta(seconds=10))
    # Less than clients wait for an answer, also after a crash. With 1 s, the tasks of 256 busy runs
    # of one worker waited longer: each cost a replay, and 0.6 times as many runs ended.
    sticky_timeout: timedelta = _time(timedelta(seconds=5), "; with --dev, 1s")
    continue_after: int | None = option(
        None,
        "EVENTS",
        f"continue a run as new at this length, {_EVENTS}; default: when Temporal suggests it",
        number_reader(MIN_EVENTS, MAX_EVENTS, f"write a number {_EVENTS}"),
    )
    # A cached run holds about 140 KB. Few runs work at once; an evicted run is replayed when it is
    # queried, which costs some milliseconds.
    cached_runs: int = option(
        500,
        "N",
        f"the number of open runs in memory, {_CACHED}; default: 500",
        number_reader(0, MAX_CACHED_RUNS, f"write a number {_CACHED}; with 0, none is cached"),
    )
    processes: int = option(
        1,
        "N",
        f"the number of worker processes, {_PROCESSES}; default: 1",
        number_reader(1, MAX_PROCESSES, f"write a number {_PROCESSES}"),
    )
    viewers: Sequence[str] = _several(
        "ADDRESS", "an inbox that shows answers while models write them, such as wss://HOST"
    )
    deployment: str | None = option(
        None,
        "NAME",
        "with --build: the Worker Deployment, so that a run stays on its build",
        partial(read_version_name, dividers=".:"),
    )
    build: str | None = option(None, "ID", "the id of this build", read_version_name)
    plugins: Sequence[str] = _several(
        "MODULE:NAME", "a plugin of Temporal's SDK that the worker has beside ours", flag="plugin"
    )
    converter: str | None = option(
        None,
        "MODULE:NAME",
        "the data converter, with its codec, that this worker shares with other programs",
    )
    health: ProbeAddress | None = option(
        None,
        "[ADDRESS:]PORT",
        "serve the probes /live and /ready, on this machine or at this address; default: none",
        read_probe_address,
    )
    agents: Sequence[Agent[Any]] = ()
    budgets: Sequence[SharedBudget] = ()
    between_looks: timedelta = timedelta(seconds=1)

    @property
    def tool_heartbeat(self) -> timedelta:
        return self.tool_heartbeat_timeout or self.heartbeat_timeout

    @property
    def version(self) -> WorkerDeploymentVersion | None:
        """Return the version that `deployment` and `build` name, or None without them.

        Raises:
            FixableError: one of the two is missing.
        """
        match self.deployment, self.build:
            case None, None:
                return None
            case str(deployment), str(build):
                return WorkerDeploymentVersion(deployment, build)
            case None, _:
                todo = "name its deployment"
                raise FixableError("`--build` is given, and `--deployment` is not", todo)
        raise FixableError("`--deployment` is given, and `--build` is not", "name the build")


@dataclass(frozen=True)
class CheckOptions:
    """The options of a check, such as the agent whose answer schema is printed."""

    json: bool = switch("print a JSON array")
    composed: str | None = option(
        None, "AGENT[:SKILL]", "print the schema of its answers in composed calling"
    )
    provider: str | None = option(
        None,
        "{" + ",".join(MODEL_PROVIDERS) + "}",
        "print what it does not accept of tools and outputs, or does not show to a model",
        str,
        choices=MODEL_PROVIDERS,
    )
    lost_replies: bool = switch("print the tools whose outcome is unknown after a lost reply")
    timeout: timedelta = option(
        timedelta(minutes=1), "TIME", "the time limit of the check; default: 1m", parse_duration
    )


class Options(NamedTuple):
    """The parsed command line: `dev` is the embedded server, `check` a check instead of work."""

    settings: WorkerSettings
    dev: DevServer | None
    check: CheckOptions | None


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line and the environment.

    Raises:
        FixableError: an option or a variable is invalid.
    """
    values = with_environment(worker_parser().parse_options(arguments))
    dev, how = _take(values, DevServer), _take(values, CheckOptions)
    keys = values.get("encryption")
    server = None
    if values.pop("dev", False):
        server = DevServer(**dev, encryption=keys)
        values.setdefault("store", locations.dev_store_location(server.db))
        values = {**DEV_TIMEOUTS, **values}
        values["viewers"] = [*values.get("viewers", ()), str(server.db.parent / VIEWERS_FOLDER)]
    values["tool_heartbeat_timeout"] = values.get("heartbeat_timeout", TOOL_HEARTBEAT_TIMEOUT)
    check = CheckOptions(**how) if values.pop("check", False) else None
    settings = WorkerSettings(**values)
    keyed = (settings.encryption, settings.permits, settings.keys)
    files = (settings.catalog, settings.endpoints, settings.servers, settings.notifiers, *keyed)
    if check and not (settings.tools or any(files)):
        todo = "name it with `--catalog DIR`, `--tools MODULE` or `--endpoints FILE`"
        raise FixableError("there is nothing to check", todo)
    return Options(settings, server, check)


def with_environment(given: dict[str, Any]) -> dict[str, Any]:
    """Return these settings with those of the environment, and of a project in this folder.

    Raises:
        FixableError: a variable is invalid.
    """
    values = _from_environment() | given
    if not values.keys() & {"catalog", "tools", "endpoints"}:
        values |= project_files(Path()) or {}
    return values


def _take(values: dict[str, Any], model: type) -> dict[str, Any]:
    names = [each.name for each in options_of(model).values()]
    return {name: values.pop(name) for name in names if name in values}


def project_files(folder: Path) -> dict[str, Any] | None:
    """Return the settings of a project as `holdfast init` writes it; None if there is none.

    A worker whose options name no catalog, tools or endpoints uses those of its folder.
    """
    tools, endpoints = folder / "tools.py", folder / "endpoints.yaml"
    if not ((folder / "agents").is_dir() and tools.is_file() and endpoints.is_file()):
        return None
    return {"catalog": folder, "tools": [str(tools)], "endpoints": endpoints}


def _from_environment() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable in sorted(os.environ.keys() - {*VARIABLES, VIEWERS_KEY}):
        if not variable.startswith(_PREFIX):
            continue
        # A misspelt option is an error; variables of other programs are ignored.
        name = variable.removeprefix(_PREFIX)
        close = closest_names(name, [each.removeprefix(_PREFIX) for each in VARIABLES], _NEARLY)
        unread = f"the variable {variable} is not read"
        if close:
            raise FixableError(unread, f"did you mean {_PREFIX}{close[0]}?")
        option = "--" + name.lower().replace("_", "-")
        if option in worker_parser().option_names():
            raise FixableError(unread, f"use `{option}`")
    for variable, (name, each) in VARIABLES.items():
        if value := os.environ.get(variable):
            values |= _from_variable(variable, name, each, value)
    return values


def _from_variable(variable: str, option: str, of: Field[Any], value: str) -> dict[str, Any]:
    action = of.metadata.get("action")
    if action == "store_true":
        if value.lower() not in ("true", "false"):
            raise FixableError(f"{variable}: {misfit_reason(value)}", "set it to `true` or `false`")
        return {of.name: value.lower() == "true"}
    # White space separates several values.
    values = value.split() if action == "append" else [value]
    try:
        return worker_parser().parse_options([f"{option}={each}" for each in values])
    except FixableError as error:
        raise FixableError(error.reason.replace(f"`{option}`", variable), error.fix) from None


def worker_parser() -> CommandParser:
    """Return the parser of the command line of `holdfast worker`."""
    parser = CommandParser(prog="holdfast worker", argument_default=argparse.SUPPRESS)
    parser.description = (
        "Run agents on Temporal. The connection is read from TEMPORAL_ADDRESS, "
        "TEMPORAL_NAMESPACE, … and temporal.toml. Variables can set the options, too: "
        f"{', '.join(VARIABLES)}. In a folder with agents/, tools.py and "
        "endpoints.yaml (`holdfast init` writes one), these are the defaults of --catalog, --tools "
        "and --endpoints."
    )
    add_options(parser.add_argument, WorkerSettings)
    add = parser.add_argument_group("a check").add_argument
    add("--check", action="store_true", help="load all files, report problems, and exit")
    add_options(add, CheckOptions)
    add = parser.add_argument_group("an embedded server").add_argument
    add("--dev", action="store_true", help="start Temporal and its UI beside the worker")
    add_options(add, DevServer)
    return parser


VARIABLES = {
    _PREFIX + each.name.upper(): (name, each) for name, each in options_of(WorkerSettings).items()
}
"""The option for each environment variable that a worker reads, and the field that it sets."""
