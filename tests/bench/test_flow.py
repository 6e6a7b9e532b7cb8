"""What the bench reports of data flow and of history, in the figures that no machine changes."""

from temporalio.client import Client

from bench.counters import Counters
from bench.measures import limits
from bench.measures.flow import WAYS, measure
from bench.programs.work import Work
from bench.server import Server
from bench.stage import staged


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


async def test_a_turn_takes_as_much_history_in_the_end_as_in_the_beginning(client: Client) -> None:
    async with staged(Server(client, Counters([])), ("holdfast", "plain")) as stage:
        ours, plain = await limits.measure(stage, Work(turns=20))

    assert ours["last_turn_bytes"] < 1.1 * ours["first_turn_bytes"]
    assert plain["last_turn_bytes"] > 3 * plain["first_turn_bytes"]
    assert ours["largest_event_bytes"] < 10_000
    assert ours["cpu_seconds"] > 0 < ours["wall_seconds"]
