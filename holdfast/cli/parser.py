"""The options that several commands share."""

import argparse
from collections.abc import Callable, Coroutine, Mapping
from ipaddress import ip_address
from typing import Any, Final

from holdfast.cli import option_values
from holdfast.cli.prompts.answers import Approver
from holdfast.client.signing import load_signer
from holdfast.hosting.options import CheckOptions, WorkerSettings
from holdfast.runtime.command_line import options_of, read_by, read_name, read_port
from holdfast.schemas.base import parse_duration

DEFAULT_HOST: Final = "127.0.0.1"
Command = Callable[..., Coroutine[Any, Any, int]]
# The parsers of the commands of one subject, by their names.
Parsers = Mapping[str, argparse.ArgumentParser]

CALL: Final[dict[str, Any]] = {"metavar": "CALL", "type": read_name}
NAME: Final[dict[str, Any]] = {"metavar": "NAME", "type": read_name}
OBJECT: Final[dict[str, Any]] = {"metavar": "JSON", "type": option_values.json_object}
TIME: Final[dict[str, Any]] = {"metavar": "TIME", "type": read_by(parse_duration)}
FILES: Final[dict[str, Any]] = {
    "metavar": "FILE",
    "type": option_values.attachment,
    "action": "append",
    "default": [],
    "help": "a file for the model: an image, a PDF or a text; repeatable",
}

UPDATE_ID: Final[dict[str, Any]] = {
    "metavar": "ID",
    "type": read_name,
    "help": "repeat what was sent with this id: it counts once",
}


def on_run(parser: argparse.ArgumentParser, command: Command) -> argparse.ArgumentParser:
    """Make it the parser of a command on one run; return it, to add options."""
    parser.add_argument("run", metavar="RUN", type=read_name)
    parser.set_defaults(command=command)
    return parser


def add_person(
    parser: argparse.ArgumentParser, option: str = "--by", text: str = "the approver (default: you)"
) -> Any:
    """Add the options for the approver; return the group of the ways to sign, to add others."""
    add = parser.add_argument
    add(option, dest="by", metavar="NAME", help=text)
    text = "the groups of the approver"
    add("--groups", metavar="A,B", type=option_values.groups, default=[], help=text)
    signing = parser.add_mutually_exclusive_group()
    signing.add_argument("--key", metavar="FILE", help="sign decisions with this private key (PEM)")
    add("--kid", metavar="ID", help="the id of the key in the worker's key set")
    return signing


def add_worker_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add options of `holdfast worker`, whose parser reads their texts later."""
    options = options_of(WorkerSettings) | options_of(CheckOptions)
    for name in (f"--{each}" for each in names):
        how = options[name].metadata
        parser.add_argument(name, **{key: how[key] for key in how if key not in ("flag", "type")})


def add_listening(parser: argparse.ArgumentParser, port: int) -> None:
    """Add the options `--host` and `--port`, with this default port."""
    text = "default: %(default)s"
    parser.add_argument(
        "--host", metavar="IP", type=read_by(_address), default=DEFAULT_HOST, help=text
    )
    parser.add_argument("--port", metavar="N", type=read_port, default=port, help=text)


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"write an address of this machine, such as {DEFAULT_HOST}") from None


def take_approver(options: dict[str, Any]) -> Approver:
    """Take the options of `add_person` out of the given ones."""
    signer = load_signer(options.pop("key"), options.pop("kid"))
    return Approver(options.pop("by"), options.pop("groups"), signer)
