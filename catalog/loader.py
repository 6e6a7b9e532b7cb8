"""The catalog: every tool and agent of a worker, checked in full before the worker accepts work.

Tools come from a folder and from Python modules, agents from the folder. All problems are reported
at once, each with its file, line, reason and fix, and stop the worker.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.catalog_files import (
    AGENT_SUFFIXES,
    AGENTS,
    TOOL_SUFFIXES,
    TOOLS,
    UnlistableFolderError,
    list_files,
    unread_file_problems,
)
from holdfast.catalog.module_import import ImportFailedError
from holdfast.catalog.python_module import DefinitionReader, PythonActivity, read_module
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.catalog.tool_reader import resolve_tool
from holdfast.runtime.addresses import AddressPrefix
from holdfast.runtime.settings_files.file_problems import (
    FileProblem,
    InvalidValueError,
    LoadError,
    UnreadableError,
)
from holdfast.runtime.settings_files.source import Source, read_source
from holdfast.schemas import names
from holdfast.schemas.agent import Agent
from holdfast.schemas.tool import ANONYMOUS, ActivityBinding, Tool
from holdfast.validation.problems import ValueProblem


@dataclass(frozen=True)
class Catalog:
    """Tools and agents by name, and the activities of the Python modules."""

    definitions: DefinitionRegistry
    agents: dict[str, Agent] = field(default_factory=dict)
    python_activities: tuple[PythonActivity, ...] = ()

    @property
    def activities(self) -> list[Callable[..., Any]]:
        """Return the activities of the Python modules, to register."""
        return [each.run for each in self.python_activities]

    @property
    def unbound_activities(self) -> list[PythonActivity]:
        """Return the activities that are not tools, and that no tool, hook or skill names."""
        bound = {binding.type for binding in self._bindings() if binding is not None}
        return [each for each in self.python_activities if each.name not in bound]

    def _bindings(self) -> Iterator[ActivityBinding | None]:
        agents = self.agents.values()
        skills = [skill for agent in agents for skill in agent.skills]
        tools = [
            *self.definitions.tools.values(),
            *(tool for agent in agents for tool in agent.tools),
            *(tool for skill in skills for tool in skill.tools),
        ]
        yield from (tool.activity for tool in tools)
        yield from (skill.activity for skill in skills)
        for hooks in (*(tool.hooks for tool in tools), *(agent.hooks for agent in agents)):
            yield from (hooks.prepare, hooks.repair, hooks.before, hooks.after)


@dataclass
class CurrentCatalog:
    """A reference to the current catalog, which a reload replaces in one assignment."""

    catalog: Catalog


def load_catalog(
    folder: Path | None = None,
    modules: Sequence[str] = (),
    *,
    read_definition: DefinitionReader,
    endpoints: Collection[str] | None = (),
    task_queue: str = names.TASK_QUEUE,
    knowledge_urls: Collection[AddressPrefix] = (),
) -> Catalog:
    """Load a folder's tools and agents, and the tools of Python modules.

    Args:
        folder: holds `tools/` (`.json`, `.yaml`, `.yml`) and `agents/` (these, and `.md`).
        modules: dotted names, or paths of `.py` files.
        read_definition: returns the definition of an activity, and None for any other value.
        endpoints: the names of the endpoints that agents may use; None if they are unknown.
        task_queue: the worker's own task queue: activities on it must be among those of the
            modules.
        knowledge_urls: the addresses that knowledge may be fetched from.

    Raises:
        LoadError: a tool, an agent or a module does not load.
    """
    loading = _Loading(
        DefinitionRegistry(
            task_queue=task_queue, endpoints=endpoints, knowledge_urls=knowledge_urls
        )
    )
    before = Path.cwd()
    loading.imported(loading.modules(modules, read_definition))
    if folder is not None and Path.cwd() != before:  # a module has changed the working folder
        folder = before / folder
    return loading.catalog(folder)


def reload_catalog(catalog: Catalog, folder: Path) -> Catalog:
    """Load a folder again, with the Python modules of an earlier load.

    The modules are not imported again: their activities are registered already, and a second
    version of one would conflict with the first.

    Raises:
        LoadError: a tool or an agent does not load.
    """
    loading = _Loading(catalog.definitions)
    loading.imported(catalog.python_activities)
    return loading.catalog(folder)


class _Loading:
    def __init__(self, world: DefinitionRegistry) -> None:
        self._tools: dict[str, Tool] = {}
        self._broken: set[str] = set()
        self.world = replace(world, tools=self._tools, broken_tools=self._broken, agents=None)
        self.activities: dict[str, PythonActivity] = {}
        self.agents: dict[str, Agent] = {}
        self.problems: list[FileProblem] = []
        self._places: dict[tuple[str, str], Source] = {}

    def catalog(self, folder: Path | None) -> Catalog:
        """Return the catalog, with the folder's tools and agents."""
        if folder is not None:
            self._folder(folder)
        if self.problems:
            raise LoadError(self.problems)
        world = replace(self.world, agents=frozenset(self.agents))
        return Catalog(world, self.agents, tuple(self.activities.values()))

    def modules(
        self, modules: Sequence[str], read_definition: DefinitionReader
    ) -> Iterator[PythonActivity]:
        for name in dict.fromkeys(modules):
            try:
                yield from read_module(name, read_definition)
            except ImportFailedError as error:
                self.problems.append(error.problem)

    def imported(self, activities: Iterable[PythonActivity]) -> None:
        """Add the modules' activities, all of them before any tool is read."""
        for found in activities:
            self._add_activity(found)
        self.world = replace(
            self.world, activities=frozenset(self.activities), is_incomplete=bool(self.problems)
        )
        for found in self.activities.values():
            if found.is_tool:
                self._add_tool(found.source, found.name)

    def _folder(self, folder: Path) -> None:
        """Read the folder; agents name tools, and tools need only the names of agents."""
        problems = len(self.problems)
        tools = self._files(folder / TOOLS, TOOL_SUFFIXES)
        agents = self._files(folder / AGENTS, AGENT_SUFFIXES)
        lost = list(unread_file_problems(folder))
        self.problems.extend(lost)
        if tools is None and agents is None and not lost:
            fix = "make one of them, or name another folder with `--catalog`"
            self._problem(folder, "it has neither a folder `tools` nor a folder `agents`", fix)
        read = [_read(path) for path in agents or ()]
        named = None if len(self.problems) > problems else _agent_names(read)
        self.world = replace(self.world, agents=named, folder=folder.absolute())
        self._add_each(map(_read, tools or ()), self._add_tools)
        self._add_each(read, self._add_agent)

    def _problem(self, file: Path, reason: str, fix: str) -> None:
        self.problems.append(FileProblem(str(file), None, reason, fix))

    def _files(self, folder: Path, suffixes: tuple[str, ...]) -> list[Path] | None:
        try:
            found = list_files(folder, suffixes)
        except UnlistableFolderError as error:
            self._problem(folder, error.reason, error.fix)
            return []
        return None if found is None else [Path(path) for path in found]

    def _add_each(
        self, read: Iterable[Source | FileProblem], add: Callable[[Source, str], None]
    ) -> None:
        for found in read:
            if isinstance(found, FileProblem):
                self.problems.append(found)
            else:
                add(found, Path(found.file).stem)

    def _add_activity(self, found: PythonActivity) -> None:
        if found.name in names.RESERVED_ACTIVITIES:
            reason = f"the activity name `{found.name}` is the worker's own"
            fix = 'give it another: `@activity.defn(name="…")`'
            self.problems.append(found.source.problem(ValueProblem((), reason, fix)))
        elif self._is_free("activity", found.name, found.source):
            self.activities[found.name] = found

    def _add_tools(self, source: Source, stem: str) -> None:
        if not isinstance(source.value, list):
            self._add_tool(source, stem)
            return
        for n in range(len(source.value)):
            self._add_tool(source.child(n), None)

    def _add_tool(self, source: Source, name: str | None) -> None:
        try:
            tool = resolve_tool(source.value, name, self.world)
        except InvalidValueError as refused:
            self._broken.add(_name_in(source.value, "_tool") or name or "")
            self.problems.extend(source.problems(refused.faults))
            return
        if self._is_free("tool", tool.name, source):
            self._tools[tool.name] = tool

    def _add_agent(self, source: Source, stem: str) -> None:
        try:
            agent = resolve_definition(source.value, stem, self.world)
        except InvalidValueError as refused:
            self.problems.extend(source.problems(refused.faults))
            return
        if agent.name == ANONYMOUS:
            reason = f"a delegate `{ANONYMOUS}` is none of the catalog's agents"
            self.problems.append(source.problem(ValueProblem((), reason, "give it another name")))
        elif self._is_free("agent", agent.name, source):
            self.agents[agent.name] = agent

    def _is_free(self, kind: str, name: str, source: Source) -> bool:
        first = self._places.setdefault((kind, name), source)
        if (first.file, first.base_path, first.line()) == (
            source.file,
            source.base_path,
            source.line(),
        ):
            return True
        reason = f"the {kind} name `{name}` is taken by {first.file}:{first.line()}"
        self.problems.append(
            source.problem(ValueProblem((), reason, "give one of them another name"))
        )
        return False


def _read(path: Path) -> Source | FileProblem:
    try:
        return read_source(path)
    except UnreadableError as error:
        return FileProblem(str(path), error.line, error.reason, error.fix)


def _agent_names(read: Iterable[Source | FileProblem]) -> frozenset[str] | None:
    """Return the names of the agents, or None if one of them cannot be read."""
    names = set()
    for each in read:
        if isinstance(each, FileProblem):
            return None
        names.add(_name_in(each.value, "name") or Path(each.file).stem)
    return frozenset(names)


def _name_in(written: Any, key: str) -> str | None:
    name = written.get(key) if isinstance(written, dict) else None
    return name if isinstance(name, str) else None
