"""The permits of a workflow: of what it starts, of its own start, of results of activities.

See `runtime/identity/permits.py`. The keys are the worker's and not the run's, so a run records
that a permit was missing: a replay repeats it, whatever the keys are by then.
"""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.worker import ContinueAsNewInput, StartActivityInput, StartChildWorkflowInput

with workflow.unsafe.imports_passed_through():
    from holdfast.runtime.encryption.key_ring import KeyRing
    from holdfast.runtime.identity.permits import Kind, PermittedUse
    from holdfast.schemas import names
    from holdfast.schemas.tool import ActivityBinding

Started = StartActivityInput | StartChildWorkflowInput | ContinueAsNewInput
# The function of the worker that returns its permit keys, if it has any.
PERMIT_KEYS = "holdfast_permit_keys"


def _worker_keys() -> KeyRing | None:
    keys: KeyRing | None = workflow.extern_functions().get(PERMIT_KEYS, lambda: None)()
    return keys


def _use(kind: Kind, id: str, of: str, values: Sequence[Any], **started_by: str) -> PermittedUse:
    info, payloads = workflow.info(), workflow.payload_converter().to_payloads(values)
    place = {"workflow_id": info.workflow_id, "run_id": info.run_id, **started_by}
    return PermittedUse(kind, info.namespace, id=id, type=of, payloads=payloads, **place)


def sign(input: Started, kind: Kind, id: str, of: str) -> None:
    """Add the permit of this type of activity or workflow, if the worker has admitted the run."""
    keys = _worker_keys()
    # An `isinstance` check fails: the sandbox has classes of its own.
    if keys is None or not getattr(workflow.instance(), "is_admitted", False):
        return
    use = _use(kind, id, of, input.args)
    input.args = [RawValue(each) for each in use.payloads]  # not encoded again
    # Without metadata, which would take as many bytes again.
    input.headers = {**input.headers, names.PERMIT: Payload(data=use.sign(keys))}


def is_delegate(*values: Any) -> bool:
    """Return whether a run has started this one with this request, and its agents if any.

    On a worker with permit keys, its permit proves that. On another, any child is one.
    """
    info = workflow.info()
    if info.parent is None:
        return False
    parent = {"workflow_id": info.parent.workflow_id, "run_id": info.parent.run_id}
    return not _lacks(_use("delegate", info.workflow_id, info.workflow_type, values, **parent))


def is_foreign_state(previous: str, values: Sequence[Any]) -> bool:
    """Return whether no run of the worker has left these values to this one."""
    return _lacks(_use("continued", "", workflow.info().workflow_type, values, run_id=previous))


def is_foreign_result(binding: ActivityBinding, id: str, n: int, result: Any) -> bool:
    """Return whether an activity of the worker itself has a result that no worker has signed.

    `n` counts the executions of the activity with this id.
    """
    use = _use("result", id, binding.type, [result])
    permit = use.payloads[0].metadata.get(names.PERMIT, b"")
    is_here = binding.task_queue in (None, workflow.info().task_queue) and not binding.local
    # A replay may have another task queue.
    return (is_here or workflow.unsafe.is_replaying()) and _lacks(use, permit, f"-{id}-{n}")


def _lacks(use: PermittedUse, permit: bytes | None = None, mark: str = "") -> bool:
    """Return whether the worker requires a permit for a use, and the given one is not valid.

    It is by default the one that the run was started with. `mark` distinguishes uses of a kind.
    """
    if permit is None:
        permit = workflow.info().headers.get(names.PERMIT, Payload()).data
    if not workflow.unsafe.is_replaying():
        keys = _worker_keys()
        if keys is None or use.is_signed(keys, permit):
            return False
    return workflow.patched(f"no-permit-{use.kind}{mark}")
