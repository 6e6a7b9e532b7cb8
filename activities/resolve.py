"""`resolve_agent`: the definition that a run takes when it starts and keeps until it ends."""

from typing import Any

from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.catalog.agent import resolve_definition
from activities.catalog.faults import Fault, RefusedError, faults_of, nearest
from activities.catalog.loading import Catalog
from schemas import names
from schemas.agent import Agent, Snapshot, WorkerFacts
from schemas.run import RunRequest

# The name of an agent that is written in a request and says none.
UNNAMED_AGENT = "inline"
MAX_FAULTS_TOLD = 5


class AgentResolver:
    """The catalog, as runs ask it for their agent."""

    def __init__(self, catalog: Catalog, facts: WorkerFacts) -> None:
        self._catalog = catalog
        self._facts = facts

    # No coroutine: a large inline definition takes a while to check, and must not hold up the loop.
    @activity.defn(name=names.RESOLVE_AGENT)
    def resolve_agent(self, request: dict[str, Any]) -> dict[str, Any]:
        """Resolve the agent that a run is asked for with.

        Args:
            request: the run's input, a `schemas.run.RunRequest` as JSON.

        Returns:
            a `schemas.agent.Snapshot` as JSON; the agent in it has at most 1 MB.

        Raises:
            ApplicationError: of type `invalid_request`, final: what was asked for cannot be had.
        """
        try:
            return self._snapshot(request).to_json()
        except RefusedError as refused:
            raise _invalid(refused.faults) from None

    def _snapshot(self, request: dict[str, Any]) -> Snapshot:
        try:
            RunRequest.model_validate(request)
        except ValidationError as error:
            invalid = faults_of(error, request, RunRequest)
        else:
            return Snapshot(agent=self._agent(request["agent"]), worker=self._facts)
        raise RefusedError(invalid)

    def _agent(self, asked: str | dict[str, Any]) -> Agent:
        if isinstance(asked, str):
            return self._named(asked)
        try:
            return resolve_definition(asked, UNNAMED_AGENT, self._catalog.world)
        except RefusedError as refused:
            raise RefusedError(fault.under("agent") for fault in refused.faults) from None

    def _named(self, name: str) -> Agent:
        agent = self._catalog.agents.get(name)
        if agent is None:
            mend = nearest(name, self._catalog.agents, "this worker has no agents: see `--catalog`")
            raise RefusedError([Fault(("agent",), f"there is no agent `{name}`", mend)])
        return agent


def _invalid(faults: list[Fault]) -> ApplicationError:
    said = ". ".join(str(fault) for fault in faults[:MAX_FAULTS_TOLD])
    more = len(faults) - MAX_FAULTS_TOLD
    return ApplicationError(
        f"{said}. And {more} more" if more > 0 else said,
        type=names.INVALID_REQUEST,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )
