"""Permits of activities: the worker executes those with privileges for admitted runs alone.

An activity has privileges if a tool of the catalog with side effects, or with required scopes, is
bound to it. See `runtime/identity/permits.py` for what a permit is.

A reset copies scheduled activities with their headers into a run with another id. So the permit may
be of a run that this one is a reset of: its history names these, which no client can write.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from holdfast.catalog.loader import CurrentCatalog
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.identity.permits import Kind, PermittedUse
from holdfast.schemas import names


class PermitInterceptor(Interceptor):
    """Refuses activities with privileges that no admitted run has started, and signs results.

    Args:
        keys: sign and verify.
        client: reads the histories of reset runs.
        current_catalog: has the activities that need a permit now.
    """

    def __init__(self, keys: KeyRing, client: Client, current_catalog: CurrentCatalog) -> None:
        self._keys = keys
        self._client = client
        self._catalog = current_catalog

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        check = self._check

        class Permitted(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                await check(input)
                return await super().execute_activity(input)

        return Permitted(inner)

    def sign_result(self, result: Payload) -> None:
        """Sign the result of the current activity, if it has one attempt: so has a once-call."""
        policy = activity.info().retry_policy
        if policy is not None and policy.maximum_attempts == 1:
            result.metadata[names.PERMIT] = _current_use("result", [result]).sign(self._keys)

    async def _check(self, call: ExecuteActivityInput) -> None:
        info, permit = activity.info(), call.headers.get(names.PERMIT, Payload()).data
        if info.is_local or info.activity_type not in self._catalog.catalog.privileged_activities:
            return
        use = _current_use("activity", activity.payload_converter().to_payloads(call.args))
        if use.is_signed(self._keys, permit):
            return
        # A standalone activity has no run.
        if not (permit and use.run_id and await self._is_of_base_run(use, permit)):
            reason = (
                f"`{use.type}` was not run: no run that a worker with these `--permits` has"
                " admitted has started it; start a run of this worker"
            )
            raise ApplicationError(reason, type=names.NO_PERMIT, non_retryable=True)

    async def _is_of_base_run(self, use: PermittedUse, permit: bytes) -> bool:
        """Return whether a permit is of a run that this one is a reset of, in one or more steps."""
        run = self._client.get_workflow_handle(use.workflow_id, run_id=use.run_id)
        async for event in run.fetch_history_events():
            started = event.workflow_execution_started_event_attributes
            if started.original_execution_run_id == use.run_id:
                return False  # it is no reset
            base = event.workflow_task_failed_event_attributes.base_run_id
            if base and replace(use, run_id=base).is_signed(self._keys, permit):
                return True
        return False


def _current_use(kind: Kind, payloads: Sequence[Payload]) -> PermittedUse:
    info = activity.info()
    return PermittedUse(
        *(kind, info.namespace, info.workflow_id or "", info.workflow_run_id or ""),
        *(info.activity_id, info.activity_type, payloads),
    )
