"""How a worker is to be: from its command line, and from the environment."""

import argparse
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from holdfast.hosting.deployment import DeploymentVersion, build_id, deployment_name, version_of
from holdfast.hosting.dev_server import DevServer
from holdfast.hosting.probes import ProbeAddress, read_probe_address
from holdfast.hosting.process_exit import StartError, wrong_setup
from holdfast.runtime.storage.locations import (
    StoreLocation,
    dev_store_location,
    parse_store_location,
)
from holdfast.schemas import names
from holdfast.schemas.base import format_duration, parse_duration
from holdfast.schemas.phrases import closest, misfit, nearest, quoted

_HELP = "see `holdfast worker --help`"
_PREFIX = "HOLDFAST_"
# What can stand in the environment as well, as HOLDFAST_CATALOG, HOLDFAST_TASK_QUEUE, …
_VARIABLES = (
    *("catalog", "endpoints", "task-queue", "notify", "notifiers"),
    *("store", "encryption", "keys"),
    *("heartbeat-timeout", "generate-timeout", "graceful-timeout"),
    *("continue-after", "cached-runs", "knowledge-urls", "knowledge-networks"),
    *("deployment", "build", "health"),
)
# Of these, a variable holds several, with white space between: by the option for one of them.
_LISTS = {"knowledge-urls": "knowledge-url", "knowledge-networks": "knowledge-network"}
_NEARLY = 0.85
# A turn takes some twelve events, and Temporal ends a run at 51,200.
MIN_EVENTS, MAX_EVENTS = 20, 20_000
MAX_CACHED_RUNS = 100_000


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker is to be. `graceful_timeout` is how long activities may go on once it stops;
    `continue_after` is the number of events after which a run goes on under a new history;
    `knowledge_urls` is what addresses begin with that knowledge may be fetched from, and
    `knowledge_networks` where their names may lead besides public addresses; `keys` is the
    file or the address of the keys that tokens are checked with; `notifiers` is the file of the
    channels in which people are told of waiting calls; with `principal_tokens`, a run has to say by
    a token on whose behalf it acts; with `catalog_only`, to name an agent or a tool."""

    catalog: Path | None = None
    tools: Sequence[str] = ()
    endpoints: Path | None = None
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
    # A third of it is how often a worker is heard of. Two seconds are missed by one that has far
    # more to do than two cores can: each time costs a request to a model.
    heartbeat_timeout: timedelta = timedelta(seconds=3)
    generate_timeout: timedelta = timedelta(hours=1)
    graceful_timeout: timedelta = timedelta(seconds=10)
    continue_after: int | None = None
    version: DeploymentVersion | None = None
    # Where probes are answered.
    health: ProbeAddress | None = None
    # A run that waits holds about 140 KB. These are more than are ever at work at once; one that
    # was put out is read again when somebody looks at it, which costs some milliseconds.
    max_cached_workflows: int = 500
    # How often the catalog is looked at. A change is taken up two looks later.
    between_looks: timedelta = timedelta(seconds=1)


@dataclass(frozen=True)
class CheckOptions:
    """Everything is to be loaded, and nothing else. `timeout` is how long that may take; of the
    agent `composed`, the schema of its answers is wanted."""

    json: bool = False
    composed: str | None = None
    timeout: timedelta = timedelta(minutes=1)


class Options(NamedTuple):
    """What the worker is asked for: `dev` is the embedded server, `check` a check and no work."""

    settings: WorkerSettings
    dev: DevServer | None
    check: CheckOptions | None


def read_options(arguments: Sequence[str]) -> Options:
    """What the command line and the environment ask for.

    Raises:
        StartError: an option or a variable is wrong.
    """
    given = _from_environment() | _parsed(arguments)
    if not given.keys() & {"catalog", "tools", "endpoints"}:
        given |= project_files(Path()) or {}
    dev = {name: given.pop(name) for name in ("db", "port", "ui_port") if name in given}
    keys = given.get("encryption")
    server = DevServer(**dev, encryption=keys) if given.pop("dev", False) else None
    if server is not None:
        given.setdefault("store", dev_store_location(server.db))
    how = {name: given.pop(name) for name in ("json", "composed", "timeout") if name in given}
    check = CheckOptions(**how) if given.pop("check", False) else None
    version = version_of(given.pop("deployment", None), given.pop("build", None))
    settings = WorkerSettings(**given, version=version)
    files = (settings.catalog, settings.endpoints, settings.encryption, settings.keys)
    if check and not (settings.tools or settings.notifiers or any(files)):
        todo = "name it with `--catalog DIR`, `--tools MODULE` or `--endpoints FILE`"
        raise wrong_setup("there is nothing to check", todo)
    return Options(settings, server, check)


def project_files(folder: Path) -> dict[str, Any] | None:
    """Return the settings of a project as `holdfast init` writes it; None where there is none.

    A worker for which neither catalog, tools nor endpoints are named uses those of its folder.
    """
    tools, endpoints = folder / "tools.py", folder / "endpoints.yaml"
    if not ((folder / "agents").is_dir() and tools.is_file() and endpoints.is_file()):
        return None
    return {"catalog": folder, "tools": [str(tools)], "endpoints": endpoints}


def _from_environment() -> dict[str, Any]:
    variables = {_PREFIX + name.upper().replace("-", "_"): name for name in _VARIABLES}
    for variable in sorted(os.environ):
        if variable.startswith(_PREFIX) and variable not in variables:
            _refuse_slip(variable, variables)
    given: dict[str, Any] = {}
    for variable, name in variables.items():
        value = os.environ.get(variable)
        if value:
            given |= _of_variable(variable, name, value)
    return given


def _refuse_slip(variable: str, variables: dict[str, str]) -> None:
    """Who has written it meant an option; what others put in the environment is left alone."""
    close = closest(variable.removeprefix(_PREFIX), _VARIABLES, _NEARLY)
    if close:
        meant = [each for each, name in variables.items() if name == close[0]]
        raise wrong_setup(f"the variable {variable} is not read", f"did you mean {meant[0]}?")
    option = "--" + variable.removeprefix(_PREFIX).lower().replace("_", "-")
    if option in _known_options():
        raise wrong_setup(f"the variable {variable} is not read", f"use `{option}`")


def _of_variable(variable: str, name: str, value: str) -> dict[str, Any]:
    option = _LISTS.get(name, name)
    values = value.split() if name in _LISTS else [value]
    try:
        return _parsed([f"--{option}={each}" for each in values])
    except StartError as error:
        told = [line.replace(f"`--{option}`", variable) for line in error.lines]
        raise StartError(told) from None


def _parsed(arguments: Sequence[str]) -> dict[str, Any]:
    given, unknown = _parser().parse_known_args(arguments)
    if unknown:
        option = unknown[0].partition("=")[0]
        raise wrong_setup(f"there is no option {quoted(option)}", _near_option(option))
    return vars(given)


def _near_option(option: str) -> str:
    close = closest(option, _known_options())
    return nearest(option, close) if close else _HELP


def _known_options() -> Iterator[str]:
    return (each for each in _parser()._option_string_actions if each.startswith("--"))


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line: the option, what is wrong, and what to do."""

    def error(self, message: str) -> NoReturn:
        said = re.sub(r"^argument (--[\w-]+): ", r"`\1`: ", message)
        said = said.replace("expected one argument", "its value is missing")
        wrong, _, todo = said.partition("; ")
        raise wrong_setup(wrong, todo or _HELP)


def _parser() -> _Parser:
    parser = _Parser(
        prog="holdfast worker",
        argument_default=argparse.SUPPRESS,
        description="Runs agents on Temporal. Where that is, is read from TEMPORAL_ADDRESS, "
        "TEMPORAL_NAMESPACE, … and temporal.toml. Options can stand in the environment, too: "
        "HOLDFAST_CATALOG, HOLDFAST_TASK_QUEUE, … In a folder with agents/, tools.py and "
        "endpoints.yaml (`holdfast init` writes one), these are the defaults of --catalog, --tools "
        "and --endpoints.",
    )
    _add_catalog(parser)
    _add_knowledge(parser)
    _add_notifiers(parser)
    _add_safekeeping(parser)
    _add_bounds(parser)
    _add_rollout(parser)
    _add_check(parser)
    _add_dev_server(parser)
    return parser


def _add_catalog(parser: _Parser) -> None:
    add = parser.add_argument
    add("--catalog", metavar="DIR", type=_path, help="a folder with tools/ and agents/")
    module = "a Python module of tools; repeatable"
    add("--tools", metavar="MODULE", type=_text, action="append", help=module)
    add("--endpoints", metavar="FILE", type=_path, help="where models are asked (endpoints.yaml)")
    add("--task-queue", metavar="NAME", type=_text, help=f"default: {names.TASK_QUEUE}")


def _add_knowledge(parser: _Parser) -> None:
    add = parser.add_argument
    add(
        "--knowledge-url",
        dest="knowledge_urls",
        metavar="PREFIX",
        type=_text,
        action="append",
        help="where agents may have knowledge fetched from; repeatable",
    )
    add(
        "--knowledge-network",
        dest="knowledge_networks",
        metavar="NETWORK",
        type=_text,
        action="append",
        help="where their names may lead besides public addresses, as 10.0.0.0/8; repeatable",
    )


def _add_notifiers(parser: _Parser) -> None:
    add = parser.add_argument
    add("--notify", metavar="ACTIVITY", type=_text, help="tells people of a waiting call")
    channels = "the channels in which people are told of waiting calls (notify.yaml)"
    add("--notifiers", metavar="FILE", type=_path, help=channels)


def _add_safekeeping(parser: _Parser) -> None:
    add = parser.add_argument
    add(
        "--store",
        metavar="PLACE",
        type=_place,
        help="keeps what is too large for Temporal: a folder, s3://BUCKET/PREFIX, or none "
        "(default: none; with --dev, a folder beside its database)",
    )
    keys = "the keys that everything is encrypted with (encryption.yaml)"
    add("--encryption", metavar="FILE", type=_path, help=keys)
    checking = "what tokens are checked with: keys.yaml, a JWK set, PEM, or where a set is served"
    add("--keys", metavar="FILE|URL", type=_text, help=checking)
    by_token = "a run has to say by a token on whose behalf it acts"
    add("--principal-tokens", action="store_true", help=by_token)
    named = "a run has to name an agent or a tool of the catalog, and writes none of its own"
    add("--catalog-only", action="store_true", help=named)


def _add_bounds(parser: _Parser) -> None:
    add = parser.add_argument
    for name in ("heartbeat", "generate", "graceful"):
        default = format_duration(getattr(WorkerSettings, f"{name}_timeout"))
        add(f"--{name}-timeout", metavar="TIME", type=_duration, help=f"default: {default}")
    history = f"the most of a run's history, {_span(MIN_EVENTS, MAX_EVENTS)}"
    suggested = "default: when Temporal suggests a new one"
    add("--continue-after", metavar="EVENTS", type=_events, help=f"{history}; {suggested}")
    add(
        "--cached-runs",
        dest="max_cached_workflows",
        metavar="N",
        type=_cached,
        help=f"the most open runs in memory, {_span(0, MAX_CACHED_RUNS)}; "
        f"default: {WorkerSettings.max_cached_workflows}",
    )


def _add_rollout(parser: _Parser) -> None:
    add = parser.add_argument
    deployment = "with --build: what it is a build of, so that runs stay with the build they are on"
    add("--deployment", metavar="NAME", type=_deployment, help=deployment)
    add("--build", metavar="ID", type=_build, help="which build it is")
    probes = "answers probes, /live and /ready, on this machine or at that address; default: none"
    add("--health", metavar="[ADDRESS:]PORT", type=_where, help=probes)


def _add_check(parser: _Parser) -> None:
    add = parser.add_argument_group("a check").add_argument
    add("--check", action="store_true", help="load everything, say what is wrong, and end")
    add("--json", action="store_true", help="as a JSON array")
    composed = "print the schema of its answers in composed calling"
    add("--composed", metavar="AGENT[:SKILL]", type=_text, help=composed)
    default = format_duration(CheckOptions.timeout)
    add("--timeout", metavar="TIME", type=_duration, help=f"for all of it; default: {default}")


def _add_dev_server(parser: _Parser) -> None:
    add = parser.add_argument_group("an embedded server").add_argument
    add("--dev", action="store_true", help="start Temporal and its UI beside the worker")
    add("--dev-db", dest="db", metavar="FILE", type=_path, help=f"default: {DevServer.db}")
    add("--dev-port", dest="port", metavar="N", type=_port, help=f"default: {DevServer.port}")
    add(
        "--dev-ui-port",
        dest="ui_port",
        metavar="N",
        type=_port,
        help=f"default: {DevServer.ui_port}",
    )


def _text(text: str) -> str:
    if text.strip():
        return text
    raise argparse.ArgumentTypeError(f"{misfit('')}; write a name")


def _path(text: str) -> Path:
    return Path(_text(text))


def _place(text: str) -> StoreLocation | None:
    try:
        return parse_store_location(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{misfit(text)}; {error}") from error


def _where(text: str) -> ProbeAddress:
    try:
        return read_probe_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{misfit(text)}; {error}") from error


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{misfit(text)}; {error}") from error


def _events(text: str) -> int:
    if text.isdecimal() and MIN_EVENTS <= int(text) <= MAX_EVENTS:
        return int(text)
    reason = f"{misfit(text)}; write a number {_span(MIN_EVENTS, MAX_EVENTS)}"
    raise argparse.ArgumentTypeError(reason)


def _cached(text: str) -> int:
    if text.isdecimal() and int(text) <= MAX_CACHED_RUNS:
        return int(text)
    reason = f"{misfit(text)}; write a number {_span(0, MAX_CACHED_RUNS)}; with 0, none is kept"
    raise argparse.ArgumentTypeError(reason)


def _deployment(text: str) -> str:
    return _named(deployment_name, text)


def _build(text: str) -> str:
    return _named(build_id, text)


def _named(read: Callable[[str], str], text: str) -> str:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{misfit(text)}; {error}") from error


def _span(least: int, most: int) -> str:
    return f"from {least} to {most}"


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 65536:
        return int(text)
    reason = f"{misfit(text)}; a port is a number up to 65535; 0 is any free one"
    raise argparse.ArgumentTypeError(reason)
