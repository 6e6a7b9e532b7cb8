"""What a backtest's worker lets through: requests to models, and what reads the record.

Every binding of a resolved agent is replaced by an activity that answers from the record, so that
no run can name another one; an activity of another name is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.activities.backtest.recorded_activities import TIMED_OUT
from holdfast.catalog.mcp_tools import ListedTool, Listing
from holdfast.runtime.backtest.recorded_answers import RecordedAnswers
from holdfast.runtime.backtest.run_record import MessageRecord
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas import names
from holdfast.schemas.agent import AgentSnapshot, ModelSettings, ResolvedAgent
from holdfast.schemas.tool import ActivityBinding, Hooks, RepairAgent, ResolvedTool, Retry

ALLOWED: Final = frozenset(
    (
        *(names.GENERATE, names.RESOLVE_AGENT, names.CHECK_TOKEN, names.READ_FORK),
        *(names.FIND_SIGNALS, names.RECORDED_CALL, names.RECORDED_HOOK),
    )
)
_ONCE: Final = Retry(maximum_attempts=1)
_LONGEST: Final = timedelta(minutes=15)
# Longer than a workflow waits within a task.
_PAUSE: Final = timedelta(milliseconds=200)
_CALL: Final = ActivityBinding(
    type=names.RECORDED_CALL, input="call", start_to_close_timeout=_LONGEST, retry=_ONCE
)
_HOOK: Final = ActivityBinding(type=names.RECORDED_HOOK, retry=_ONCE)
# The facts that would have a run write, send, count or trace outside of itself.
_FACTS: Final[dict[str, Any]] = {
    "search_attributes": [],
    "notify": None,
    "notifiers": [],
    "tracing": None,
    "delegates": {},
    "counted_tools": [],
    "catalog_only": False,
}
ModelT = TypeVar("ModelT", bound=BaseModel)


class BacktestGate(ActivityInboundInterceptor):
    """Lets an activity of a backtest run if it is one of `ALLOWED`.

    A message of the record is sent while the request of its turn is made: the run reads it before
    the next one, as the recorded run did.
    """

    def __init__(
        self,
        inner: ActivityInboundInterceptor,
        *,
        client: Client,
        backtests: Mapping[str, RecordedAnswers],
        model: ModelSettings | None,
    ) -> None:
        super().__init__(inner)
        self._client, self._backtests, self._model = client, backtests, model

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Execute an activity that is allowed; the SDK calls this."""
        info = activity.info()
        if info.activity_type not in ALLOWED:
            message = f"a backtest runs no activity `{info.activity_type}`"
            raise ApplicationError(message, type=names.STOP_RUN, non_retryable=True)
        answers = self._backtests.get(info.workflow_id or "")
        if info.activity_type == names.GENERATE and answers is not None:
            await self._send(answers.take_messages(call.args[0].get("turn", 0)))
        if info.activity_type != names.RESOLVE_AGENT:
            return await self.next.execute_activity(call)
        if answers is not None and (early := answers.take_messages(0)):
            await self._send(early)
            # They are read before the next attempt, and so before the first turn.
            raise ApplicationError(
                "the run receives the messages that it began with",
                next_retry_delay=_PAUSE,
                category=ApplicationErrorCategory.BENIGN,
            )
        return self._resolved(await self._resolve(call), answers)

    async def _send(self, messages: Sequence[MessageRecord]) -> None:
        run = self._client.get_workflow_handle(activity.info().workflow_id or "")
        for each in messages:
            delivery = "followUp" if each.was_awaited else "steer"
            sent = each.message.model_copy(update={"delivery": delivery})
            await run.signal(names.MESSAGE, {"role": sent.role, **sent.to_json()})

    async def _resolve(self, call: ExecuteActivityInput) -> dict[str, Any]:
        try:
            found: dict[str, Any] = await self.next.execute_activity(call)
            return found
        except ApplicationError as error:
            # Without its details: no list is to have the failure.
            raise ApplicationError(
                error.message,
                type=error.type,
                non_retryable=error.non_retryable,
                next_retry_delay=error.next_retry_delay,
                category=error.category,
            ) from None

    def _resolved(
        self, snapshot: dict[str, Any], answers: RecordedAnswers | None
    ) -> dict[str, Any]:
        read = AgentSnapshot.read(snapshot)
        agent = read.agent
        if answers is not None:
            agent = _with_model(_with_recorded_tools(agent, answers), self._model)
        agent = _rewritten(agent, _CALL)
        if answers is not None:
            timed_out = {one.tool for one in answers.record.calls if one.has_timed_out}
            slow = {"activity": _CALL.model_copy(update={"heartbeat_timeout": TIMED_OUT})}
            agent = _with_tools(
                agent,
                lambda tool: (
                    tool.model_copy(update=slow)
                    if tool.activity is not None and tool.name in timed_out
                    else tool
                ),
            )
            answers.agent = agent
        facts = read.worker.model_copy(update=_FACTS)
        return AgentSnapshot(agent=agent, worker=facts).to_json()


def recorded_listing(answers: RecordedAnswers | None, servers: Collection[str]) -> Listing:
    """Return what servers listed for a recorded run, or raise `InvalidValueError` without it."""
    snapshot = None if answers is None else answers.record.snapshot
    agent = None if snapshot is None else snapshot.agent
    tools = [] if agent is None else agent.all_tools
    listing: dict[str, list[ListedTool]] = {}
    for server in servers:
        listing[server] = [
            ListedTool(
                name=tool.mcp.tool,
                title=tool.label,
                description=tool.description,
                input_schema=tool.parameters,
                output_schema=tool.output if isinstance(tool.output, dict) else None,
            )
            for tool in tools
            if tool.mcp is not None and tool.mcp.server == server
        ]
        if "/" in server and agent is not None and answers is not None and answers.is_same_agent:
            # A prompt, which was its instructions.
            listing[server] = [ListedTool(name=server, description=agent.instructions)]
        elif not listing[server]:
            reason = f"a backtest has what the recorded run had of MCP servers: not `{server}`"
            raise InvalidValueError.of(reason, "name tools that it had")
    return listing


def _with_recorded_tools(agent: ResolvedAgent, answers: RecordedAnswers) -> ResolvedAgent:
    """Return an agent whose tools of MCP servers are those of the run that a record is of."""
    snapshot = answers.record.snapshot
    recorded = {
        (tool.mcp.server, tool.mcp.tool): tool
        for tool in ([] if snapshot is None else snapshot.agent.all_tools)
        if tool.mcp is not None
    }

    def as_recorded(tool: ResolvedTool) -> ResolvedTool:
        return tool if tool.mcp is None else recorded.get((tool.mcp.server, tool.mcp.tool), tool)

    return _with_tools(agent, as_recorded)


def _with_tools(
    agent: ResolvedAgent, change: Callable[[ResolvedTool], ResolvedTool]
) -> ResolvedAgent:
    skills = [
        each.model_copy(update={"tools": [*map(change, each.tools)]}) for each in agent.skills
    ]
    return agent.model_copy(update={"tools": [*map(change, agent.tools)], "skills": skills})


def _with_model(agent: ResolvedAgent, model: ModelSettings | None) -> ResolvedAgent:
    if model is None or agent.model is None:
        return agent
    named = {"endpoint": model.endpoint, "name": model.name}
    changed = agent.model.model_copy(update=named)
    return agent.model_copy(update={"model": changed, "fallbacks": []})


def _rewritten(value: ModelT, binding: ActivityBinding) -> ModelT:
    """Return a definition whose activities and delegates, with their names, a record answers."""
    changes: dict[str, Any] = {}
    own = _HOOK if isinstance(value, Hooks) else binding
    for name in type(value).model_fields:
        match getattr(value, name):
            case ActivityBinding() | RepairAgent():
                changes[name] = own
            case BaseModel() as one:
                changes[name] = _rewritten(one, own)
            case list() as several:
                changes[name] = [
                    _rewritten(one, own) if isinstance(one, BaseModel) else one for one in several
                ]
            case True if name == "signed":
                changes[name] = False
    if isinstance(value, ResolvedTool):
        changes["memory"] = None
        if value.delegate is not None:
            changes["activity"] = binding
    return value.model_copy(update=changes)
