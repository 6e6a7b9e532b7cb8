"""How often a run is looked at: every 150 ms while something moves, and less and less often, down
to every 2 s, while nothing does."""

from dataclasses import dataclass
from typing import Final

FASTEST_SECONDS: Final = 0.15
BUSY_SECONDS: Final = 0.5
SLOWEST_SECONDS: Final = 2.0
_SLOWER_BY: Final = 1.4


@dataclass
class PollInterval:
    """How long to wait before the next look."""

    seconds: float = FASTEST_SECONDS

    def next(self, *, moved: bool, busy: bool) -> float:
        """Fast after something moved, then slower; not so slow while an activity runs."""
        slower = min(self.seconds * _SLOWER_BY, BUSY_SECONDS if busy else SLOWEST_SECONDS)
        self.seconds = FASTEST_SECONDS if moved else slower
        return self.seconds
