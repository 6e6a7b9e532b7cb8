"""Permits of activities: the worker runs its tools and hooks for admitted runs alone.

See `runtime/identity/permits.py` for what a permit is. A reset copies scheduled activities with
their headers into a run with another id. So the permit may be of a run that this one is a reset of:
its history names these, which no client can write.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.identity.permits import Kind, PermittedUse
from holdfast.schemas import names


class PermitCheck(ActivityInboundInterceptor):
    """Refuses activities that no admitted run has started, if the worker has `keys`.

    Types that are exempt need no permit. The arguments of the others are `RawValue`s: decoded and
    encoded again, they may be other bytes.
    """

    def __init__(
        self,
        inner: ActivityInboundInterceptor,
        *,
        keys: KeyRing | None,
        client: Client,
        is_exempt: Callable[[str], bool],
    ) -> None:
        super().__init__(inner)
        self._keys, self._client, self._is_exempt = keys, client, is_exempt

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        """Check the permit, and execute the activity; the SDK calls this."""
        info = activity.info()
        if self._keys is not None and not (info.is_local or self._is_exempt(info.activity_type)):
            permit = input.headers.get(names.PERMIT, Payload()).data
            arguments = activity.payload_converter().to_payloads(input.args)
            await self._check(_current_use("activity", arguments), permit, self._keys)
        return await super().execute_activity(input)

    async def _check(self, use: PermittedUse, permit: bytes, keys: KeyRing) -> None:
        if use.is_signed(keys, permit):
            return
        if permit and use.run_id:  # a standalone activity has no run
            run = self._client.get_workflow_handle(use.workflow_id, run_id=use.run_id)
            # The runs that this one is a reset of, in one or more steps.
            async for event in run.fetch_history_events():
                started = event.workflow_execution_started_event_attributes
                if started.original_execution_run_id == use.run_id:
                    break  # it is no reset
                base = event.workflow_task_failed_event_attributes.base_run_id
                if base and replace(use, run_id=base).is_signed(keys, permit):
                    return
        reason = (
            f"`{use.type}` was not run: no run that a worker with these `--permits` has"
            " admitted has started it; start a run of this worker"
        )
        raise ApplicationError(reason, type=names.NO_PERMIT, non_retryable=True)


def sign_result(result: Payload, keys: KeyRing | None) -> None:
    """Sign the result of the current activity, if it has one attempt: so has a once-call."""
    policy = activity.info().retry_policy
    if keys is not None and policy is not None and policy.maximum_attempts == 1:
        result.metadata[names.PERMIT] = _current_use("result", [result]).sign(keys)


def _current_use(kind: Kind, payloads: Sequence[Payload]) -> PermittedUse:
    info = activity.info()
    return PermittedUse(
        *(kind, info.namespace, info.workflow_id or "", info.workflow_run_id or ""),
        *(info.activity_id, info.activity_type, payloads),
    )
