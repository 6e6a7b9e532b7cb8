"""Runs whose models are asked in several formats, are several, or take no tools or images."""

import json
import threading
from typing import Any

import pytest

from holdfast.workflows.engine.model.prompt import FINALIZE
from tests.providers.writers import responses
from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Thought
from tests.support import tools
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer
from tests.support.model_server import call as call_of

BIG, SMALL = ({"endpoint": "fake", "name": name} for name in ("big", "small"))
NO_ACCOUNT = Answer(status=402, body={"error": {"message": "the account has no credit"}})
DONE = Answer("done")
REASONS = {"endpoint": "fake", "name": "gpt-5.5", "temperature": None}


def responds(written: AbstractAnswer) -> Answer:
    return Answer(events=[each.value for each in responses.events(written, Choices())])


async def test_a_run_carries_the_encrypted_reasoning_of_a_response_along(launch: Launch) -> None:
    called = Call(0, "echo", {"text": "coffee", "times": 2})
    first_answer = AbstractAnswer([Thought("I say it twice."), called])
    answers = [responds(first_answer), responds(AbstractAnswer([Thought("Hm."), "Twice."]))]
    backend = await launch(answers, provider="openai-responses")
    run = await backend.start(["echo"], agent={"model": REASONS}, input="Say coffee twice.")
    result = await run.result()
    assert (result["status"], result["output"], result["turns"]) == ("completed", "Twice.", 2)
    assert await run.results() == {"t1c1": "coffeecoffee"}
    assert result["usage"] | {"cost": None} == {
        "inputTokens": 24,
        "outputTokens": 60,
        "cachedTokens": 8,
        "cost": None,
    }
    first, second = backend.model.requests
    assert second["input"][: len(first["input"])] == first["input"]
    assert [each["type"] for each in second["input"]] == [
        *("message", "reasoning", "function_call", "function_call_output")
    ]
    assert second["input"][1] == responses.items(first_answer)[0]
    assert not any(entry["type"] == "notice" for entry in await run.context())


async def test_a_model_that_reads_text_alone_receives_placeholders_and_refuses_documents(
    launch: Launch,
) -> None:
    backend = await launch([Answer(calls=[call_of("echo", text="a", times=1)]), Answer("A cat?")])
    reads_text = {"model": {"endpoint": "fake", "name": "tiny", "accepts": []}}
    picture = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo=", "name": "cat.png"}
    text = {"type": "text", "text": "What is it?"}
    run = await backend.start(
        ["echo"], agent=reads_text, input=None, context=[{"content": [text, picture]}]
    )
    assert (await run.result())["output"] == "A cat?"
    assert [each["text"] for each in await run.context() if each["type"] == "notice"] == [
        "the model `tiny` does not accept images: a text was sent in place of 1 (cat.png)"
    ]
    document = {"type": "document", "data": "JVBERi0xLjc=", "name": "a.pdf"}
    refused = await backend.start(agent=reads_text, input=None, context=[{"content": [document]}])
    failure = await refused.failure()
    assert failure.type == "model_error"
    assert "`tiny` of endpoint `fake` does not accept documents (a.pdf)" in failure.message
    models = [reads_text["model"], {"endpoint": "fake", "name": "big"}]
    accepted = await backend.start(
        ["echo"], agent={"model": models}, input=None, context=[{"content": [text, document]}]
    )
    assert (await accepted.result())["models"][0]["model"] == "fake/big"
    [notice] = await notices(accepted)
    assert notice.startswith(
        "fake/tiny did not answer (the model `tiny` of endpoint `fake` does not"
    )
    assert backend.model.requests[-1]["messages"][1]["content"][1]["type"] == "file"


async def notices(run: Run) -> list[str]:
    return [entry["text"] for entry in await run.context() if entry["type"] == "notice"]


def small_alone(*answers: Answer) -> Any:
    """A server whose account has no credit for the big model."""

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        return NO_ACCOUNT if body["model"] == "big" else answers[turn - 1]

    return answer


async def test_the_next_model_of_a_list_answers_where_one_fails(launch: Launch) -> None:
    look = Answer(calls=[call_of("look_up", id=1)], usage=(10, 5))
    backend = await launch(small_alone(look, DONE))
    run = await backend.start(["look_up"], agent={"model": [BIG, SMALL]})
    result = await run.result()
    usage = {"inputTokens": 20, "outputTokens": 10, "cachedTokens": 0, "cost": None}
    assert result["models"] == [{"model": "fake/small", "turns": 2, "usage": usage}]
    assert [body["model"] for body in backend.model.requests] == ["big", "small", "small"]
    [notice] = await notices(run)
    assert notice.startswith("fake/big did not answer (endpoint `fake` (http://127.0.0.1:")
    assert "the account has no credit. Check the balance" in notice
    assert notice.endswith("): fake/small is used from now on")
    ends = [event.get("model") for event in await run.events() if event["type"] == "turn_end"]
    assert ends == ["fake/small"] * 2


@pytest.mark.parametrize("failing", ["a turn", "a call"])
async def test_failed_answers_count_where_the_next_model_answers(
    launch: Launch, failing: str
) -> None:
    mood = {"_tool": "mood", "properties": {"text": {"type": "string"}}, "_output": True}

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        is_call = "You answer one call of a tool" in str(body["messages"])
        if body["model"] == "big" and is_call is (failing == "a call"):
            return Answer("The total is 4", finish="error")
        calls = [call_of("mood", text="a")] if turn == 1 and not is_call else []
        return Answer(calls=calls) if calls else DONE

    backend = await launch(answer)
    run = await backend.start([mood], agent={"model": [BIG | {"retryFor": "1s"}, SMALL]})
    result = await run.result()
    models = [body["model"] for body in backend.model.requests]
    used = {each["model"]: each["usage"]["inputTokens"] for each in result["models"]}
    assert used == {f"fake/{name}": 10 * models.count(name) for name in ("big", "small")}
    assert result["usage"]["inputTokens"] == 10 * len(models)
    assert result["turns"] == 3, "two turns and a call, each once"


async def test_a_call_that_a_model_answers_goes_to_the_next_model(launch: Launch) -> None:
    mood = {"_tool": "mood", "properties": {"text": {"type": "string"}}, "_output": True}

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        if "You answer one call of a tool" in str(body["messages"]):
            return NO_ACCOUNT if body["model"] == "big" else Answer("good")
        return [Answer(calls=[call_of("mood", text="a"), call_of("mood", text="b")]), DONE][
            turn - 1
        ]

    backend = await launch(answer)
    run = await backend.start([mood], agent={"model": [BIG, SMALL]})
    await run.result()
    assert await run.results() == {"t1c1": "good", "t1c2": "good"}
    assert len(await notices(run)) == 1


async def test_an_error_that_names_tools_is_quoted_and_no_tool_is_lost(launch: Launch) -> None:
    message = "tools.0.function.parameters: `oneOf` is not supported"
    backend = await launch([Answer(status=400, body={"error": {"message": message}})])
    failure = await (await backend.start(["look_up"])).failure()
    assert (failure.type, message in failure.message) == ("model_error", True)
    assert len(backend.model.requests) == 1


async def test_a_hook_changes_what_the_model_is_shown_and_takes_a_tool_away_while_a_call_waits(
    launch: Launch,
) -> None:
    """The pending call is of the request before: it runs. The next one is refused."""
    pays = Answer(calls=[call_of("pay", amount=5)])
    backend = await launch([pays, pays, DONE])
    run = await backend.start(["pay"], agent={"_beforeModel": "mask"}, input="Pay Ann 5.")
    await run.waiting()
    await run.decide("t1c1", "approve")
    assert (await run.result())["output"] == "done"
    assert (await run.results())["t1c1"] == '{"paid": 5.0}'
    assert (await run.error("t2c1"))["code"] == "tool_not_allowed"
    bodies = backend.model.requests
    assert "Ann" not in str(bodies)
    assert "Ann" in str(await run.context())
    assert ["tools" in body for body in bodies] == [True, False, False]
    assert (await notices(run))[0] == (
        "the hook `_beforeModel` changed the request: messages replaced: 1; tools: pay"
    )
    assert [line.split()[1] for line in tools.read() if line.startswith("mask")] == ["1", "2", "3"]


async def test_a_hook_sees_the_written_answer_and_whose_run_it_is(launch: Launch) -> None:
    answers = [Answer(calls=[call_of("look_up", id=1)]), Answer("Ann has it."), Answer("It came.")]
    run = await (await launch(answers)).start(
        ["look_up"],
        agent={
            "_beforeModel": "mask",
            "_afterAnswer": "proofread",
            "answer": {"id": "†state.item.id", "text": "†output"},
        },
        principal={"id": "ann", "scopes": ["orders"]},
    )
    result = await run.result()
    assert (result["status"], result["turns"]) == ("completed", 3)
    assert result["output"] == {"id": 1, "text": "It came."}
    assert "the hook `_afterAnswer` sent the answer back" in await notices(run)
    views = {
        each.activity_id: json.loads(each.input.payloads[0].data)
        for event in await run.history()
        if (each := event.activity_task_scheduled_event_attributes).activity_id
    }
    whose = {
        "agent": "tester",
        "runId": run.id,
        "principal": {"id": "ann", "scopes": ["orders"]},
    }
    assert views["t2-afterAnswer"] == {
        **whose,
        "turn": 2,
        "model": {"endpoint": "fake", "name": "fake"},
        "output": {"id": 1, "text": "Ann has it."},
    }
    assert views["t1-beforeModel"].items() >= whose.items()


@pytest.mark.parametrize(
    ("hook", "output"),
    [({"_beforeModel": "mask"}, "DONE"), ({"_afterAnswer": "proofread"}, "Done.")],
)
async def test_a_hook_of_the_last_request_counts_without_any_time_left(
    launch: Launch, hook: dict[str, str], output: str
) -> None:
    gate = threading.Event()

    def answer(_: int, body: dict[str, Any]) -> Answer:
        return Answer("DONE") if FINALIZE in str(body) else Answer("late", hold=gate)

    limit = {"budget": {"maxDuration": "300ms"}, "onLimit": {"maxDuration": "finalize"}}
    run = await (await launch(answer)).start(agent={**limit, **hook})
    assert (await run.result())["output"] == output
    gate.set()


async def test_a_hook_answers_for_a_model_that_is_down(launch: Launch) -> None:
    run = await (await launch([NO_ACCOUNT])).start(agent={"_onModelError": "stand_in"})
    result = await run.result()
    assert (result["status"], result["turns"]) == ("completed", 0)
    assert result["output"] == "Our model is down. A person will answer you."
    assert tools.read() == ["stand_in 1", "stand_in 2"]
