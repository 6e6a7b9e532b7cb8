"""What permits take of a history."""

from temporalio.client import Client

from bench.measures.permits import TITLES, measure


async def test_a_permit_takes_at_most_64_bytes_of_an_event(client: Client) -> None:
    without, signed = await measure(client)

    assert all(0 < signed[kind] - without[kind] <= 64 for kind in TITLES)
