"""`holdfast backtest`: recorded runs again, with another agent or model, against their records."""

import argparse
import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from temporalio.envconfig import ClientConnectConfig

from holdfast.activities.backtest.recorded_activities import Missing
from holdfast.cli import option_values
from holdfast.cli.parser import TIME, Parsers
from holdfast.client.errors import (
    DONE,
    RUN_FAILED,
    HoldfastError,
    explain_settings,
    wrong_command,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.backtest import BacktestReport, Backtests
from holdfast.hosting.backtest_worker import BacktestHost
from holdfast.hosting.options import WorkerSettings, with_environment
from holdfast.runtime.command_line import add_options as add_settings
from holdfast.runtime.command_line import read_name
from holdfast.runtime.connection_errors import read_settings
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.settings_files.source import read_source
from holdfast.runtime.text_safety import as_json, clean
from holdfast.schemas import names
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.phrases import no_agent, suggest_names

# Of the backtests of one command that run at once.
CONCURRENT: Final = 8
LONGEST: Final = timedelta(hours=1)
_FILES: Final = (".json", ".yaml", ".yml", ".md")


def add_options(parsers: Parsers) -> None:
    """Add the options of `backtest`, and those of the worker that it is."""
    parser = parsers["backtest"]
    add = parser.add_argument
    text = "the id of a run that has ended"
    add("runs", metavar="RUN", nargs="+", type=read_name, help=text)
    text = "the agent to test: its name in the catalog, or a file (default: that of the run)"
    add("--agent", metavar="FILE|NAME", type=read_name, help=text)
    text = "the model to test, such as openai:gpt-5 (default: that of the agent)"
    add("--model", metavar="E:N", type=option_values.model, help=text)
    text = "what becomes of a call that the record does not have (default: %(default)s)"
    add("--missing", choices=get_args(Missing), default="stop", help=text)
    text = "the principal of live reads"
    behalf = parser.add_mutually_exclusive_group().add_argument
    behalf("--principal", metavar="ID", type=option_values.principal, help=text)
    token = option_values.principal_token
    behalf(
        "--principal-token",
        metavar="JWT",
        dest="principal",
        type=token,
        help="the principal of the backtest, as a signed token: a JWT, @FILE, or -",
    )
    add("--timeout", **TIME, default=LONGEST, help="of one backtest (default: 1h)")
    add("--json", action="store_true", help="print one JSON object a line")
    group = parser.add_argument_group("the worker's settings, as of `holdfast worker`")
    add_settings(partial(group.add_argument, default=argparse.SUPPRESS), WorkerSettings)
    parser.set_defaults(command=backtest)


async def backtest(
    *,
    runs: Sequence[str],
    agent: str | None,
    model: ModelSettings | None,
    missing: Missing,
    principal: dict[str, Any] | None,
    timeout: timedelta,
    json: bool,
    **given: Any,
) -> int:
    """Test an agent against recorded runs; the exit code is 0 if all are equal."""
    settings = WorkerSettings(**with_environment(given))
    has_token = "token" in (principal or {})
    if settings.principal_tokens and not has_token:
        raise wrong_command("this worker requires a token", "write it with --principal-token")
    if has_token and len(runs) > 1:
        raise wrong_command("a token is for one run", "name one RUN")
    with explain_settings("--agent"):
        candidate = read_candidate(agent)
    secrets = Secrets(environment_secrets(os.environ))
    host = BacktestHost.load(settings, secrets, missing, None if has_token else principal, model)
    catalog = host.resources.current_catalog.catalog
    known = [*catalog.agents, *catalog.mcp_agents]
    if isinstance(candidate, str) and candidate not in known:
        wrong = f"--agent: {no_agent(clean(candidate))}"
        raise wrong_command(wrong, suggest_names(candidate, known))
    if model is not None and model.endpoint not in host.resources.models.request_limits():
        wrong = f"--model: there is no endpoint {clean(model.endpoint)}"
        raise wrong_command(wrong, "name one of --endpoints")
    slots, token = asyncio.Semaphore(CONCURRENT), principal if has_token else None

    async def report_on(run: str) -> BacktestReport | HoldfastError:
        async with slots:
            try:
                return await tests.test(run)
            except HoldfastError as error:
                return error

    all_equal = True
    where = read_settings(warn)
    async with backtesting(host, where, timeout) as plain, asyncio.TaskGroup() as group:
        tests = replace(plain, candidate=candidate, token=token, may_miss=missing != "stop")
        group.create_task(tests.end_abandoned(warn))
        for task in [group.create_task(report_on(run)) for run in dict.fromkeys(runs)]:
            report = await task
            if isinstance(report, HoldfastError):
                print(report.line(), file=sys.stderr)
            else:
                lines = [as_json(report.to_json())] if json else report.lines()
                print("\n".join(lines), flush=True)
            all_equal &= isinstance(report, BacktestReport) and report.verdict == "equal"
    return DONE if all_equal else RUN_FAILED


@asynccontextmanager
async def backtesting(
    host: BacktestHost, where: ClientConnectConfig, longest: timedelta
) -> AsyncIterator[Backtests]:
    """Yield the backtests of a host, whose worker runs meanwhile."""
    client = await host.connect(where)
    queue = names.backtest_queue(uuid.uuid4().hex[:12])
    recorded, own = (HoldfastClient(client, each) for each in (host.settings.task_queue, queue))
    async with host.worker(client, queue):
        yield Backtests(recorded, own, host.backtests, longest)


def warn(text: object) -> None:
    print(f"holdfast: {text}", file=sys.stderr)


def read_candidate(agent: str | None) -> str | dict[str, Any] | None:
    """Return the definition in a file, or the name of an agent."""
    if agent is None or Path(agent).suffix not in _FILES:
        return agent
    definition: dict[str, Any] = read_source(Path(agent)).value
    return definition
