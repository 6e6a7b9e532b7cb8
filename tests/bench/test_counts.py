"""What a turn takes in counts, which are exact with the locked dependencies."""

import sys

import pytest
from temporalio.client import Client

from bench.measures.counts import TurnCounts, measure


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the counts are those of Python 3.11")
@pytest.mark.parametrize(
    ("tools", "most"),
    [
        (1, TurnCounts(1_680, 47, 15, 400)),
        (50, TurnCounts(1_780, 47, 15, 54_000)),
        (300, TurnCounts(2_290, 47, 15, 330_000)),
    ],
)
async def test_a_turn_takes_no_more_than_it_did(
    client: Client, tools: int, most: TurnCounts
) -> None:
    found = await measure(client, tools)
    assert found.python_calls <= most.python_calls
    assert found.encodings <= most.encodings
    assert found.digests <= most.digests
    assert found.request_bytes <= most.request_bytes
