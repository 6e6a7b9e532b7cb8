"""What a continued run takes over, and what has to be named again."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient, continue_run
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.schemas import names
from holdfast.schemas.run import RunReport
from tests.support.watches import watches


@pytest.mark.parametrize("agent", [None, names.UNNAMED_AGENT])
async def test_an_agent_that_only_its_request_had_is_named_again(
    monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    class Ended(Run):
        closed = True
        id = "run-1"
        _watches = watches()

        def __init__(self, *_: Any, **__: Any) -> None: ...

        async def observe(self) -> Any:
            return self

        async def describe(self) -> Any: ...

        async def page(self, *_: Any) -> list[Any]:
            return []

        async def status(self) -> RunReport:
            return RunReport(status="failed")

    listing = RunListing("run-1", "desk", datetime.now(UTC), "failed", agent)
    monkeypatch.setattr(HoldfastClient, "run", Ended)
    monkeypatch.setattr(RunListing, "of", lambda _: listing)
    temporal: Any = SimpleNamespace(data_converter=pydantic_data_converter)
    client = HoldfastClient(temporal)

    with pytest.raises(HoldfastError, match="name one: holdfast run AGENT --continue run-1"):
        await continue_run(client, "run-1", {})
    assert await continue_run(client, "run-1", {"agent": "desk"}) == {
        "agent": "desk",
        "context": [],
    }
