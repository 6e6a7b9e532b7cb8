"""A leak is found, and what fluctuates is none."""

import os
import socket

import pytest

from tests.soak.flatness import MAX_GROWTH, growths, sample


@pytest.mark.parametrize("what", MAX_GROWTH)
def test_what_grows_until_the_end_is_found(what: str) -> None:
    flat = dict.fromkeys(MAX_GROWTH, 100.0)
    samples = [flat | {what: 100.0 + n} for n in range(60)]
    assert [each.partition(":")[0] for each in growths(samples)] == [what]


def test_what_fills_at_first_and_fluctuates_is_flat() -> None:
    samples = [dict.fromkeys(MAX_GROWTH, min(100.0, 10.0 * n) + n % 3) for n in range(60)]
    assert [*growths(samples)] == []


def test_a_sample_counts_the_sockets_of_a_process() -> None:
    before = sample(os.getpid())
    with socket.socket(), socket.socket():
        after = sample(os.getpid())
    assert after["sockets"] - before["sockets"] == 2 == after["descriptors"] - before["descriptors"]
