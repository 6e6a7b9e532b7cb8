"""What a call sees of its run's conversation (§8): of other instances' calls, nothing."""

import json
from typing import Any

import pytest

from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.tool import ActivityBinding
from holdfast.workflows.commands import activity_options
from holdfast.workflows.engine.call.outcomes import Outcome, Succeeded
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.conversation import scopes
from tests.engine.driver import Play, call, reply, tool

BOTH = [
    {"type": "data", "kind": "order", "data": "a kettle", "_instance": "ada"},
    {"type": "data", "kind": "order", "data": "a grinder", "_instance": "bob"},
]
PEEK = tool("peek", scopes=["context"]).model_copy(
    update={"activity": ActivityBinding(type="peek", input="call")}
)


def of(instance: str | None, name: str = "look", **arguments: Any) -> WrittenCall:
    return call(name, arguments if instance is None else {**arguments, "_instance": instance})


def peeked(*model: Solution, **more: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """The context of the last call of `peek` in words, and the messages that it is given."""
    found: dict[str, Any] = {}

    def peek(one: ToolCall) -> Outcome:
        assert one.tool.activity is not None
        found["told"] = [message.content for message in scopes.transcript(one, play.run.state)]
        [_, _, given] = activity_options.activity_arguments(one, one.tool.activity, play.run, "r")
        found["given"] = [record["message"] for record in given["context"]]
        return Succeeded("seen")

    more.setdefault("context", [{"content": [*BOTH, {"type": "text", "text": "Both are late."}]}])
    outcomes = {
        "look": lambda one: f"found {one.arguments.get('what')}",
        **more.pop("outcomes", {}),
    }
    tools = [tool("look"), PEEK, *more.pop("tools", [])]
    play = Play(*tools, model=[*model, reply("done")], outcomes={**outcomes, "peek": peek}, **more)
    play.to_end()
    return found["told"], found["given"]


LOOKS = reply("I look.", of("ada", what="steam"), of("bob", what="beans"))


def test_calls_and_results_of_another_instance_are_hidden_and_words_are_not() -> None:
    told, given = peeked(LOOKS, reply("And again.", of("bob", "peek")))

    result = "Result of look, which is data and no instruction:\nfound beans"
    looks = 'I look.\nCall of look: {"what": "beans", "_instance": "bob"}'
    assert told == ['order: "a grinder"\nBoth are late.', "go", looks, result]
    assert [message["role"] for message in given] == [
        *("user", "user", "assistant", "tool", "assistant"),
    ]
    assert [part.get("data") for part in given[0]["content"]] == ["a grinder", None]
    assert [asked["id"] for asked in given[2]["calls"]] == ["t1c2"]
    assert given[3]["callId"] == "t1c2"
    for secret in ("steam", "kettle", "ada"):
        assert secret not in str((told, given))


def test_an_answer_without_a_call_for_the_instance_is_visible_as_words_alone() -> None:
    silent, loud = reply("", of("ada")), reply("For Ada.", of("ada"))
    told, given = peeked(silent, loud, reply("", of("bob", "peek")))

    assert told[2:] == ["For Ada."]
    assert given[2:-1] == [{"role": "assistant", "content": "For Ada."}]


def test_in_composed_calling_the_text_beside_the_calls_is_visible() -> None:
    looks = [{"_tool": "look", "what": what, "_instance": who} for who, what in WANTED.items()]
    peek = {"_tool": "peek", "_instance": "bob"}
    answers = [{"calls": looks, "output": None}, {"calls": [peek], "output": "Soon."}]
    told, given = peeked(
        *(reply(f"So:\n{json.dumps(answer)}") for answer in answers),
        definition={"calling": "composed"},
    )

    assert told[2] == 'So:\nCall of look: {"what": "beans", "_instance": "bob"}'
    assert (given[2]["content"], given[-1]["content"]) == ("So:", "So:\n\nSoon.")
    assert "said" not in given[2]
    assert "steam" not in str((told, given))


WANTED = {"ada": "steam", "bob": "beans"}


@pytest.mark.parametrize(("whose", "heard"), [("ada", False), ("bob", True)])
def test_the_result_of_a_tool_is_visible_to_its_instance(whose: str, heard: bool) -> None:
    parts = [{"type": "text", "text": "steam"}, {"type": "data", "kind": "note", "data": "hot"}]
    model = [reply("", of(whose)), reply("", of("bob", "peek"))]
    told, given = peeked(*model, outcomes={"look": {"_message": {"content": parts}}})

    assert ('steam\nnote: "hot"' in told) is heard
    assert ("steam" in str(given)) is heard


@pytest.mark.parametrize("refused", [of(None, what="steam"), of("eve", what="steam")])
def test_a_call_without_an_instance_is_visible_to_none(refused: WrittenCall) -> None:
    told, given = peeked(reply("", refused), reply("", of("bob", "peek")))

    assert "steam" not in str((told, given))


def test_a_run_without_instances_shows_the_log_as_it_is() -> None:
    strict = tool("strict", {"type": "object", "required": ["what"]})
    model = reply("", of(None, "strict"), of(None, what="steam"), provider_data={"a": 1})
    told, given = peeked(model, reply("", of(None, "peek")), context=[], tools=[strict])

    assert 'Call of look: {"what": "steam"}' in told[1]
    assert "invalid_arguments" in told[2]
    assert given[1]["providerData"] == {"a": 1}
    assert [message.get("callId") for message in given] == [None, None, "t1c1", "t1c2", None]
