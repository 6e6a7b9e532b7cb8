"""Pages of the conversation that the process receives in advance."""

from typing import Any

import pytest

from holdfast.activities.model.conversation_cache import PagePrefetch, RunKey
from holdfast.activities.model.run_queries import RunQueries
from holdfast.schemas.internal.model_request import ConversationPage, ConversationPageRequest
from tests.support.backend import Launch
from tests.support.model_server import Answer
from tests.workflows.commands.test_model_tools import ASKS, GOOD, MOOD

# The tool is answered by the model itself, by a request of its own.
SAID = [ASKS, GOOD, Answer("done")]


@pytest.fixture
def queried(monkeypatch: pytest.MonkeyPatch) -> list[ConversationPageRequest]:
    """What runs are asked for, from now on."""
    asked: list[ConversationPageRequest] = []
    page = RunQueries.page

    async def watched(
        self: RunQueries, run: RunKey, want: ConversationPageRequest
    ) -> ConversationPage:
        asked.append(want)
        return await page(self, run, want)

    monkeypatch.setattr(RunQueries, "page", watched)
    return asked


def answers() -> Any:
    """A model that gives one answer after the other, to any caller."""
    left = iter(SAID)
    return lambda *_: next(left)


@pytest.mark.parametrize("cached", [0, 10])
async def test_nothing_is_queried_with_or_without_the_workflow_cache(
    launch: Launch, queried: list[ConversationPageRequest], cached: int
) -> None:
    backend = await launch(answers(), cached_runs=cached)
    result = await (await backend.start([MOOD])).result()
    assert (result["output"], result["turns"]) == ("done", 3)
    assert queried == []


async def test_without_what_is_handed_over_the_same_is_asked(
    launch: Launch, queried: list[ConversationPageRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await launch(answers())
    await (await backend.start([MOOD])).result()
    handed, backend.model.requests[:] = list(backend.model.requests), []

    monkeypatch.setattr(PagePrefetch, "store", lambda *_: None)
    backend = await launch(answers())
    await (await backend.start([MOOD])).result()
    assert backend.model.requests == handed
    assert [(want.after, want.call) for want in queried] == [(0, None), (0, "t1c1"), (2, None)]
