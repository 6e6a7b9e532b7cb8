"""The hooks around a request to the model: what they see, change and end."""

from typing import Any

import pytest

from holdfast.schemas.agent import ModelSettings, ResolvedSkill
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.tool import ActivityBinding, AgentHooks, ResolvedTool
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


def test_a_tool_that_it_takes_away_is_not_offered_and_not_allowed() -> None:
    mails = reply("", call("mail"))
    play = HookedPlay(
        mails, mails, DONE, before=lambda view: {"tools": ["look"]} if view["turn"] == 1 else None
    )
    play.to_end()
    assert [[offer.name for offer in ask.tools] for ask in play.asks] == [
        ["look"],
        ["look", "mail"],
        ["look", "mail"],
    ]
    assert play.errors() == {"t1c1": "tool_not_allowed", "t2c1": None}
    assert "Allowed: [look]" in play.results()["t1c1"]


def test_a_forced_tool_that_it_takes_away_is_not_forced() -> None:
    play = HookedPlay(DONE, before={"tools": ["look"]}, tool_choice={"name": "mail"}).to_end()
    assert (play.result["output"], play.asks[0].tool_choice) == ("done", "auto")


def test_a_call_of_an_approved_plan_is_refused_while_its_tool_is_taken_away() -> None:
    pays = [call("pay", {"n": n}) for n in (1, 2)]
    pay = ResolvedTool(
        name="pay",
        parameters={"type": "object"},
        side_effects=True,
        sequential=True,
        activity=ActivityBinding(type="pay"),
    )

    def interrupt(_: Any) -> str:
        play.receive("wait")
        return "paid"

    rest = reply("", pays[1])
    play = HookedPlay(
        reply("", *pays),
        rest,
        rest,
        DONE,
        before=lambda view: {"tools": []} if view["turn"] == 2 else None,
        tools=[pay],
        outcomes={"t1c1": interrupt},
        definition={"plan": "lazy"},
    )
    play.to_end()
    assert play.errors() == {
        "t1c1": None,
        "t1c2": "cancelled",
        "t2c1": "tool_not_allowed",
        "t3c1": None,
    }
    asked = [record["callId"] for record in play.records("confirmation_required")]
    assert asked == ["t1-plan"], "what was approved is not asked about again"


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


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Failure("application", "boom"), "boom"),
        ({"tool": []}, "`tool`"),
        ({"tools": ["pay"]}, "`pay`"),
        ({"messages": {"hide": [9]}}, "the message 9"),
        ({"messages": {"append": [{"role": "tool", "content": "x"}]}}, "`messages.append`"),
        ({"model": {"temperature": 9}}, "`temperature`"),
        ({"messages": {"replace": {"1": "x" * 70_000}}}, "at most 64000"),
        ([], "object"),
    ],
)
def test_a_hook_that_fails_or_returns_nonsense_fails_the_run(said: Any, why: str) -> None:
    failure = HookedPlay(before=said).to_end().failure
    assert failure.code == "model_error"
    assert failure.message.startswith("the hook `_beforeModel` failed: ")
    assert why in failure.message


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
    wrong = (
        HookedPlay(DOWN, failed={"output": "no"}, definition={"output": output}).to_end().failure
    )
    assert wrong.message.startswith("the hook `_onModelError` failed: its `output` does not fit")


def test_it_is_asked_about_a_request_that_no_summary_makes_shorter() -> None:
    too_long = reply("", too_long=True)
    play = HookedPlay(
        *[too_long] * 2, failed={"output": "x"}, summaries=[reply("the task")]
    ).to_end()
    assert (play.result["status"], play.result["output"]) == ("completed", "x")
    [view] = play.seen("failed")
    assert "its last part is too long by itself" in view["error"]["message"]
    again = {"retry": True}
    failed = HookedPlay(*[too_long] * 9, failed=again, summaries=[reply("the task")] * 9).to_end()
    assert len(failed.seen("failed")) == 4, "three further attempts"


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


def test_it_adds_three_attempts_to_a_turn() -> None:
    again = {"retry": True, "after": "2s"}
    play = HookedPlay(DOWN, DOWN, DOWN, LOOK, DOWN, DONE, failed=again).to_end()
    assert [view["attempt"] for view in play.seen("failed")] == [1, 2, 3, 1]
    assert play.result["turns"] == 2
    uses = [(hook.name, hook.call_id, hook.n) for hook in play.hook_calls]
    assert len(set(uses)) == len(uses), "each use has an id of its own"
    failure = HookedPlay(*[DOWN] * 9, failed=again).to_end().failure
    assert failure.message == "it is down (`_onModelError` may add 3 attempts to a turn)"


def test_it_is_asked_about_a_second_refused_answer() -> None:
    refused = reply(refused="the provider ended the answer without one")
    play = HookedPlay(*[refused] * 3, DONE, failed={"retry": True}).to_end()
    assert [view["error"]["message"] for view in play.seen("failed")] == [refused.refused] * 2
    assert play.result["output"] == "done"


def test_a_pause_has_a_bound() -> None:
    play = HookedPlay(DOWN, DONE, failed={"retry": True, "after": "3d"})
    pauses = []
    for _ in range(5):
        step = play.next()
        pauses.append(step.pause if isinstance(step, AskModel) else None)
        play.take(step)
    assert pauses == [None, None, None, None, request_hooks.MAX_PAUSE]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"retry": "yes"}, "`retry`"),
        ({"output": 1, "fail": "x"}, "`output` and `fail` exclude each other"),
        ({"again": True}, "unknown field `again`"),
        ({"retry": True, "after": "soon"}, "`after`"),
    ],
)
def test_nonsense_about_a_failure_fails_the_run(said: Any, why: str) -> None:
    message = HookedPlay(DOWN, failed=said).to_end().failure.message
    assert message.startswith("the hook `_onModelError` failed: ")
    assert why in message


def test_a_model_of_one_request_is_named_where_it_fails() -> None:
    second = ModelSettings(endpoint="script", name="second")
    model = DOWN, reply("", no_tools=True), reply('{"calls": [], "output": "done"}')
    before = {"model": {"name": "big"}}
    play = HookedPlay(*model, before=before, definition={"fallbacks": [second]}).to_end()
    notices = [text for text in play.notices() if not text.startswith("the hook")]
    assert [text.split()[:3] for text in notices] == [
        ["script/big", "did", "not"],
        ["script/big", "does", "not"],
    ]


def test_it_goes_to_another_model_for_the_rest_of_the_run() -> None:
    play = HookedPlay(DOWN, LOOK, DONE, failed={"model": {"name": "big"}}).to_end()
    assert [ask.model.name for ask in play.asks] == ["script", "big", "big"]
    assert play.notices() == [
        "script/script did not answer (it is down): script/big is used from now on"
    ]


@pytest.mark.parametrize("said", [None, {}])
def test_without_a_wish_the_next_model_is_asked_or_the_run_fails(said: Any) -> None:
    second = ModelSettings(endpoint="script", name="second")
    play = HookedPlay(DOWN, DONE, failed=said, definition={"fallbacks": [second]}).to_end()
    assert (play.result["output"], play.asks[1].model.name) == ("done", "second")
    assert HookedPlay(DOWN, failed=said).to_end().failure.message == "it is down"
    assert HookedPlay(DOWN, failed={"fail": "no model"}).to_end().failure.message == "no model"


def test_it_is_not_asked_where_a_skill_is_chosen_or_the_answer_is_the_last() -> None:
    skills = [ResolvedSkill(name=name) for name in ("a", "b")]
    play = HookedPlay(DOWN, failed={"output": "x"}, definition={"skills": skills}).to_end()
    assert (play.failure.message, play.seen("failed")) == ("it is down", [])
    last = HookedPlay(LOOK, DOWN, failed={"output": "x"}, budget={"maxIterations": 1}).to_end()
    assert (last.failure.message, last.seen("failed")) == ("it is down", [])


def test_a_failing_summary_goes_to_no_hook() -> None:
    too_long = reply("", too_long=True)
    play = HookedPlay(too_long, DONE, failed={"output": "x"}, summaries=[DOWN]).to_end()
    assert (play.failure.message, play.seen("failed")) == ("it is down", [])
    assert len(play.seen("before")) == 2, "the summary is a request, too"


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
