"""The examples of instances, delegates and plans (§8), by the three commands of their READMEs."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client

from holdfast.hosting.dev_server import temporal_binary
from tests.docs.stage import prints
from tests.examples.readme import played
from tests.support.backend import Run
from tests.support.command import holdfast

pytestmark = pytest.mark.usefixtures("quick_starts")


@asynccontextmanager
async def running(*words: str) -> AsyncIterator[asyncio.StreamReader]:
    """A command as a process of its own, and what it prints; it has to end well."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    except BaseException:
        process.kill()
        raise
    finally:
        await process.wait()
    assert process.returncode == 0


async def test_each_comment_is_judged_by_its_own_data_alone(client: Client) -> None:
    with played("moderation", client) as readme:
        run, query = readme.commands
        said = await holdfast(*run[1:])
        assert (said.code, said.err) == (0, "")
        assert prints(readme.prints[0], said.out), said.out
        async with running(str(temporal_binary()), *query[1:]) as out:
            looked = (await out.read()).decode()
        assert prints(readme.prints[1], looked), looked

        result = await Run(client.get_workflow_handle("comments")).result()
    verdicts = {name: own["verdict"]["verdict"] for name, own in result["instances"].items()}
    assert list(verdicts.values()) == [
        *("publish", "hide", "hide", "hide", "ask a person", "publish"),
    ]
    assert result["instances"]["c3"]["rating"] == {"insults": 0, "links": 2, "too_many_links": True}
    assert result["state"] == {}


async def test_each_translator_sees_its_own_language_and_uses_one_budget(
    client: Client,
) -> None:
    with played("translation", client) as readme:
        run, show = readme.commands
        said = await holdfast(*run[1:])
        assert (said.code, said.err) == (0, "")
        assert prints(readme.prints[0], said.out), said.out
        shown = await holdfast(*show[1:])
        assert prints(readme.prints[1], shown.out), shown.out
        assert "Wasserkocher" not in shown.out

        names = ["recall", *(f"recall.t1c{number}" for number in (1, 2, 3))]
        whole, *parts = [await Run(client.get_workflow_handle(name)).result() for name in names]
    assert whole["turns"] == 2 + sum(part["turns"] for part in parts)
    assert whole["calls"] == 3 + sum(part["calls"] for part in parts)
    found = [own["translation"] for own in whole["instances"].values()]
    assert found == [part["output"] for part in parts]


async def test_one_decision_strikes_out_one_call_changes_another_and_covers_the_rest(
    client: Client,
) -> None:
    with played("refund_plan", client) as readme:
        run, decide = readme.commands
        async with running(sys.executable, "-m", "holdfast", *run[1:]) as out:
            told = (await out.readuntil(b" waiting    ")).decode()
            refused = await holdfast(*decide[1:4], "approve", "--strike", "t1c3")
            assert "t1c5" in refused.err
            decided = await holdfast(*decide[1:])
            assert prints(readme.prints[0], decided.out), decided.out
            told += (await out.read()).decode()
        assert prints(readme.prints[1], told), told

        result = await Run(client.get_workflow_handle("broken")).result()
    assert result["state"]["voucher"] == {"voucher": "V-broken/t1c3", "worth": "10.00 euros"}
    assert result["state"]["refund"]["paid_back"] == "249.00 euros"
