"""The options of `holdfast worker`, from its command line and from the environment.

An option overrides its variable. A misspelt option or variable is an error.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.common import WorkerDeploymentVersion

from holdfast.definitions.agent import Agent, AnyTool
from holdfast.hosting.deployment import read_version_name, version_of
from holdfast.hosting.dev_server import DevServer
from holdfast.hosting.monitoring.probes import ProbeAddress, read_probe_address
from holdfast.runtime.command_line import (
    CommandParser,
    number_reader,
    read_by,
    read_name,
    read_port,
)
from holdfast.runtime.storage.locations import (
    StoreLocation,
    dev_store_location,
    parse_store_location,
)
from holdfast.schemas import names
from holdfast.schemas.base import format_duration, parse_duration
from holdfast.schemas.internal.live_answer import VIEWERS_FOLDER, VIEWERS_KEY
from holdfast.schemas.phrases import closest_names, misfit_reason
from holdfast.schemas.settings.endpoints import MODEL_PROVIDERS
from holdfast.validation.problems import FixableError

_PREFIX = "HOLDFAST_"
_NEARLY = 0.85
# A turn takes some twelve events, and Temporal ends a run at 51,200.
MIN_EVENTS, MAX_EVENTS = 20, 20_000
MAX_CACHED_RUNS = 100_000
# With --dev, where heartbeats cost nothing and a person waits for a worker that was restarted.
DEV_HEARTBEAT_TIMEOUT = timedelta(seconds=3)
# Of a tool: after the death of its worker, its effect may be unknown until then.
TOOL_HEARTBEAT_TIMEOUT = timedelta(seconds=3)


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker; its options describe them.

    `tool_heartbeat_timeout` is that of its own tools, if another than of requests to models.
    `agents` are those of a program, with their tools. `plugins` and `converter` are those of the
    Temporal client that the program makes. `between_looks` is the time between two checks of the
    catalog's files; a change takes two.
    """

    catalog: Path | None = None
    tools: Sequence[str | AnyTool] = ()
    agents: Sequence[Agent[Any]] = ()
    endpoints: Path | None = None
    servers: Path | None = None
    task_queue: str = names.TASK_QUEUE
    knowledge_urls: Sequence[str] = ()
    knowledge_networks: Sequence[str] = ()
    notify: str | None = None
    notifiers: Path | None = None
    store: StoreLocation | None = None
    encryption: Path | None = None
    keys: str | None = None
    principal_tokens: bool = False
    catalog_only: bool = False
    permits: Path | None = None
    # Heartbeats are three times as frequent, each an Action. A worker under load can miss two
    # seconds, and each heartbeat timeout costs a request to a model.
    heartbeat_timeout: timedelta = timedelta(seconds=12)
    tool_heartbeat_timeout: timedelta | None = None
    generate_timeout: timedelta = timedelta(hours=1)
    graceful_timeout: timedelta = timedelta(seconds=10)
    continue_after: int | None = None
    viewers: Sequence[str] = ()
    version: WorkerDeploymentVersion | None = None
    health: ProbeAddress | None = None
    # A cached run holds about 140 KB. Few runs work at once; an evicted run is replayed when it is
    # queried, which costs some milliseconds.
    cached_runs: int = 500
    plugins: Sequence[str] = ()
    converter: str | None = None
    between_looks: timedelta = timedelta(seconds=1)

    @property
    def tool_heartbeat(self) -> timedelta:
        """Return the heartbeat timeout of tools."""
        return self.tool_heartbeat_timeout or self.heartbeat_timeout


@dataclass(frozen=True)
class CheckOptions:
    """The options of a check, such as the agent whose answer schema is printed."""

    json: bool = False
    composed: str | None = None
    provider: str | None = None
    lost_replies: bool = False
    timeout: timedelta = timedelta(minutes=1)


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
    values = _from_environment() | worker_parser().parse_options(arguments)
    if not values.keys() & {"catalog", "tools", "endpoints"}:
        values |= project_files(Path()) or {}
    dev = {name: values.pop(name) for name in ("db", "port", "ui_port") if name in values}
    keys = values.get("encryption")
    server = DevServer(**dev, encryption=keys) if values.pop("dev", False) else None
    if server is not None:
        values.setdefault("store", dev_store_location(server.db))
        values.setdefault("heartbeat_timeout", DEV_HEARTBEAT_TIMEOUT)
        values["viewers"] = [*values.get("viewers", ()), str(server.db.parent / VIEWERS_FOLDER)]
    values["tool_heartbeat_timeout"] = values.get("heartbeat_timeout", TOOL_HEARTBEAT_TIMEOUT)
    named = [each.name for each in fields(CheckOptions)]
    how = {name: values.pop(name) for name in named if name in values}
    check = CheckOptions(**how) if values.pop("check", False) else None
    version = version_of(values.pop("deployment", None), values.pop("build", None))
    settings = WorkerSettings(**values, version=version)
    keyed = (settings.encryption, settings.permits, settings.keys)
    files = (settings.catalog, settings.endpoints, settings.servers, settings.notifiers, *keyed)
    if check and not (settings.tools or any(files)):
        todo = "name it with `--catalog DIR`, `--tools MODULE` or `--endpoints FILE`"
        raise FixableError("there is nothing to check", todo)
    return Options(settings, server, check)


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
    for variable in sorted(os.environ):
        if not variable.startswith(_PREFIX) or variable in (*VARIABLES, VIEWERS_KEY):
            continue
        # A misspelt option is an error; variables of other programs are ignored.
        name = variable.removeprefix(_PREFIX)
        close = closest_names(name, [each.removeprefix(_PREFIX) for each in VARIABLES], _NEARLY)
        option = "--" + name.lower().replace("_", "-")
        if close or option in worker_parser().option_names():
            fix = f"did you mean {_PREFIX}{close[0]}?" if close else f"use `{option}`"
            raise FixableError(f"the variable {variable} is not read", fix)
    for variable, action in VARIABLES.items():
        if value := os.environ.get(variable):
            values |= _from_variable(variable, action, value)
    return values


def _from_variable(variable: str, action: argparse.Action, value: str) -> dict[str, Any]:
    if action.nargs == 0:
        if value.lower() not in ("true", "false"):
            raise FixableError(f"{variable}: {misfit_reason(value)}", "set it to `true` or `false`")
        return {action.dest: value.lower() == "true"}
    [option] = action.option_strings
    # White space separates several values.
    values = value.split() if isinstance(action, argparse._AppendAction) else [value]
    try:
        return worker_parser().parse_options([f"{option}={each}" for each in values])
    except FixableError as error:
        raise FixableError(error.reason.replace(f"`{option}`", variable), error.fix) from None


def _settings_parser() -> CommandParser:
    parser = CommandParser(prog="holdfast worker", argument_default=argparse.SUPPRESS)
    add = parser.add_argument
    several: dict[str, Any] = {"type": read_name, "action": "append"}
    add("--catalog", metavar="DIR", type=_path, help="a folder with tools/ and agents/")
    about = "a Python module of tools; repeatable"
    add("--tools", metavar="MODULE", help=about, **several)
    about = "the endpoints of the models (endpoints.yaml)"
    add("--endpoints", metavar="FILE", type=_path, help=about)
    about = "the MCP servers whose tools agents may have (servers.yaml)"
    add("--servers", metavar="FILE", type=_path, help=about)
    add("--task-queue", metavar="NAME", type=read_name, help=f"default: {names.TASK_QUEUE}")
    about = "a prefix of the addresses that knowledge may be fetched from; repeatable"
    add("--knowledge-url", dest="knowledge_urls", metavar="PREFIX", help=about, **several)
    about = "a private network that these addresses may be in, such as 10.0.0.0/8; repeatable"
    add("--knowledge-network", dest="knowledge_networks", metavar="NETWORK", help=about, **several)
    about = "the activity that notifies people of pending approvals"
    add("--notify", metavar="ACTIVITY", type=read_name, help=about)
    about = "the channels that pending approvals are sent to (notify.yaml)"
    add("--notifiers", metavar="FILE", type=_path, help=about)
    about = (
        "the store of values too large for Temporal: a folder, s3://BUCKET/PREFIX, or none "
        "(default: none; with --dev, a folder beside its database)"
    )
    add("--store", metavar="PLACE", type=read_by(parse_store_location), help=about)
    about = "the keys that encrypt all payloads (encryption.yaml)"
    add("--encryption", metavar="FILE", type=_path, help=about)
    about = "the keys that verify tokens: keys.yaml, a JWK set, PEM, or the URL of a set"
    add("--keys", metavar="FILE|URL", type=read_name, help=about)
    about = "a run must name its principal by a token"
    add("--principal-tokens", action="store_true", help=about)
    about = "a run must name an agent or a tool of the catalog, and cannot define its own"
    add("--catalog-only", action="store_true", help=about)
    about = "the keys by which this worker's tools run for admitted runs alone (permits.yaml)"
    add("--permits", metavar="FILE", type=_path, help=about)
    for name in ("heartbeat", "generate", "graceful"):
        about = f"default: {format_duration(getattr(WorkerSettings, f'{name}_timeout'))}"
        if name == "heartbeat":
            about += f"; for tools and with --dev, {format_duration(DEV_HEARTBEAT_TIMEOUT)}"
        add(f"--{name}-timeout", metavar="TIME", type=_duration, help=about)
    span = f"from {MIN_EVENTS} to {MAX_EVENTS}"
    number = number_reader(MIN_EVENTS, MAX_EVENTS, f"write a number {span}")
    about = f"continue a run as new at this length, {span}; default: when Temporal suggests it"
    add("--continue-after", metavar="EVENTS", type=number, help=about)
    span = f"from 0 to {MAX_CACHED_RUNS}"
    number = number_reader(0, MAX_CACHED_RUNS, f"write a number {span}; with 0, none is cached")
    about = f"the number of open runs in memory, {span}; default: {WorkerSettings.cached_runs}"
    add("--cached-runs", metavar="N", type=number, help=about)
    about = "an inbox that shows answers while models write them, such as wss://HOST; repeatable"
    add("--viewers", metavar="ADDRESS", help=about, **several)
    about = "with --build: the Worker Deployment, so that a run stays on its build"
    deployment = read_by(partial(read_version_name, dividers=".:"))
    add("--deployment", metavar="NAME", type=deployment, help=about)
    add("--build", metavar="ID", type=read_by(read_version_name), help="the id of this build")
    about = "a plugin of Temporal's SDK that the worker has beside ours; repeatable"
    add("--plugin", dest="plugins", metavar="MODULE:NAME", help=about, **several)
    about = "the data converter, with its codec, that this worker shares with other programs"
    add("--converter", metavar="MODULE:NAME", type=read_name, help=about)
    about = "serve the probes /live and /ready, on this machine or at this address; default: none"
    add("--health", metavar="[ADDRESS:]PORT", type=read_by(read_probe_address), help=about)
    return parser


def worker_parser() -> CommandParser:
    """Return the parser of the command line of `holdfast worker`."""
    parser = _settings_parser()
    parser.description = (
        "Run agents on Temporal. The connection is read from TEMPORAL_ADDRESS, "
        "TEMPORAL_NAMESPACE, … and temporal.toml. Variables can set the options, too: "
        f"{', '.join(VARIABLES)}. In a folder with agents/, tools.py and "
        "endpoints.yaml (`holdfast init` writes one), these are the defaults of --catalog, --tools "
        "and --endpoints."
    )
    add = parser.add_argument_group("a check").add_argument
    add("--check", action="store_true", help="load all files, report problems, and exit")
    add("--json", action="store_true", help="print a JSON array")
    composed = "print the schema of its answers in composed calling"
    add("--composed", metavar="AGENT[:SKILL]", type=read_name, help=composed)
    provider = "print what it does not accept of tools and outputs, or does not show to a model"
    add("--provider", choices=MODEL_PROVIDERS, help=provider)
    lost = "print the tools whose outcome is unknown after a lost reply"
    add("--lost-replies", action="store_true", help=lost)
    about = f"the time limit of the check; default: {format_duration(CheckOptions.timeout)}"
    add("--timeout", metavar="TIME", type=_duration, help=about)

    add = parser.add_argument_group("an embedded server").add_argument
    add("--dev", action="store_true", help="start Temporal and its UI beside the worker")
    add("--dev-db", dest="db", metavar="FILE", type=_path, help=f"default: {DevServer.db}")
    for name in ("port", "ui-port"):
        dest = name.replace("-", "_")
        default = f"default: {getattr(DevServer, dest)}"
        add(f"--dev-{name}", dest=dest, metavar="N", type=read_port, help=default)
    return parser


def _path(text: str) -> Path:
    return Path(read_name(text))


_duration = read_by(parse_duration)
VARIABLES = {
    _PREFIX + each.dest.upper(): each for each in _settings_parser()._actions if each.dest != "help"
}
"""The option for each environment variable that a worker reads."""
