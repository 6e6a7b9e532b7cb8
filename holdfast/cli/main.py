"""The `holdfast` command: start runs, watch them, decide on pending approvals.

The commands of one subject are in one module, with their options. It is imported when one of them
is named: most of what a command takes to start is what it imports.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from errno import EAGAIN, EBADF, EDQUOT, EFBIG, EIO, ENOSPC
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, NoReturn

import holdfast
from holdfast.runtime.command_line import CommandParser
from holdfast.schemas.names import DISTRIBUTION

# By the function that adds their options: the commands of one subject, and the help of each.
COMMANDS: Final[dict[str, dict[str, str]]] = {
    "project_commands.add_options": {
        "init": "write a small project: a tool, an agent, a scripted model, a test",
        "demo": "run the project of this folder: a server, a worker, and a run that asks for"
        " approval",
    },
    "run_commands.add_options": {
        "run": "start a run and follow it",
        "call": "call one tool, without a model",
        "fork": "start a run with the log and the state of another one, after one of its turns",
        "watch": "follow a run; Ctrl-C stops following, the run continues",
        "send": "send a message to a run",
        "withdraw": "take back a message that the run has not read",
        "close": "end a conversation",
        "cancel": "end a run",
        "renew": "continue with a new token of the principal",
    },
    "show_commands.add_options": {
        "show": "print a run in full",
        "cost": "print the Actions, history and tokens of a run and its delegates",
        "approvals": "list the pending approvals",
        "budgets": "list what is used of the budgets that runs share",
        "list": "list the newest runs",
    },
    "run_commands.add_deciding": {"decide": "decide on a pending approval"},
    "project_commands.add_checking": {
        "check": "find the problems that a worker would report",
        "export": "write the files of the agents and tools of Python modules",
    },
    "policy_commands.add_options": {
        "policy": "simulate other approval policies over recorded runs: `policy simulate`",
    },
    "backtest_commands.add_options": {
        "backtest": "test a changed agent against recorded runs: nothing but the model is asked",
    },
    "eval_commands.add_options": {
        "evals": "run suites of cases: `evals run`; `evals add` writes one from a recorded run",
    },
    "schedule_commands.add_options": {
        "schedules": "start runs at set times: `schedules apply` makes Temporal's schedules of"
        " files",
    },
    "server_commands.add_options": {
        "codec": "serve the endpoint that decrypts runs for Temporal's UI",
        "inbox": "serve the pages where people decide on pending approvals",
        "mcp": "offer agents and tools to MCP clients; `mcp lock` locks those of MCP servers",
    },
    "record_commands.add_options": {
        "diff": "compare two runs: their turns, calls, decisions, state and output",
        "forget": "delete what agents keep of a person",
        "evidence": "write a file that shows what happened in a run, and who decided",
        "verify": "check that a file of evidence was not changed; needs no Temporal",
    },
}
# The extras, by the packages that they bring.
_EXTRAS = dict.fromkeys(("starlette", "uvicorn", "jinja2", "python_multipart"), "web")
_EXTRAS |= dict.fromkeys(("mcp", "mcp_types"), "mcp") | {"pydantic_evals": "evals"}
# A full disk, and others with which a stream is not written.
_OF_OUTPUT: Final = (ENOSPC, EDQUOT, EFBIG, EIO, EBADF, EAGAIN)


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
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as by `<&-` or `>&-`
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # until the end
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
    except OSError as error:
        from holdfast.client.errors import PIPE_CLOSED, RUN_FAILED

        code = PIPE_CLOSED
        if not isinstance(error, BrokenPipeError):  # else the reader of the output has closed it
            if error.errno not in _OF_OUTPUT or error.filename is not None:
                raise
            print(f"holdfast: the output cannot be written: {error.strerror}", file=sys.stderr)
            code = RUN_FAILED
    sys.stderr.flush()
    return code


def client_parser(words: Sequence[str]) -> CommandParser:
    """Return the parser of a command line: the command that it names has its options.

    `worker` has a parser of its own.
    """
    about = "Durable, approval-gated agents on Temporal."
    parser = CommandParser(prog="holdfast", description=about)
    version = f"holdfast {holdfast.__version__} ({DISTRIBUTION})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("worker", help="run agents: the worker (`holdfast worker --help`)")
    named = next((word for word in words if not word.startswith("-")), "")
    for function, texts in COMMANDS.items():
        parsers = {
            name: commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
            for name, text in texts.items()
        }
        if named in parsers:
            module, _, add = function.partition(".")
            getattr(import_module(f"holdfast.cli.{module}"), add)(parsers)
            parsers[named].set_defaults(parser=parsers[named])
    return parser


def _run(words: Sequence[str]) -> int:
    options: dict[str, Any] = {}
    try:
        options = client_parser(words).parse_options(words)
        command = options.pop("command")
        if "by" in options:
            from holdfast.cli.parser import take_approver

            options["approver"] = take_approver(options)
        return int(asyncio.run(command(**options)))
    except (KeyboardInterrupt, Exception) as error:
        return _report(error, options.get("run"))


def _report(error: BaseException, run_id: str | None) -> int:
    """Print the line of an error, and return its exit code; raise one that is not expected."""
    # Imported here: the help of the commands needs none of it.
    from temporalio.service import RPCError

    from holdfast.client import errors
    from holdfast.hosting.process_exit import StartError, exit_code
    from holdfast.runtime.text_safety import extra_command
    from holdfast.validation.problems import FixableError

    match error:
        case KeyboardInterrupt():
            return errors.INTERRUPTED
        case errors.HoldfastError():
            problem = error
        case RPCError():
            problem = errors.rpc_problem(error, run_id)
        case FixableError():
            problem = errors.HoldfastError(error.reason, error.fix, exit_code(error))
        case StartError():
            print(error, file=sys.stderr)
            return exit_code(error)
        case ModuleNotFoundError(name=str(name)) if (package := name.partition(".")[0]) in _EXTRAS:
            wrong = f"this needs the package {package}, which is not installed"
            problem = errors.wrong_command(wrong, extra_command(_EXTRAS[package]))
        case _:
            raise error
    print(problem.line(), file=sys.stderr)
    return problem.exit_code


if __name__ == "__main__":
    main()
