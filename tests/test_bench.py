"""What the bench says of data flow, in the figures that no machine changes."""

from temporalio.client import Client

from bench.flow import WAYS, measure


async def test_ten_dependent_calls_take_eleven_requests_or_two_or_one(client: Client) -> None:
    runs = await measure(client, repeats=1)
    results = [runs[way][0].result for way in WAYS]

    assert [result["turns"] for result in results] == [11, 2, 1]
    assert [result["calls"] for result in results] == [10, 10, 10]
    assert results[0]["state"] == results[1]["state"] == results[2]["state"]
    assert results[0]["state"]["r10"]["key"] == results[0]["state"]["r9"]["next"]
    last = results[0]["state"]["r10"]["next"]
    assert [result["output"] for result in results] == [f"The last key is {last}."] * 3
    tokens = [result["usage"]["inputTokens"] for result in results]
    assert tokens[0] > 5 * tokens[1] > 25 * tokens[2]
