"""`holdfast policy simulate`: what people would have been asked by the policies of a catalog."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.cli.parser import NAME, TIME, Parsers
from holdfast.cli.policy_simulation import CatalogPolicies, simulate_policies
from holdfast.cli.screens.console import is_terminal, print_table
from holdfast.cli.server_commands import add_catalog, load_catalog
from holdfast.client.connection import connect
from holdfast.client.errors import DONE, RUN_FAILED, UNREACHABLE, HoldfastError
from holdfast.client.run_lists import RunFilter
from holdfast.runtime.command_line import read_count
from holdfast.runtime.text_safety import arguments_line, as_json, one_line
from holdfast.schemas.base import rfc3339

Given = str | Sequence[str] | None
MAX_RUNS: Final = 1_000
_CELL_CHARS: Final = 200
_ABOUT = (
    "Read the calls and decisions of the newest runs, and report what people would have been asked"
    " by the policies of another catalog; start and send nothing. The exit code is 1 if a call that"
    " people denied or changed would run unasked, else 3 if a run could not be read."
)
_HEADINGS = {
    "unasked": "Denied or changed by people, and would run unasked: {}",
    "expired": "Expired, and would run without a decision: {}",
    "weaker": "Would lose approvers: {}",
    "questions": "Questions to people",
    "missing": "Calls that cannot be simulated",
    "unread": "Runs that could not be read, or only in part: {}",
}


def add_options(parsers: Parsers) -> None:
    """Add the options of `policy simulate`."""
    actions = parsers["policy"].add_subparsers(metavar="ACTION", required=True)
    text = "report what people would have been asked by other policies"
    parser = actions.add_parser("simulate", help=text, description=_ABOUT)
    add_catalog(parser)
    add = parser.add_argument
    add("--since", **TIME, default="30d", help="how long ago runs started (default: %(default)s)")
    add("--agent", **NAME, help="runs of this agent alone")
    limit: dict[str, Any] = {"type": read_count, "default": MAX_RUNS, "metavar": "N"}
    add("--limit", **limit, help="the most runs to read (default: %(default)s)")
    add("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(command=simulate, parser=parser)


async def simulate(
    *, since: timedelta, agent: str | None, limit: int, json: bool, **given: Given
) -> int:
    """Report the differences that a catalog makes for recorded runs."""
    candidate = CatalogPolicies(load_catalog(given)[0])
    client, begin = await connect(), rfc3339(datetime.now(UTC) - since)
    query = f'{RunFilter(agent=agent or "")} AND StartTime >= "{begin}"'
    runs = await client.list_runs(query, limit)

    def progress(number: int, total: int) -> None:
        if is_terminal(sys.stderr):
            end = "\n" if number == total else "\r"
            print(f"{number} of {total} runs", end=end, file=sys.stderr, flush=True)

    found = await simulate_policies(client, runs, candidate, progress)
    report = found.to_json()
    if json:
        print(as_json(report, indent=2))
    else:
        for name, heading in _HEADINGS.items():
            rows = report[name]
            if rows or name == "unasked":
                print(heading.format(len(rows)))
            if rows:
                cells = [
                    [
                        one_line(each, _CELL_CHARS)
                        if isinstance(each, str)
                        else arguments_line(each)
                        for each in row.values()
                    ]
                    for row in rows
                ]
                print_table([key.upper() for key in rows[0]], cells, cut=False)
                print()
        print(f"Waiting: {found.saved_hours:.1f} h saved, about {found.added_hours:.1f} h added.")
        print(f"Runs: {found.runs}. Calls that `remember` released, not counted: {found.released}.")
    if len(runs) == limit:
        print(f"holdfast: these are the newest {limit}; --limit reads more", file=sys.stderr)
    if found.unread and not found.unasked:
        wrong = f"runs that could not be read, or only in part: {len(found.unread)}"
        raise HoldfastError(wrong, "the list of them has the reasons", UNREACHABLE)
    return RUN_FAILED if found.unasked else DONE
