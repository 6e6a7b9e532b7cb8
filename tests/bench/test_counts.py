"""What a turn takes in counts, which are exact with the locked dependencies."""

import sys

import pytest
from temporalio.client import Client

from bench.measures.counts import cached_run_bytes, measure


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the counts are those of Python 3.11")
@pytest.mark.parametrize(("tools", "most_bytes"), [(1, 400), (50, 54_000), (300, 330_000)])
async def test_a_turn_takes_no_more_than_it_did_with_any_number_of_tools(
    client: Client, tools: int, most_bytes: int
) -> None:
    found = await measure(client, tools)
    assert found.python_calls <= 1_540
    assert found.encodings <= 47
    assert found.digests <= 15
    assert found.request_bytes <= most_bytes


async def test_runs_share_their_definition_in_memory(client: Client) -> None:
    assert await cached_run_bytes(client, tools=50) <= 150_000  # of its own, 1.2 MB
