"""What a person does to a run from its page (§11): send, close, cancel; and the replies."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from temporalio.client import Client, WorkflowFailureError

from holdfast.client.errors import UNREACHABLE, HasEndedError, HoldfastError
from holdfast.client.run import Run as ClientRun
from holdfast.client.stream.run_watch import RunDescription
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

PAYS = [Answer(calls=[call("pay", amount=20)]), Answer("Paid."), Answer("And thanks.")]


def result_of(answer: httpx.Response) -> str:
    """The result that the page of an answer shows, by its name: `pages/run/said.txt`."""
    assert answer.status_code == 303, answer.text
    where = urlsplit(answer.headers["location"])
    assert where.netloc == ""
    return where.query.removeprefix("said=")


async def user_messages(run: Run) -> list[str]:
    messages = [entry["message"] for entry in await run.context() if entry["type"] == "message"]
    return [one["content"] for one in messages if one["role"] == "user"]


async def test_a_message_is_read_before_the_next_step_or_at_the_end(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        late = {"text": "Say thanks.", "delivery": "followUp"}
        assert result_of(await stage.post(f"/run/{run.id}/message", late)) == "followUp"
        early = {"text": "Be quick.\r\nPlease.", "delivery": "steer"}
        assert result_of(await stage.post(f"/run/{run.id}/message", early)) == "steer"
        await run.decide("t1c1", "approve")
        assert (await run.result())["output"] == "And thanks."
        assert await user_messages(run) == ["go", "Be quick.\nPlease.", "Say thanks."]


async def test_a_message_that_is_not_read_is_withdrawn_and_a_remark_is_for_people(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        remark = {"text": "She called again.", "delivery": "people"}
        assert result_of(await stage.post(f"/run/{run.id}/message", remark)) == "people"
        failed = await stage.post(f"/run/{run.id}/message", {**remark, "text": " "})
        assert 'name="delivery" value="people"' in failed.text, "it stays a remark"
        await stage.post(f"/run/{run.id}/message", {"text": "Hurry.", "delivery": "steer"})
        page = (await stage.get(f"/run/{run.id}")).text
        assert "Not read yet: message 1: Hurry." in page
        assert "She called again." in page
        for result in ("withdrawn", "read"):
            assert (
                result_of(await stage.post(f"/run/{run.id}/withdraw", {"message": "1"})) == result
            )
        await run.decide("t1c1", "approve")
        await run.result()
        assert await user_messages(run) == ["go"]


async def test_a_message_to_a_run_that_takes_none_is_not_sent(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        run = await made.start()
        await run.result()
        over = await stage.post(f"/run/{run.id}/message", {"text": "late", "delivery": "steer"})
        assert (over.status_code, "Not sent: the run has ended." in over.text) == (409, True)
        unknown = await stage.post("/run/unknown/message", {"text": "hi", "delivery": "steer"})
        assert "Not sent. There is no run unknown" in unknown.text
        single = await client.start_workflow("CallWorkflow", {}, id="deaf-page", task_queue="empty")
        deaf = await stage.post("/run/deaf-page/message", {"text": "hi", "delivery": "steer"})
        await single.terminate()
        assert "is a single call, which receives no messages" in deaf.text
        assert await user_messages(run) == ["go"]


async def test_a_conversation_is_sent_a_message_and_closed(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    answers = [Answer("Hello."), Answer("Fine.")]
    async with backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made:
        run = await made.start(conversation=True)

        async def listens() -> str | None:
            page = (await stage.get(f"/run/{run.id}")).text
            return page if "Waiting for the next message" in page else None

        assert "Close the conversation" in await eventually(listens)
        answer = await stage.post(f"/run/{run.id}/message", {"text": "How?", "delivery": "message"})
        assert result_of(answer) == "message"

        async def answered() -> bool:
            return "Fine." in (await stage.get(f"/run/{run.id}")).text

        await eventually(answered)
        assert result_of(await stage.post(f"/run/{run.id}/close")) == "closed"
        assert (await run.result())["output"] == "Fine."
        assert result_of(await stage.post(f"/run/{run.id}/close")) == "over"


async def test_it_requests_a_confirmation_before_it_cancels(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    async with backend(client, tmp_path, PAYS, **SIDE_BY_SIDE) as made:
        run = await made.start(["pay"])
        await run.waiting()
        asked = await stage.get(f"/run/{run.id}/cancel")
        assert "Cancel this run?" in asked.text
        assert (await run.status())["status"] == "awaiting_approval", (
            "to look at it is not to do it"
        )
        assert result_of(await stage.post(f"/run/{run.id}/cancel")) == "cancelled"
        with pytest.raises(WorkflowFailureError):
            await run.result()
        assert "Cancelled." in (await stage.get(f"/run/{run.id}")).text
        assert result_of(await stage.get(f"/run/{run.id}/cancel")) == "over"
        assert result_of(await stage.post(f"/run/{run.id}/cancel")) == "over"


@pytest.mark.parametrize("what", ["close", "cancel"])
@pytest.mark.parametrize(
    ("error", "status", "where"),
    [
        (HasEndedError("x"), 303, "/run/x?said=over#now"),
        (HoldfastError("Temporal does not answer", "check it", UNREACHABLE), 503, None),
    ],
    ids=["ended", "away"],
)
async def test_what_ends_meanwhile_has_ended_and_what_cannot_be_reached_has_not(
    nowhere: Client,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    error: HoldfastError,
    status: int,
    where: str | None,
) -> None:
    async def looked(_: ClientRun) -> RunDescription:
        return RunDescription(("x", 1), closed=False, streaming=None)

    async def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(ClientRun, "observe", looked)
    monkeypatch.setattr(ClientRun, what, fails)
    async with inbox(nowhere) as stage:
        answer = await stage.post(f"/run/x/{what}")
    assert (answer.status_code, answer.headers.get("location")) == (status, where)


@pytest.mark.parametrize("fails_at", ["observe", "post"])
async def test_without_a_response_the_page_shows_whether_the_message_was_sent(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    async def looked(_: ClientRun) -> RunDescription:
        return RunDescription(("x", 1), closed=False, streaming=None)

    async def fails(*_: Any) -> None:
        raise HoldfastError("Temporal does not answer", "check it", UNREACHABLE)

    monkeypatch.setattr(ClientRun, "observe", looked)
    monkeypatch.setattr(ClientRun, fails_at, fails)
    async with inbox(nowhere) as stage:
        answer = await stage.post("/run/x/message", {"text": "Pay.", "delivery": "steer"})
    assert answer.status_code == 503
    assert ("may have been sent" in answer.text) == (fails_at == "post")
    assert ("Not sent. Temporal" in answer.text) == (fails_at == "observe")
    assert "Pay.</textarea>" in answer.text
    assert '<script src="/static/run.js"' in answer.text, "a second tap sends nothing"


async def test_a_form_that_is_sent_twice_forks_a_run_once(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    agents = tmp_path / "catalog" / "agents"
    agents.mkdir(parents=True)
    (agents / "clerk.yaml").write_text("model: fake:fake\ninstructions: Pay.\ntools: [pay]\n")
    settings = {"catalog": agents.parent, **SIDE_BY_SIDE}
    async with backend(client, tmp_path, PAYS, **settings) as made:
        request = {"agent": "clerk", "input": "go"}
        queue = made.task_queue
        handle = await client.start_workflow("AgentWorkflow", request, id=queue, task_queue=queue)
        source = Run(handle, client)
        await source.waiting()
        await source.decide("t1c1", "approve")
        await source.result()
        link = f"/run/{source.id}/fork/1"
        assert f'href="{link}">Fork here' in (await stage.get(f"/run/{source.id}")).text

        form = {"text": "Thank them.", "key": "a"}
        first, again = [(await stage.post(link, form)).headers["location"] for _ in range(2)]

        assert first == again
        run = Run(client.get_workflow_handle(first.removeprefix("/run/")), client)
        assert (await run.result())["output"] == "Paid."
        assert await user_messages(run) == ["go", "Thank them."]
        other = (await stage.post(link, {**form, "key": "b"})).headers["location"]
        assert other != first

        async def lists_both() -> bool:
            text = (await stage.get(f"/run/{source.id}")).text
            return f'href="{first}"' in text and f'href="{other}"' in text

        await eventually(lists_both)
        assert f'href="/run/{source.id}">Open that run' in (await stage.get(first)).text
