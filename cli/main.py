"""The `holdfast` command: start runs, watch them, decide on pending approvals.

It is a Temporal client like anybody else's. This file owns the words of the command line; what
each command does is in `cli`.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, get_args

from temporalio.service import RPCError

import holdfast
from holdfast.cli import (
    check_command,
    codec_command,
    decide_command,
    inbox_command,
    listen_address,
    option_values,
    project_commands,
    run_commands,
    show_commands,
)
from holdfast.cli.parser import Parser
from holdfast.client.command_errors import (
    INTERRUPTED,
    PIPE_CLOSED,
    CommandError,
    rpc_problem,
    wrong_command,
)
from holdfast.hosting.process_exit import StartError
from holdfast.runtime.extras import missing_extra
from holdfast.schemas import names
from holdfast.schemas.decision import Verdict
from holdfast.schemas.run import RunStatus

_DEFAULT_LIMIT_RUNS = 50
_DEFAULT = "default: %(default)s"


def main() -> NoReturn:
    """Run the command of the command line, and exit."""
    # What ends a program politely leaves the terminal as it was, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = command_line()
    # Temporal's client has threads of its own, which abort a Python that tidies up under them
    # (temporalio/sdk-python issue 300). Everything is flushed, so there is nothing to tidy up.
    os._exit(code)


def command_line(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `client.command_errors`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["worker"]:
        # Imported here: a worker needs far more than a client does, and has options of its own.
        from holdfast.hosting.worker import main as work

        return work(words[1:])
    options = _parser().parse(words)
    try:
        code = _carry_out(**options)
        sys.stdout.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED  # the reader of the output has closed it
    sys.stderr.flush()
    return code


def _carry_out(command: Callable[..., Coroutine[Any, Any, int]], **options: Any) -> int:
    try:
        return asyncio.run(command(**options))
    except CommandError as error:
        problem = error
    except RPCError as error:
        problem = rpc_problem(error, options.get("run"))
    except StartError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.code
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        problem = wrong_command(*missing)
    except KeyboardInterrupt:
        return INTERRUPTED
    print(problem.line(), file=sys.stderr)
    return problem.code


def _parser() -> Parser:
    parser = Parser(prog="holdfast", description="Durable, approval-gated agents on Temporal.")
    parser.add_argument("--version", action="version", version=f"holdfast {holdfast.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("worker", help="run agents: the worker (`holdfast worker --help`)")
    _add_project(commands)
    _add_run(commands)
    _add_call(commands)
    _add_watch(commands)
    _add_show(commands)
    _add_approvals(commands)
    _add_decide(commands)
    _add_messages(commands)
    _add_list(commands)
    _add_check(commands)
    _add_codec(commands)
    _add_inbox(commands)
    for one in commands.choices.values():
        one.set_defaults(parser=one)
    return parser


# What `add_subparsers` returns has no public name.
_Commands = Any
# And neither has a group of options.
_Options = Any


def _add_project(commands: _Commands) -> None:
    text = "write a small project: a tool, an agent, a scripted model, a test"
    init = commands.add_parser("init", help=text)
    init.add_argument(
        "folder", metavar="DIR", nargs="?", type=Path, default=Path(), help="default: this folder"
    )
    init.set_defaults(command=project_commands.init)
    text = "run the project of this folder: a server, a worker, and a run that asks for approval"
    demo = commands.add_parser("demo", help=text, description=f"{text.capitalize()}.")
    demo.set_defaults(command=project_commands.demo)


def _add_run(commands: _Commands) -> None:
    parser = commands.add_parser("run", help="start a run and follow it")
    add = parser.add_argument
    add("agent", metavar="AGENT", type=option_values.agent, help="its name, or @FILE with its JSON")
    add(
        "--input",
        metavar="TEXT",
        type=option_values.run_input,
        help="text, a JSON object, @FILE, or -",
    )
    add(
        "--state",
        metavar="JSON",
        type=option_values.json_object,
        help="the state it begins with, or @FILE",
    )
    add(
        "--context",
        metavar="JSON",
        type=option_values.json_objects,
        help="messages that were said before, and data messages: a list, or @FILE",
    )
    add(
        "--skill",
        metavar="NAME",
        type=option_values.name,
        help="the agent's skill to use (else: chosen)",
    )
    add(
        "--budget",
        metavar="JSON",
        type=option_values.json_object,
        help="such as '{\"maxTurns\": 4}'",
    )
    add("--conversation", action="store_true", default=None, help="stay open for `holdfast send`")
    _add_starting(parser, "the agent's")
    parser.set_defaults(command=run_commands.run)


def _add_call(commands: _Commands) -> None:
    parser = commands.add_parser("call", help="one call of one tool, without a model")
    add = parser.add_argument
    add(
        "tool",
        metavar="TOOL",
        type=option_values.tool,
        help="its name, or @FILE with its JSON Schema",
    )
    add(
        "--arguments",
        metavar="JSON",
        type=option_values.json_object,
        help="its arguments, or @FILE",
    )
    _add_starting(parser, "the tool's")
    parser.set_defaults(command=run_commands.call)


def _add_watch(commands: _Commands) -> None:
    parser = commands.add_parser("watch", help="follow a run; Ctrl-C leaves it alone")
    parser.add_argument("run", metavar="RUN", type=option_values.name)
    _add_following(parser)
    parser.set_defaults(command=run_commands.watch)


def _add_show(commands: _Commands) -> None:
    parser = commands.add_parser("show", help="the whole run")
    parser.add_argument("run", metavar="RUN", type=option_values.name)
    parser.add_argument("--json", action="store_true", help="its context as a JSON array")
    parser.set_defaults(command=show_commands.show)


def _add_approvals(commands: _Commands) -> None:
    parser = commands.add_parser("approvals", help="list the pending approvals")
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(command=show_commands.approvals)


def _add_decide(commands: _Commands) -> None:
    parser = commands.add_parser("decide", help="decide on a pending approval")
    add = parser.add_argument
    add("run", metavar="RUN", type=option_values.name)
    add("call", metavar="CALL", type=option_values.name)
    add(
        "decision", choices=get_args(Verdict), metavar="DECISION", help=", ".join(get_args(Verdict))
    )
    add("--reason", metavar="TEXT", help="the model reads it after a denial")
    add(
        "--arguments",
        metavar="JSON",
        type=option_values.json_object,
        help="for edit: all of them, or @FILE",
    )
    add(
        "--result",
        metavar="VALUE",
        type=option_values.json_or_text,
        default=argparse.SUPPRESS,
        help="for respond and happened: JSON, text or @FILE",
    )
    add(
        "--remember", action="store_true", help="approve every further call of the tool in this run"
    )
    add(
        "--strike",
        metavar="CALL",
        type=option_values.name,
        action="append",
        default=[],
        help="approve a plan without this call, or these: t1c2,t1c3; repeatable",
    )
    add("--digest", metavar="HEX", help="decide only if the call is still the one with this digest")
    signing = _add_person(parser)
    text = "the decision was signed elsewhere: a JWT, @FILE, or -"
    signing.add_argument("--token", metavar="JWT", type=option_values.token, help=text)
    parser.set_defaults(command=decide_command.decide)


def _add_messages(commands: _Commands) -> None:
    send = commands.add_parser("send", help="send a message to a run")
    send.add_argument("run", metavar="RUN", type=option_values.name)
    send.add_argument("text", metavar="TEXT", type=option_values.text, help="a text, @FILE, or -")
    send.add_argument(
        "--steer", action="store_true", help="to any run, before its next turn; no answer"
    )
    send.set_defaults(command=run_commands.send)
    for name, command, text in (
        ("close", run_commands.close, "end a conversation"),
        ("cancel", run_commands.cancel, "end a run"),
    ):
        parser = commands.add_parser(name, help=text)
        parser.add_argument("run", metavar="RUN", type=option_values.name)
        parser.set_defaults(command=command)


def _add_list(commands: _Commands) -> None:
    parser = commands.add_parser("list", help="the newest runs")
    parser.add_argument(
        "--status",
        choices=get_args(RunStatus),
        metavar="STATUS",
        help=", ".join(get_args(RunStatus)),
    )
    parser.add_argument(
        "--limit",
        type=option_values.number,
        default=_DEFAULT_LIMIT_RUNS,
        metavar="N",
        help="at most so many (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(command=show_commands.list_command)


def _add_check(commands: _Commands) -> None:
    text = "everything that loading would refuse"
    parser = commands.add_parser("check", help=text, description=f"Tells {text}.")
    add = parser.add_argument
    add("--catalog", metavar="DIR", help="a folder with tools/ and agents/")
    add("--tools", metavar="MODULE", action="append", default=[], help="repeatable")
    add("--endpoints", metavar="FILE", help="where models are asked (endpoints.yaml)")
    add("--keys", metavar="FILE|URL", help="what tokens are checked with (keys.yaml)")
    add("--encryption", metavar="FILE", help="what everything is encrypted with (encryption.yaml)")
    add("--notifiers", metavar="FILE", help="who is notified of pending approvals (notify.yaml)")
    add("--task-queue", metavar="NAME", help=f"the worker's (default: {names.TASK_QUEUE})")
    add(
        "--knowledge-url",
        dest="knowledge_urls",
        metavar="PREFIX",
        action="append",
        default=[],
        help="the worker's; repeatable",
    )
    add(
        "--composed",
        metavar="AGENT[:SKILL]",
        help="print the schema of its answers in composed calling",
    )
    add(
        "--timeout",
        metavar="TIME",
        type=option_values.duration,
        default="1m",
        help="for all of it (default: %(default)s)",
    )
    add("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(command=check_command.check)


def _add_codec(commands: _Commands) -> None:
    text = "an endpoint with which Temporal's UI shows encrypted runs"
    parser = commands.add_parser("codec", help=text, description=f"Serves {text}.")
    add = parser.add_argument
    add("--encryption", metavar="FILE", help="the worker's keys (default: HOLDFAST_ENCRYPTION)")
    add(
        "--origin",
        dest="origins",
        metavar="URL",
        type=listen_address.origin,
        action="append",
        required=True,
        help="where Temporal's UI is, such as http://127.0.0.1:8233; repeatable",
    )
    _add_listening(parser, codec_command.DEFAULT_PORT)
    add(
        "--url",
        metavar="URL",
        type=listen_address.origin,
        help="where browsers find it behind a proxy",
    )
    add(
        "--token-env",
        metavar="NAME",
        type=option_values.name,
        default=codec_command.TOKEN_VARIABLE,
        help="the variable that holds its secret (default: %(default)s)",
    )
    add(
        "--store",
        metavar="PLACE",
        type=codec_command.store_location,
        action="append",
        default=[],
        help="the worker's store (default: HOLDFAST_STORE, or that of --dev)",
    )
    parser.set_defaults(command=codec_command.codec)


def _add_inbox(commands: _Commands) -> None:
    text = "the pages where people decide on pending approvals"
    parser = commands.add_parser("inbox", help=text, description=f"Serves {text}.")
    add = parser.add_argument
    add(
        "--settings",
        metavar="FILE",
        help=f"inbox.yaml (default: {inbox_command.SETTINGS_VARIABLE})",
    )
    _add_listening(parser, inbox_command.DEFAULT_PORT)
    _add_person(parser)
    parser.set_defaults(command=inbox_command.inbox)


def _add_listening(parser: argparse.ArgumentParser, port: int) -> None:
    add = parser.add_argument
    host = listen_address.DEFAULT_HOST
    add("--host", metavar="IP", type=listen_address.address, default=host, help=_DEFAULT)
    add("--port", metavar="N", type=listen_address.port, default=port, help=_DEFAULT)


def _add_starting(parser: argparse.ArgumentParser, whose: str) -> None:
    add = parser.add_argument
    behalf = parser.add_mutually_exclusive_group().add_argument
    behalf(
        "--principal",
        metavar="ID",
        type=option_values.principal,
        help='on whose behalf: id or {"id","scopes"}',
    )
    behalf(
        "--principal-token",
        metavar="JWT",
        dest="principal",
        type=option_values.principal_token,
        help="the same, by a token that says it: a JWT, @FILE, or -",
    )
    add("--approvals", choices=["ask", "deny"], help="deny: never wait for a person")
    add(
        "--id",
        metavar="ID",
        dest="run_id",
        type=option_values.name,
        help=f"the run's id (default: {whose} and 8 digits)",
    )
    add(
        "--task-queue",
        metavar="NAME",
        type=option_values.name,
        default=names.TASK_QUEUE,
        help="default: %(default)s",
    )
    add(
        "--timeout",
        metavar="TIME",
        type=option_values.duration,
        help="end it after so long, waiting for people included, such as 24h (default: never)",
    )
    add("--detach", action="store_true", help="print the id and leave it")
    _add_following(parser)


def _add_following(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    _add_person(parser)


def _add_person(parser: argparse.ArgumentParser) -> _Options:
    """Who decides; the result takes other ways to sign than with a key."""
    parser.add_argument("--by", metavar="NAME", help="who decides (default: you)")
    parser.add_argument(
        "--groups",
        metavar="A,B",
        type=option_values.groups,
        default=[],
        help="the groups that you decide for",
    )
    signing = parser.add_mutually_exclusive_group()
    signing.add_argument("--key", metavar="FILE", help="sign decisions with this private key (PEM)")
    parser.add_argument("--kid", metavar="ID", help="by which the worker's key set knows the key")
    return signing


if __name__ == "__main__":
    main()
