"""The hooks around a request to the model: what they see, change and end."""

from typing import Any

import pytest

from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.tool import ActivityBinding, AgentHooks
from holdfast.workflows.engine.call.outcomes import Failure
from holdfast.workflows.engine.model import request_hooks
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import NoAnswer, Play, call, reply, tool

HOOKS = AgentHooks(
    before_model=ActivityBinding(type="before"), on_model_error=ActivityBinding(type="failed")
)
LOOK = reply("", call("look", {"id": 7}))
DONE = reply("done")
DOWN = NoAnswer(text="it is down")


class HookedPlay(Play):
    """A run with hooks, and what each request to its model asks."""

    def __init__(self, *model: Any, before: Any = None, failed: Any = None, **more: Any) -> None:
        definition = {"hooks": HOOKS, **more.pop("definition", {})}
        tools = more.pop("tools", [tool(), tool("mail")])
        self.asks: list[Ask] = []
        super().__init__(
            *tools,
            model=model,
            hooks={"before": before, "failed": failed},
            definition=definition,
            **more,
        )

    def take(self, step: Any) -> None:
        if isinstance(step, AskModel):
            self.asks.append(self.run.settings.ask())
        super().take(step)

    def seen(self, hook: str) -> list[dict[str, Any]]:
        return [
            each.arguments[0]
            for each in self.hook_calls
            if each.activity == ActivityBinding(type=hook)
        ]

    def notices(self) -> list[str]:
        return [record["text"] for record in self.records("notice")]


def test_it_sees_the_newest_messages_and_the_request() -> None:
    play = HookedPlay(LOOK, DONE).to_end()
    first, second = play.seen("before")
    model = {"endpoint": "script", "name": "script"}
    said = {"n": 1, "role": "user", "text": "go"}
    assert first == {
        "agent": "tester",
        "turn": 1,
        "skill": None,
        "model": model,
        "tools": ["look", "mail"],
        "messages": [said],
        "earlier": 0,
    }
    made = {"id": "t1c1", "tool": "look", "arguments": {"id": 7}}
    _, answer, result = second["messages"]
    assert (answer["role"], answer["calls"]) == ("assistant", [made])
    assert (result["role"], result["tool"], result["callId"]) == ("tool", "look", "t1c1")
    assert [hook.call_id for hook in play.hook_calls] == ["t1", "t2"]
    assert play.notices() == []


def test_it_sees_no_more_than_so_many_bytes() -> None:
    long = "x" * 10_000
    context = [{"role": "user", "content": long}] * 20
    play = HookedPlay(DONE, context=context).to_end()
    [seen] = play.seen("before")
    assert len(seen["messages"]) + seen["earlier"] == 21
    assert 5 < len(seen["messages"]) < 9
    assert seen["messages"][-1]["text"] == "go"
    assert seen["messages"][0]["text"].endswith("x … (10000 characters)")


def changes(**messages: Any) -> Any:
    return lambda view: {"messages": messages} if view["turn"] == 2 else None


@pytest.mark.parametrize("hidden", [3, 7])
def test_a_message_with_calls_is_hidden_with_their_results(hidden: int) -> None:
    play = HookedPlay(LOOK, DONE, before=changes(hide=[hidden])).to_end()
    numbers = {r["n"]: r["message"]["role"] for r in play.records("message")}
    assert numbers[3] == "assistant"
    assert play.asks[1].edits.hidden == [n for n in numbers if 3 <= n < max(numbers)]
    assert len(play.messages()) == 4, "the log is as it was"
    assert play.notices() == ["the hook `_beforeModel` changed the request: messages hidden: 2"]


def test_texts_are_replaced_and_messages_are_added_in_one_request_alone() -> None:
    added = [{"role": "user", "content": "Be quick."}]
    play = HookedPlay(
        LOOK, LOOK, DONE, before=changes(replace={"1": "[name]"}, append=added)
    ).to_end()
    none, edits, after = (ask.edits for ask in play.asks)
    assert (none.hidden, none.replaced, none.added) == ([], {}, [])
    assert edits.replaced == {1: ChatMessage(role="user", content="[name]")}
    assert edits.added == [ChatMessage(role="user", content="Be quick.")]
    assert after == none


def test_a_tool_that_it_takes_away_is_neither_offered_nor_forced() -> None:
    play = HookedPlay(
        LOOK,
        DONE,
        before=lambda view: {"tools": ["look"]} if view["turn"] == 1 else None,
        tool_choice={"name": "mail"},
    ).to_end()
    offered = [[offer.name for offer in ask.tools] for ask in play.asks]
    assert offered == [["look"], ["look", "mail"]]
    assert play.asks[0].tool_choice == "auto"


def test_it_chooses_the_model_of_one_request() -> None:
    play = HookedPlay(
        LOOK, DONE, before=lambda view: {"model": {"name": "big"}} if view["turn"] == 1 else None
    ).to_end()
    assert [ask.model.name for ask in play.asks] == ["big", "script"]
    assert [model["model"] for model in play.result["models"]] == ["script/big", "script/script"]
    assert play.notices() == ["the hook `_beforeModel` changed the request: model: script/big"]


@pytest.mark.parametrize(
    "said", [Failure("application", "that is enough", "StopRun"), {"stop": "that is enough"}]
)
def test_either_hook_stops_the_run(said: Any) -> None:
    for hook in ("before", "failed"):
        result = HookedPlay(DOWN, **{hook: said}).to_end().result
        assert (result["status"], result["output"]) == ("stopped", "that is enough")


def test_a_text_that_it_replaces_has_a_bound() -> None:
    play = HookedPlay(before={"messages": {"replace": {"1": "x" * 70_000}}}).to_end()
    assert "at most 64000" in play.failure.message


def test_it_is_asked_about_a_failure_and_answers_in_its_place() -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    play = HookedPlay(DOWN, failed={"output": {"n": 1}}, definition={"output": output}).to_end()
    assert (play.result["status"], play.result["output"]) == ("completed", {"n": 1})
    model = {"endpoint": "script", "name": "script"}
    error = {"error": {"message": "it is down"}}
    assert play.seen("failed") == [
        {"agent": "tester", "turn": 1, "model": model, "attempt": 1, **error}
    ]
    assert play.messages()[-1]["content"] == '{"n": 1}'


def test_its_answer_is_that_of_a_message_after_one_whose_budget_was_used_up() -> None:
    play = HookedPlay(
        reply(""), DOWN, failed={"output": "later"}, budget={"maxTurns": 1}, conversation=True
    )
    play.to_end()
    assert play.run.messages.budget_problem(0) is not None
    play.receive("and now?")
    play.to_end()
    assert (play.run.progress.answered_up_to, play.run.progress.output) == (1, "later")
    assert play.run.messages.budget_problem(1) is None
    play.run.mailbox.close()
    play.to_end()
    assert (play.result["status"], "undelivered" in play.result) == ("completed", False)


def test_it_is_asked_with_the_number_of_its_attempt_in_a_turn() -> None:
    again = {"retry": True, "after": "2s"}
    play = HookedPlay(DOWN, DOWN, DOWN, LOOK, DOWN, DONE, failed=again).to_end()
    assert [view["attempt"] for view in play.seen("failed")] == [1, 2, 3, 1]
    uses = [(hook.name, hook.call_id, hook.n) for hook in play.hook_calls]
    assert len(set(uses)) == len(uses), "each use has an id of its own"


def test_a_pause_has_a_bound() -> None:
    play = HookedPlay(DOWN, DONE, failed={"retry": True, "after": "3d"})
    pauses = []
    for _ in range(5):
        step = play.next()
        pauses.append(step.pause if isinstance(step, AskModel) else None)
        play.take(step)
    assert pauses == [None, None, None, None, request_hooks.MAX_PAUSE]


def test_an_output_in_place_of_the_answer_follows_a_message_that_ended_on_its_budget() -> None:
    more: dict[str, Any] = {"conversation": True, "budget": {"perMessage": {"maxTurns": 1}}}
    play = HookedPlay(DONE, LOOK, DOWN, failed={"output": "for the model"}, **more).to_end()
    play.receive("a")
    assert play.to_end().run.progress.exceeded == "maxTurns"
    answered = play.receive("b")
    play.to_end()

    assert (play.run.progress.output, play.run.messages.budget_problem(answered)) == (
        "for the model",
        None,
    )
