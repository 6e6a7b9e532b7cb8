"""The `holdfast` command: start runs, watch them, decide on pending approvals.

The commands of one subject are in one module, with their options.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, NoReturn

from temporalio.service import RPCError

import holdfast
from holdfast.cli import (
    project_commands,
    record_commands,
    run_commands,
    server_commands,
    show_commands,
)
from holdfast.cli.parser import Command, take_approver
from holdfast.client import errors
from holdfast.hosting.process_exit import StartError, exit_code
from holdfast.runtime.command_line import CommandParser
from holdfast.runtime.text_safety import extra_command
from holdfast.schemas.names import DISTRIBUTION
from holdfast.validation.problems import FixableError

# The extras, by the packages that they bring.
_EXTRAS = dict.fromkeys(("starlette", "uvicorn", "jinja2", "python_multipart"), "web")
_EXTRAS |= dict.fromkeys(("mcp", "mcp_types"), "mcp")


def main() -> NoReturn:
    """Run the command of the command line, and exit."""
    # SIGTERM restores the terminal as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = command_line()
    # Temporal's client has threads that abort a Python that finalizes while they run
    # (temporalio/sdk-python issue 300). Everything is flushed, so finalization is not needed.
    os._exit(code)


def command_line(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `client.errors`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["worker"]:
        # Imported here: a worker needs far more than a client does, and has options of its own.
        from holdfast.hosting.worker import main as work

        return work(words[1:])
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        code = errors.PIPE_CLOSED  # the reader of the output has closed it
    sys.stderr.flush()
    return code


def client_parser() -> CommandParser:
    """Return the parser of every command but `worker`, which has its own."""
    about = "Durable, approval-gated agents on Temporal."
    parser = CommandParser(prog="holdfast", description=about)
    version = f"holdfast {holdfast.__version__} ({DISTRIBUTION})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("worker", help="run agents: the worker (`holdfast worker --help`)")
    project_commands.add_parsers(commands)
    run_commands.add_parsers(commands)
    show_commands.add_parsers(commands)
    run_commands.add_decide(commands)
    project_commands.add_check(commands)
    server_commands.add_parsers(commands)
    record_commands.add_parsers(commands)
    for one in commands.choices.values():
        one.set_defaults(parser=one)
    return parser


def _missing_extra(error: ModuleNotFoundError) -> errors.HoldfastError:
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        raise error
    wrong = f"this needs the package {module}, which is not installed"
    return errors.wrong_command(wrong, extra_command(_EXTRAS[module]))


def _run(words: Sequence[str]) -> int:
    options: dict[str, Any] = {}
    try:
        options = client_parser().parse_options(words)
        command: Command = options.pop("command")
        if "by" in options:
            options["approver"] = take_approver(options)
        return asyncio.run(command(**options))
    except errors.HoldfastError as error:
        problem = error
    except RPCError as error:
        problem = errors.rpc_problem(error, options.get("run"))
    except FixableError as error:
        problem = errors.HoldfastError(error.reason, error.fix, exit_code(error))
    except StartError as error:
        print(error, file=sys.stderr)
        return exit_code(error)
    except ModuleNotFoundError as error:
        problem = _missing_extra(error)
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    print(problem.line(), file=sys.stderr)
    return problem.exit_code


if __name__ == "__main__":
    main()
