"""What a call is let see of its run besides its arguments, and how that is described."""

from typing import Any

from holdfast.schemas.message import DataPart
from holdfast.schemas.tool import ResolvedTool
from holdfast.workflows.engine.call.outcomes import Outcome, Succeeded
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.conversation import scopes as visible
from tests.engine.driver import Play, call, reply, tool


def sees(*scopes: str, instance: str | None = None, **request: Any) -> tuple[Any, list[Any]]:
    """The values and the transcript that a call with these scopes sees."""
    found: list[Any] = []

    def look(one: ToolCall) -> Outcome:
        values = visible.values(one, one.prepared.visible_data or play.run.state.data)
        found.append((values, visible.transcript(one, play.run.state)))
        return Succeeded("done")

    arguments = {} if instance is None else {"_instance": instance}
    peek = ResolvedTool(**{**tool("peek").model_dump(), "scopes": list(scopes), "chosen": _CHOSEN})
    model = [reply("", call("peek", arguments)), reply("done")]
    play = Play(peek, model=model, outcomes={"peek": look}, **request)
    play.to_end()
    values, said = found[0]
    return values, [(message.role, message.content) for message in said]


_CHOSEN: dict[str, Any] = {"_instance": {"type": "string"}}


def data(kind: str, value: Any, instance: str | None = None) -> DataPart:
    return DataPart(kind=kind, data=value, instance=instance)


def test_a_scope_that_does_not_exist_shows_nothing() -> None:
    assert sees("input", "nothing", "input", input="x") == ({"input": "x"}, [])


def test_a_call_sees_its_own_instance_and_no_other() -> None:
    context = [
        {"content": [data("comment", "first", "a"), data("comment", "second", "b")]},
        {"content": [data("rules", "be kind")]},
    ]
    values, said = sees("comment", "rules", "context", instance="b", context=context)

    assert values == {"comment": "second", "rules": "be kind"}
    assert said[:2] == [("user", 'comment: "second"'), ("user", 'rules: "be kind"')]
    assert "first" not in str(said)


def test_a_long_message_is_cut_and_the_oldest_have_no_room() -> None:
    context = [{"content": f"{n}".rjust(9_000, ".")} for n in range(80)]
    _, said = sees("context", context=context)

    assert said[0] == ("user", "(31 earlier messages are left out.)")
    assert len(said) == 1 + 81 - 31
    assert said[1][1].endswith("… (9000 characters)")
    assert len(said[1][1]) < 8_100


def test_an_item_of_a_loop_does_not_see_the_answer_that_made_its_loop() -> None:
    said: list[list[str]] = []

    def look(one: ToolCall) -> Outcome:
        said.append([str(message.content) for message in visible.transcript(one, play.run.state)])
        return Succeeded("done")

    peek = tool("peek", scopes=["context"], each=True)
    calls = [call("peek", {"_each": ["first", "second"]}), call("other")]
    model = [reply("I look.", *calls), reply("done")]
    play = Play(peek, tool("other"), model=model, outcomes={"peek": look}, input="go")
    play.to_end()
    assert said == [["go"], ["go"]]
