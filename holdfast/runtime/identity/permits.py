"""Permits: by which a worker recognizes what a run that it admitted has started.

Each program of a Temporal namespace can start activities and child workflows on any task queue. So
a worker with permit keys signs what its admitted runs start, and requires the signature of what has
privileges. A signature is for one use: copied from a history, it fits nowhere else.

    activity    of a run, for its tools and hooks     verified by the worker that executes it
    delegate    of a run, for its child workflow      verified by the child
    continued   of a run, for its next execution      verified by the next execution
    result      of a worker, for an activity's result verified by the run
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from temporalio.api.common.v1 import Payload

from holdfast.runtime.encryption.key_ring import KeyRing

Kind = Literal["activity", "delegate", "continued", "result"]


@dataclass(frozen=True)
class PermittedUse:
    """What a permit is for: something that an execution has started, with these payloads.

    `id` is the activity's or the delegate's; `type` that of the activity or the workflow.
    """

    kind: Kind
    namespace: str
    workflow_id: str
    run_id: str
    id: str
    type: str
    payloads: Sequence[Payload]

    def sign(self, keys: KeyRing) -> bytes:
        """Return the signature with the newest key: 32 bytes."""
        return keys.newest.sign(self._text())

    def is_signed(self, keys: KeyRing, signature: bytes) -> bool:
        return keys.has_signed(self._text(), signature)

    def _text(self) -> bytes:
        # Of the metadata, only the encoding changes what a payload means.
        parts = [(each.metadata.get("encoding", b""), each.data) for each in self.payloads]
        digests = [hashlib.sha256(part).hexdigest() for pair in parts for part in pair]
        place = [self.namespace, self.workflow_id, self.run_id, self.id, self.type]
        return json.dumps([self.kind, *place, *digests]).encode()
