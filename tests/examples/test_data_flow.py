"""The data flow example, by the commands of its README."""

import re

import pytest
from temporalio.client import Client

from tests.examples.readme import played
from tests.support.backend import Run
from tests.support.command import holdfast

pytestmark = pytest.mark.usefixtures("quick_starts")


async def approved(client: Client, words: list[str], name: str, asked: str) -> tuple[Run, str]:
    """A run by its command, once the one call is approved that it asks about; what `show` has."""
    started = await holdfast(*words[1:], "--id", name, "--detach")
    assert started.code == 0, started.err
    run = Run(client.get_workflow_handle(name))
    [waiting] = await run.waiting()
    assert waiting["callId"] == asked
    assert "†" not in str(waiting["arguments"])
    await run.decide(asked, "approve", by="ada")
    await run.result()
    return run, (await holdfast("show", name)).out


def text(line: str) -> str:
    """A line of `show` without its time."""
    return re.sub(r"^\d\d:\d\d:\d\d ", "", line)


async def ways(run: Run) -> dict[str, str]:
    """How each call ended: `done`, or with which error."""
    ends = [event for event in await run.events() if event["type"] == "tool_end"]
    return {end["tool"]: end.get("error", {}).get("code", "done") for end in ends}


async def test_its_graph_runs_along_either_branch(client: Client) -> None:
    with played("data_flow", client) as readme:
        in_stock, sold_out = readme.commands
        run, told = await approved(client, in_stock, "data-flow-7", asked="t1c4")
        other, _ = await approved(client, sold_out, "data-flow-8", asked="t1c5")
        assert await ways(run) == {
            **dict.fromkeys(["find_order", "find_customer", "check_stock", "book_parcel"], "done"),
            "refund": "unresolved_reference",
            "write_mail": "done",
        }
        ended = await ways(other)
    assert (ended["book_parcel"], ended["refund"]) == ("unresolved_reference", "done")

    result = await run.result()
    assert (result["turns"], result["calls"]) == (2, 6)
    assert result["state"]["mail"] == {
        "to": "ada@example.com",
        "text": "A parcel is on its way to Ada Lovelace, 1 Mill Lane, Ely.",
    }
    lines = list(map(text, told.splitlines()))
    waits = [line for line in lines if line.startswith("  waits for ")]
    assert [line.removeprefix("  waits for ") for line in waits] == [
        *("t1c1", "t1c1", "t1c2, t1c3", "t1c1, t1c3", "t1c2, t1c4, t1c5"),
    ]
    starts = [line for line in lines if line.startswith("started t")]
    assert starts[0] == "started t1c1 find_order"
    assert sorted(starts[1:3]) == [
        'started t1c2 find_customer  customer_id="c1"',
        'started t1c3 check_stock  item="kettle"',
    ]
    assert starts[3] == "started t1c4 book_parcel"

    state = (await other.result())["state"]
    assert state["error"] == {"code": "tool_error", "message": "no grinder is left until March"}
    assert state["mail"]["text"].startswith("We paid 149.00 euros back: no grinder is left")
