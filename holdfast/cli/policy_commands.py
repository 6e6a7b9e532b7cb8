"""`holdfast policy simulate`: what people would have been asked by the policies of a catalog."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.catalog.loader import Catalog
from holdfast.cli.parser import NAME, TIME, Parsers
from holdfast.cli.screens.console import is_terminal, print_table
from holdfast.cli.server_commands import add_catalog, load_catalog
from holdfast.client.connection import connect
from holdfast.client.errors import DONE, RUN_FAILED, UNREACHABLE, HoldfastError
from holdfast.client.records.policy_simulation import simulate_policies
from holdfast.client.records.recorded_calls import ApprovalTerms, RecordedCall
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.runtime.command_line import read_count
from holdfast.runtime.text_safety import arguments_line, as_json, one_line
from holdfast.schemas.agent import AgentRules
from holdfast.schemas.base import rfc3339
from holdfast.schemas.phrases import no_agent
from holdfast.schemas.tool import APPROVAL_DEFAULTS, ResolvedTool, loop_arguments
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals import policy as policies
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.skills import allowed_tools

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


class CatalogPolicies:
    """The policies of a catalog, applied to recorded calls as a run applies them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._limits = catalog, ValidationLimits()

    def missing(self, run: RunListing, call: RecordedCall) -> str:
        """Return why a call cannot be simulated; empty if it can."""
        try:
            self._arguments(self._tool(self._rules(run), call), call)
        except LookupError as error:
            return one_line(str(error.args[0]), _CELL_CHARS)
        except InvalidArguments:
            return one_line(f"the arguments do not fit `{call.tool}`", _CELL_CHARS)
        return ""

    def plans(self, run: RunListing, call: RecordedCall) -> bool:
        """Return whether people decide on all calls of its turn at once: not on a skill's own."""
        return self._rules(run).plan == "lazy" and call.tool != call.skill

    def terms(
        self, run: RunListing, calls: Sequence[RecordedCall], *, is_plan: bool
    ) -> ApprovalTerms | None:
        """Return who decides on a call, or on the calls of a plan; None if it runs unasked."""
        rules, found = self._rules(run), dict[str, policies.AppliedPolicy]()
        for call in calls:
            tool, own = self._tool(rules, call), list[policies.AppliedPolicy]()
            unknown: list[dict[str, Any] | None] = [None] * (is_plan and call.has_references)
            for arguments in unknown or self._arguments(tool, call):
                required = policies.required_policies(tool, rules, arguments, self._limits)
                if tool.person and not required:
                    budget = self._limits.budget()
                    required = policies.applied_policies(tool, rules, arguments, budget)
                own += required
            if is_plan and not own:
                own = [policies.AppliedPolicy(rules.approval.over(APPROVAL_DEFAULTS))]
            found |= {one.key(tool.name): one for one in own}
        if not found:
            return None
        applied = [one.rule for one in found.values() if one.rule is not None]
        return ApprovalTerms.of(policies.combined_policy([*found.values()]), applied)

    def _rules(self, run: RunListing) -> AgentRules:
        if run.single:
            tools = self._catalog.definitions.tools
            return AgentRules(name="the catalog", tools=[*tools.values()])
        if (agent := self._catalog.agents.get(run.agent or "")) is None:
            raise LookupError(no_agent(run.agent or "unknown"))
        return agent

    def _tool(self, rules: AgentRules, call: RecordedCall) -> ResolvedTool:
        tools = [*allowed_tools(rules, call.skill), *rules.tools]
        for skill in rules.skills:
            tools += skill.tools
            if skill.activity is not None:
                # A run has the policy of its tool, and parameters of its own.
                own = skill.rules or ResolvedTool(name=skill.name, parameters={})
                changes = {"name": skill.name, "parameters": {}}
                tools.append(own.model_copy(update=changes))
        for tool in tools:
            if tool.name == call.tool:
                return tool
        is_open = rules.name in self._catalog.mcp_agents
        hint = " but perhaps of an MCP server: these are not connected to" if is_open else ""
        raise LookupError(f"`{rules.name}` has no tool `{call.tool}`{hint}")

    def _arguments(self, tool: ResolvedTool, call: RecordedCall) -> list[dict[str, Any] | None]:
        """Return the arguments as this tool receives them, of a loop for each item."""
        items = loop_arguments(call.proposed)
        known = [call.proposed] if items is None else [one for one in items if one is not None]
        return [
            fit_arguments(tool, one, self._limits) if isinstance(one, dict) else None
            for one in known
        ]


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
