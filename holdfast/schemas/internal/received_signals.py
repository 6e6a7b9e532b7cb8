"""What `find_signals` is asked: when Temporal received some signals of a workflow task."""

from holdfast.schemas.base import Lenient


class ReceivedSignals(Lenient):
    """Signals of one name in one execution.

    `digests` has the SHA-256 of each one's payload, by its number among the signals of this name
    after the event `after`. The activity returns the time of each that it finds, by that number.
    """

    run_id: str
    name: str
    after: int
    digests: dict[int, str]
