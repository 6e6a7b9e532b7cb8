"""The catalog: every tool and agent of a worker, checked in full before the worker accepts work.

Tools come from a folder and from Python modules, agents from the folder. All problems are reported
at once, each with its file, line, reason and fix, and stop the worker.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from holdfast.catalog import python_module
from holdfast.catalog.advice import (
    agent_advice,
    nullable_advice,
    policy_advice,
    schema_advice,
    tool_advice,
)
from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.catalog_files import (
    AGENTS,
    SCHEDULES,
    TOOLS,
    list_files,
    unread_file_problems,
)
from holdfast.catalog.constant_calls import cycle_problems
from holdfast.catalog.mcp_tools import load_lock, named_servers
from holdfast.catalog.policies.budgets import BUDGETS, budget_advice, cost_limit, load_budgets
from holdfast.catalog.policies.limits import LIMITS, limit_advice, load_limits
from holdfast.catalog.policies.schedules import load_schedules
from holdfast.catalog.prices import cost_problem, list_advice, prices_of
from holdfast.catalog.registry import DefinitionRegistry, ToolsByActivity, unstated_effects
from holdfast.catalog.tool_reader import resolve_tool
from holdfast.runtime.addresses import AddressPrefix
from holdfast.runtime.settings_files import file_problems
from holdfast.runtime.settings_files.source import Source, read_source
from holdfast.schemas import names
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Endpoint, Price
from holdfast.schemas.settings.limits import NO_LIMITS
from holdfast.schemas.settings.schedules import ScheduleDefinition
from holdfast.schemas.settings.servers import Server
from holdfast.schemas.tool import ANONYMOUS, ActivityBinding, ResolvedTool
from holdfast.validation.content_cache import ContentCache
from holdfast.validation.problems import ValueProblem

MadeT = TypeVar("MadeT", ResolvedTool, ResolvedAgent)
logger = logging.getLogger("holdfast")


@dataclass(frozen=True)
class Catalog:
    """Tools and agents by name, and what Python defines of them.

    `mcp_agents` are the sources of agents with tools of MCP servers, which `agents` lack.
    """

    definitions: DefinitionRegistry
    agents: dict[str, ResolvedAgent] = field(default_factory=dict)
    mcp_agents: dict[str, Source] = field(default_factory=dict)
    python: python_module.PythonDefinitions = field(default_factory=python_module.PythonDefinitions)
    budgets: tuple[SharedBudget, ...] = ()
    schedules: dict[str, ScheduleDefinition] = field(default_factory=dict)
    advice: tuple[file_problems.FileProblem, ...] = ()

    @cached_property
    def bound_activities(self) -> frozenset[str]:
        """Return the activities that tools, hooks and skills name."""
        agents, tools = self.agents.values(), self.all_tools
        bindings = [tool.activity for tool in tools]
        bindings += (skill.activity for agent in agents for skill in agent.skills)
        hooks = chain(*(tool.hooks for tool in tools), *(agent.hooks for agent in agents))
        named = (*bindings, *(each for _, each in hooks))
        return frozenset(each.type for each in named if isinstance(each, ActivityBinding))

    @property
    def all_tools(self) -> list[ResolvedTool]:
        """Return the tools of the catalog, of its agents and skills alone, and of skills' rules."""
        agents = self.agents.values()
        skills = [skill for agent in agents for skill in agent.skills]
        return [
            *self.definitions.tools.values(),
            *(tool for agent in agents for tool in agent.tools),
            *(tool for skill in skills for tool in skill.tools),
            *(
                skill.rules.model_copy(update={"activity": skill.activity})
                for skill in skills
                if skill.rules is not None
            ),
        ]


@dataclass
class CurrentCatalog:
    """A reference to the current catalog, which a reload replaces in one assignment."""

    catalog: Catalog


def load_catalog(
    folder: Path | None = None,
    python: Iterable[python_module.PythonSource] = (),
    *,
    endpoints: Collection[str] | None = (),
    task_queue: str = names.TASK_QUEUE,
    knowledge_urls: Collection[AddressPrefix] = (),
    read_definition: python_module.DefinitionReader,
    activities: Collection[str] = (),
    servers: Mapping[str, Server] | None = None,
    budgets: Sequence[SharedBudget] = (),
    served: Mapping[str, Endpoint] | None = None,
    principal_tokens: bool = False,
) -> Catalog:
    """Load the tools, agents, budgets and schedules of a folder, and those of Python.

    Activities on `task_queue` must be among theirs, or among the other `activities` of the worker.
    Without `endpoints` (None), it is unknown which ones agents may use; `served` are their
    settings.

    Raises:
        LoadError: a tool, an agent or a module does not load.
    """
    world = DefinitionRegistry(
        task_queue=task_queue,
        activities=activities,
        endpoints=endpoints,
        knowledge_urls=knowledge_urls,
        servers=servers or {},
        budgets=budgets,
        served=served or {},
        principal_tokens=principal_tokens,
    )
    before = Path.cwd()
    found = python_module.PythonDefinitions()
    problems: list[file_problems.FileProblem] = []
    for source in dict.fromkeys(python):
        try:
            found += python_module.read_python(source, read_definition)
        except file_problems.LoadError as error:
            problems += error.problems
    if folder is not None and Path.cwd() != before:  # a module has changed the working folder
        folder = before / folder
    return _Loading(world, found, problems, folder).catalog()


def reload_catalog(catalog: Catalog, folder: Path) -> Catalog:
    """Load a folder again, with the Python modules of an earlier load.

    The modules are not imported again: their activities are registered already, and a second
    version of one would conflict with the first.

    Raises:
        LoadError: a tool or an agent does not load.
    """
    return _Loading(catalog.definitions, catalog.python, [], folder).catalog()


class _Loading:
    """The tools and agents that load, and the problems of the others, which `catalog` raises."""

    def __init__(
        self,
        world: DefinitionRegistry,
        python: python_module.PythonDefinitions,
        problems: list[file_problems.FileProblem],
        folder: Path | None,
    ) -> None:
        """Add the activities of Python, all of them before any tool is read."""
        self._problems = problems
        self._python_agents = python.agents
        self._folder = folder
        self._tools: dict[str, ResolvedTool] = {}
        self._broken: set[str] = set()
        self._agents: dict[str, ResolvedAgent] = {}
        self._sources: dict[tuple[str, str], Source] = {}
        self._activities: dict[str, python_module.PythonActivity] = {}
        self._advice: list[file_problems.FileProblem] = []
        self._schema_advice: list[file_problems.FileProblem] = []
        for found in python.activities:
            if found.name in names.RESERVED_ACTIVITIES:
                reason = f"the activity name `{found.name}` is the worker's own"
                fix = 'give it another: `@activity.defn(name="…")`'
                problems.append(found.source.problem(ValueProblem((), reason, fix)))
            elif self._is_free("activity", found.name, found.source):
                self._activities[found.name] = found
        self._world = replace(
            world,
            tools=self._tools,
            broken_tools=self._broken,
            agents=None,
            resolved=ContentCache(),
            activities=frozenset([*world.activities, *self._activities]),
            signatures={name: each.signature for name, each in self._activities.items()},
            is_incomplete=bool(problems),
        )
        try:
            self._world = replace(self._world, limits=load_limits(folder))
            self._world = replace(self._world, mcp_lock=load_lock(folder))
        except file_problems.LoadError as error:
            problems += error.problems
        for each in policy_advice(self._world.limits.approval):
            advice = file_problems.FileProblem(
                f"{folder}/{LIMITS}", None, each.reason, each.fix, "approval"
            )
            self._advice.append(advice)
        for found in self._activities.values():
            if found.is_tool:
                self._add_tool(found.source, found.name)

    def catalog(self) -> Catalog:
        """Return the catalog, with the folder's tools and agents.

        Agents name tools, and tools need only the names of agents.
        """
        count = len(self._problems)
        tools, agents = ((), ()) if self._folder is None else self._read_folder(self._folder)
        agents = [*self._python_agents, *agents]
        named = {_name_in(each.value, "name") or Path(each.file).stem for each in agents}
        # Unknown if one cannot be read.
        known = None if len(self._problems) > count else frozenset(named)
        self._world = replace(self._world, agents=known)
        for source in tools:
            if isinstance(source.value, list):
                for n, value in enumerate(source.value):
                    self._add_tool(replace(source, value=value, base_path=(n,)), None)
            else:
                self._add_tool(source, Path(source.file).stem)
        tools_by_activity = ToolsByActivity(self._tools.values(), self._world)
        for name, tool in self._tools.items():
            source = self._sources["tool", name]
            faults = unstated_effects(source.value, tool, tools_by_activity)
            self._problems += source.problems(faults)
        for source in agents:
            self._add_agent(source)
        for name, fault in cycle_problems(self._agents):
            self._problems.append(self._sources["agent", name].problem(fault))
        mcp_agents = {
            name: source
            for name in self._agents
            if named_servers((source := self._sources["agent", name]).value)
        }
        budgets = self._budgets()
        waits = any(each.on_limit == "ask" for each in budgets)
        schedules = self._schedules(self._agents if waits else mcp_agents)
        if self._problems:
            raise file_problems.LoadError(self._problems)
        for each in self._schema_advice:
            logger.warning("%s", each)
        world = replace(self._world, agents=frozenset(self._agents))
        python = python_module.PythonDefinitions(
            tuple(self._activities.values()), self._python_agents
        )
        advice = (*self._schema_advice, *self._advice)
        return Catalog(world, self._agents, mcp_agents, python, budgets, schedules, advice)

    def _budgets(self) -> tuple[SharedBudget, ...]:
        served, prices = self._world.served, dict[str, Price | None]()
        is_whole = not (self._problems or self._world.servers)
        for name, agent in self._agents.items():
            own, place = prices_of(agent.models, served), cost_limit(agent.budget)
            faults = [cost_problem(place, each) for each in own if place and own[each] is None]
            self._problems += self._sources["agent", name].problems(faults)
            prices |= own
        tools = Catalog(self._world, self._agents).all_tools if is_whole else None
        known = None if tools is None else [each.name for each in tools]
        try:
            budgets = load_budgets(self._folder, self._world.budgets, known, prices)
        except file_problems.LoadError as error:
            self._problems += error.problems
            return ()
        for name, agent in self._agents.items():
            advice = [budget_advice(budgets)] if budgets and agent.model is not None else []
            if cost_limit(agent.budget) or any(each.max_cost for each in budgets):
                advice += list_advice(agent.models, served)
            self._advice += self._sources["agent", name].problems(advice)
        return budgets

    def _schedules(self, waiting: Collection[str]) -> dict[str, ScheduleDefinition]:
        files = () if self._folder is None else self._files(self._folder, SCHEDULES) or ()
        tokens = self._world.principal_tokens
        try:
            return load_schedules(files, self._agents, waiting, principal_tokens=tokens)
        except file_problems.LoadError as error:
            self._problems += error.problems
            return {}

    def _read_folder(self, folder: Path) -> tuple[Iterable[Source], Sequence[Source]]:
        """Return the folder's tools and agents as they are written; the tools are read later."""
        self._world = replace(self._world, folder=folder.absolute())
        tools, agents = self._files(folder, TOOLS), self._files(folder, AGENTS)
        lost = list(unread_file_problems(folder))
        self._problems.extend(lost)
        is_empty = tools is None and agents is None and self._world.limits == NO_LIMITS
        is_empty = is_empty and not (folder / BUDGETS).exists()
        if is_empty and self._world.mcp_lock is None and not lost:
            reason = "it has neither a folder `tools` nor a folder `agents`"
            fix = "make one of them, or name another folder with `--catalog`"
            self._problems.append(file_problems.FileProblem(str(folder), None, reason, fix))
        written = [source for path in agents or () if (source := self._read(path)) is not None]
        return filter(None, map(self._read, tools or ())), written

    def _files(self, folder: Path, kind: str) -> list[Path] | None:
        try:
            return list_files(folder, kind)
        except file_problems.UnreadableError as error:
            self._problems.append(error.in_file(folder / kind))
            return []

    def _read(self, path: Path) -> Source | None:
        try:
            return read_source(path)
        except file_problems.LoadError as error:
            self._problems += error.problems
            return None

    def _add_tool(self, source: Source, name: str | None) -> None:
        try:
            tool = resolve_tool(source.value, name, self._world)
        except file_problems.InvalidValueError as refused:
            self._broken.add(_name_in(source.value, "_tool") or name or "")
            self._problems.extend(source.problems(refused.faults))
            return
        if self._is_free("tool", tool.name, source):
            self._tools[tool.name] = tool
            self._schema_advice += source.problems(schema_advice(source.value, is_tool=True))
            loose = self._unlimited(tool, partial(resolve_tool, source.value, tool.name))
            advice = [*tool_advice(loose), *limit_advice(loose, tool)]
            self._advice += source.problems([*advice, *nullable_advice(source.value)])

    def _add_agent(self, source: Source) -> None:
        try:
            agent = resolve_definition(source.value, Path(source.file).stem, self._world)
        except file_problems.InvalidValueError as refused:
            self._problems.extend(source.problems(refused.faults))
            return
        if agent.name == ANONYMOUS:
            reason = f"a delegate `{ANONYMOUS}` cannot be an agent of the catalog"
            fault = ValueProblem((), reason, "give it another name")
            self._problems.append(source.problem(fault))
        elif self._is_free("agent", agent.name, source):
            self._agents[agent.name] = agent
            self._schema_advice += source.problems(schema_advice(source.value, is_tool=False))
            loose = self._unlimited(agent, partial(resolve_definition, source.value, agent.name))
            advice = [*agent_advice(source.value, loose), *limit_advice(loose, agent)]
            self._advice += source.problems(advice)

    def _unlimited(self, made: MadeT, read: Callable[[DefinitionRegistry], MadeT]) -> MadeT:
        is_limited = self._world.limits != NO_LIMITS
        return read(replace(self._world, limits=NO_LIMITS)) if is_limited else made

    def _is_free(self, kind: str, name: str, source: Source) -> bool:
        first = self._sources.setdefault((kind, name), source)
        one, two = ((each.file, each.base_path, each.line()) for each in (first, source))
        if one == two:
            return True
        reason = f"the {kind} name `{name}` is used by {first.file}:{first.line()}"
        fault = ValueProblem((), reason, "give one of them another name")
        self._problems.append(source.problem(fault))
        return False


def _name_in(written: Any, key: str) -> str | None:
    name = written.get(key) if isinstance(written, dict) else None
    return name if isinstance(name, str) else None
