"""How often a run is looked at: fast while it moves, then less and less often."""

from itertools import pairwise

from holdfast.client.stream.frames import (
    BUSY_SECONDS,
    FASTEST_SECONDS,
    SLOWEST_SECONDS,
    PollInterval,
)


def test_it_slows_down_within_bounds_and_is_fast_again_when_something_moves() -> None:
    pace = PollInterval()
    still = [pace.next(moved=False, busy=False) for _ in range(20)]
    assert all(one < other or one == SLOWEST_SECONDS for one, other in pairwise(still))
    assert still[-1] == SLOWEST_SECONDS
    assert pace.next(moved=False, busy=True) == BUSY_SECONDS
    assert pace.next(moved=True, busy=False) == FASTEST_SECONDS
    assert FASTEST_SECONDS < pace.next(moved=False, busy=True) < BUSY_SECONDS
