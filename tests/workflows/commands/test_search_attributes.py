"""Search attributes of pending approvals."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowQueryFailedError
from temporalio.common import SearchAttributeKey

from holdfast.schemas.base import json_size
from holdfast.workflows.commands import publisher
from holdfast.workflows.engine.approvals.question import Question
from tests.engine.asking import asks, open_question
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

SINCE = SearchAttributeKey.for_datetime("PendingSince")
UNTIL = SearchAttributeKey.for_datetime("PendingUntil")
FOR = SearchAttributeKey.for_keyword_list("PendingFor")
MILLISECOND = timedelta(milliseconds=1)
TOOLS: list[dict[str, Any]] = [
    {"_tool": "soon", "_activity": "pay", "_sideEffects": True, "_approval": {"timeout": "1h"}},
    {
        "_tool": "late",
        "_activity": "pay",
        "_sideEffects": True,
        "_approval": {"timeout": "7d", "approvers": ["finance", "board"], "notBy": "principal"},
        "description": "Pays late.",
        "properties": {"name": {"type": "string"}},
    },
]
ASKS = [Answer(calls=[call("soon"), call("late", name="rent")]), Answer("done")]


def test_it_waits_since_it_was_last_asked_and_until_the_first_of_it_expires() -> None:
    play = asks(policy={"timeout": "2h"})
    first = open_question(play)
    second = Question(**{**vars(first), "call_id": "t1c2", "requested_at": first.expires_at})
    play.desk.add(second)
    found = publisher.attributes(play.run)
    assert found["PendingSince"] == second.requested_at
    assert found["PendingUntil"] == first.expires_at
    assert found["PendingTools"] == ["pay"]


def test_of_many_groups_as_many_are_listed_as_have_room() -> None:
    groups = [f"group {number}" for number in range(1_000)]
    play = asks(policy={"approvers": groups[:100]})
    question = open_question(play)
    question.policy = question.policy.model_copy(update={"approvers": groups})
    found = publisher.attributes(play.run)["PendingFor"]
    assert found == groups[: len(found)]
    assert 1_500 < json_size(found) < 2_000


async def attributes(run: Run) -> tuple[Any, Any, Any]:
    found = (await run.handle.describe()).typed_search_attributes
    return found.get(SINCE), found.get(UNTIL), found.get(FOR)


async def test_lists_have_the_start_the_end_and_the_approvers_of_a_wait(
    launch: Launch,
) -> None:
    backend = await launch(ASKS)
    run = await backend.start(TOOLS)
    waiting = await run.waiting(2)
    since, until, groups = await eventually(lambda: written(run, 3))
    assert since - max(moment(one["requestedAt"]) for one in waiting) < MILLISECOND
    assert until - min(moment(one["expiresAt"]) for one in waiting) < MILLISECOND
    assert groups == ["*", "finance", "board"]

    terms = 'PendingFor = "finance" AND PendingUntil > "2026-01-01T00:00:00Z"'
    found = f'{terms} AND WorkflowId = "{run.id}"'

    async def listed() -> bool:
        return [one.id async for one in backend.client.list_workflows(found)] == [run.id]

    await eventually(listed)

    await run.decide("t1c1", "deny")
    since, until, groups = await eventually(lambda: written(run, 2))
    assert until - moment(waiting[1]["expiresAt"]) < MILLISECOND
    assert groups == ["finance", "board"]

    await run.decide("t1c2", "deny", groups=["board"], by="ada")
    await run.result()
    assert await attributes(run) == (None, None, None)


async def written(run: Run, groups: int) -> tuple[Any, Any, Any] | None:
    """The attributes, once the task that writes so many groups is over."""
    found = await attributes(run)
    return found if found[2] is not None and len(found[2]) == groups else None


def moment(text: str) -> datetime:
    """A time of a pending approval, which is cut to milliseconds."""
    return datetime.fromisoformat(text)


async def test_a_tool_is_shown_with_its_schema_and_terms(launch: Launch) -> None:
    run = await (await launch(ASKS)).start(TOOLS, agent={"approval": {"onTimeout": "fail"}})
    await run.waiting(2)
    shown = await run.handle.query("tool", "late")
    assert shown["description"] == "Pays late."
    assert shown["parameters"]["properties"] == {"name": {"type": "string"}}
    assert shown["sideEffects"] is True
    terms = shown["approval"]
    assert (terms["notBy"], terms["onTimeout"]) == ("principal", "fail")
    with pytest.raises(WorkflowQueryFailedError, match="has no tool `layt`; did you mean `late`"):
        await run.handle.query("tool", "layt")
