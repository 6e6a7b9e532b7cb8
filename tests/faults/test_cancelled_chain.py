"""A run that is cancelled while no worker is there, where it would continue as new."""

import uuid
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.model_server import Answer, call

# A refund of more than 100 is asked about.
REFUNDS = [Answer(calls=[call("refund", amount=101 + turn)]) for turn in range(3)]


@pytest.mark.usefixtures("ledger")
async def test_cancelled_where_it_would_continue(client: Client, tmp_path: Path) -> None:
    """A turn takes about ten events: the second decision is where the run continues as new."""
    at = {"task_queue": f"chain-{uuid.uuid4().hex[:8]}", "continue_after": 20, **SIDE_BY_SIDE}
    answers = [*REFUNDS, Answer("done")]
    async with backend(client, tmp_path, answers, **at) as home:
        run = await home.start(["refund"])
        await run.waiting()
        await run.decide("t1c1", "approve")
        [waiting] = await run.waiting()
        assert waiting["callId"] == "t2c1"
    await run.signal("t2c1", "deny")
    await run.handle.cancel()
    async with backend(client, tmp_path, answers, **at):
        with pytest.raises(WorkflowFailureError) as ended:
            await run.result()
        assert isinstance(ended.value.cause, CancelledError)
        assert (await run.event_lines())[-1] == "error"
