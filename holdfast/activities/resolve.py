"""The activities `resolve_agent` and `resolve_tool`: the definition of a run or a call.

A run or a call reads its definition when it starts, and uses it until it ends.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from holdfast.catalog.advice import schema_advice, server_advice
from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.loader import CurrentCatalog
from holdfast.catalog.mcp_tools import Listing, ListServers, named_servers, tool_of_entry
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.agent import AgentSnapshot, ResolvedAgent, ToolSnapshot, WorkerFacts
from holdfast.schemas.base import Strict, json_size
from holdfast.schemas.internal.tracing import Tracing
from holdfast.schemas.message import ContextMessage
from holdfast.schemas.phrases import no_agent, suggest_names
from holdfast.schemas.run import CallRequest, RunRequest
from holdfast.schemas.tool import ANONYMOUS
from holdfast.validation.problems import ValueProblem, problems_of, summarize_problems, under

# Of a server that cannot be reached; with the pauses between them (1, 2, 4, 8 and 16 s), half a
# minute. Temporal would make more, and would then report no reason. The time since the first is not
# known: after a pause, an attempt of a local activity has a `scheduled_time` of its own.
MAX_ATTEMPTS = 6
LISTING_PAUSE = timedelta(seconds=1)
# Of the definitions of delegates that a run keeps, beside its own.
MAX_DELEGATES_BYTES = 250_000
RequestT = TypeVar("RequestT", bound=Strict)

logger = logging.getLogger("holdfast")


class DefinitionResolver:
    """Resolves agents and tools of the catalog; `tracing` returns how the run is traced.

    Each answer reads the current catalog once, since it may be replaced at any time. `list_tools`
    lists the tools of MCP servers; these are resolved for each run.
    """

    def __init__(
        self,
        shelf: CurrentCatalog,
        facts: Callable[[], WorkerFacts],
        tracing: Callable[[], Tracing] | None = None,
        list_tools: ListServers | None = None,
    ) -> None:
        self._shelf = shelf
        self._facts = facts
        self._tracing = tracing
        self._list_tools = list_tools
        # The listings, by server, with schemas that were checked.
        self._checked: dict[str, object] = {}

    # No coroutine: a large inline definition takes a while to check, and must not hold up the loop.
    @activity.defn(name=names.RESOLVE_AGENT)
    def resolve_agent(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the `AgentSnapshot` of a `RunRequest`; the agent in it has at most 1 MB.

        Raises:
            ApplicationError: of type `invalid_request`: the request cannot be resolved. It is
                retryable, for a while, if an MCP server cannot be reached. Its details are the
                search attributes of the namespace, which show the failure: a run without a
                valid request sends an empty one.
        """
        # Those of a parent run, as it started: the file of one may have been deleted since.
        known = {
            name: ResolvedAgent.read(each) for name, each in request.pop("snapshots", {}).items()
        }
        checked = self._check(request, RunRequest)
        match checked:
            case RunRequest(input=None, context=[*_, ContextMessage(role="assistant", calls=[])]):
                fault = ValueProblem(("context",), "it holds no new message", "add one")
                raise self._invalid([fault])
        catalog, definition = self._shelf.catalog, request["agent"]
        world = catalog.definitions
        listing: Listing = {}
        try:
            if isinstance(definition, dict):
                listing = self._listing(definition, world)
                world = replace(world, is_inline=True)
                agent = resolve_definition(definition, names.UNNAMED_AGENT, world, listing)
                advice = schema_advice(definition, is_tool=False)
                _log_advice(under(advice, "agent"))
            elif definition in catalog.mcp_agents:
                written = catalog.mcp_agents[definition].value
                listing = self._listing(written, world)
                agent = resolve_definition(written, definition, world, listing)
            elif definition in catalog.agents:
                agent = catalog.agents[definition]
            elif definition in known:
                agent = known[definition]
            else:
                none = "this worker has no agents: see `--catalog`"
                fix = suggest_names(definition, catalog.agents, none)
                raise InvalidValueError.of(no_agent(definition), fix)
        except InvalidValueError as error:
            raise self._invalid(under(error.faults, "agent"), listing) from None
        delegates = _delegates_of(agent, {**known, **catalog.agents})
        counted_as = definition if isinstance(definition, str) else names.UNNAMED_AGENT
        facts = self._of_worker(counted_as).model_copy(update={"delegates": delegates})
        return AgentSnapshot(agent=agent, worker=facts).to_json()

    @activity.defn(name=names.RESOLVE_TOOL)
    def resolve_tool(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the `ToolSnapshot` of a single call's `CallRequest`.

        Raises:
            ApplicationError: as `resolve_agent` does.
        """
        self._check(request, CallRequest)
        entry, world = request["tool"], self._shelf.catalog.definitions
        listing = self._listing(entry, world)
        try:
            tool = tool_of_entry(entry, world, listing)
            if tool.latent or tool.delegate == ANONYMOUS:
                reason = f"`{tool.name}` is for a model to answer, and a single call has no model"
                raise InvalidValueError.of(reason, "name a tool with an activity")
            if isinstance(entry, dict):
                _log_advice(under(schema_advice(entry, is_tool=True), "tool"))
        except InvalidValueError as error:
            raise self._invalid(under(error.faults, "tool"), listing) from None
        return ToolSnapshot(tool=tool, worker=self._of_worker()).to_json()

    def _listing(self, written: Any, world: DefinitionRegistry) -> Listing:
        """Return what the MCP servers list that a definition names, as far as they are known."""
        names = named_servers(written)
        known = [each for each in names if each.partition("/")[0] in world.servers]
        try:
            listing = self._list_tools(known) if known and self._list_tools is not None else {}
        except TimeoutError:
            message = f"the MCP servers {', '.join(known)} have not listed their tools yet"
            pause, benign = LISTING_PAUSE, ApplicationErrorCategory.BENIGN
            raise ApplicationError(message, next_retry_delay=pause, category=benign) from None
        for name in world.servers:
            tools = listing.get(name, "")
            if not isinstance(tools, str) and tools != self._checked.get(name):
                self._checked[name] = tools
                _log_advice(server_advice(name, tools, world))
        return listing

    def _of_worker(self, counted_as: str | None = None) -> WorkerFacts:
        """Return the facts about the worker; tracing and budgets are decided for each run."""
        facts: dict[str, Any] = {} if self._tracing is None else {"tracing": self._tracing()}
        if budgets := self._shelf.catalog.budgets:
            tools = {tool for each in budgets for tool in each.max_calls}
            facts |= {"counted_as": counted_as, "counted_tools": sorted(tools)}
        return self._facts().model_copy(update=facts)

    def _check(self, request: dict[str, Any], model: type[RequestT]) -> RequestT:
        try:
            return model.model_validate(request)
        except ValidationError as error:
            raise self._invalid(problems_of(error, request, model)) from None

    def _invalid(
        self, faults: Iterable[ValueProblem], listing: Listing | None = None
    ) -> ApplicationError:
        is_unreachable = any(isinstance(each, str) for each in (listing or {}).values())
        is_retried = is_unreachable and activity.info().attempt < MAX_ATTEMPTS
        return ApplicationError(
            summarize_problems(list(faults)),
            *self._facts().search_attributes,
            type=names.INVALID_REQUEST,
            non_retryable=not is_retried,
            category=ApplicationErrorCategory.BENIGN,
        )


def _delegates_of(
    agent: ResolvedAgent, agents: Mapping[str, ResolvedAgent]
) -> dict[str, ResolvedAgent]:
    """Return the agents that one may delegate to, also through another; none if they are large."""
    found, left = dict[str, ResolvedAgent](), [agent]
    while left:
        one = left.pop()
        for tool in one.all_tools:
            name = tool.delegate
            if name is not None and name in agents and name not in found:
                found[name] = agents[name]
                left.append(agents[name])
    sizes = [json_size(each.to_json()) for each in found.values()]
    return found if sum(sizes) <= MAX_DELEGATES_BYTES else {}


def _log_advice(advice: Iterable[ValueProblem]) -> None:
    if found := list(advice):
        text = " ".join(clean(summarize_problems(found)).split())
        logger.warning("run %s: %s", activity.info().workflow_id, text)
