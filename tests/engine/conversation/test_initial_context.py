"""What does not make a run, by its bounds; and previous calls."""

from typing import Any

import pytest

from holdfast.schemas.run import RunRequest
from holdfast.workflows.engine.conversation.initial_context import MAX_INSTANCES, InvalidRequest
from tests.engine.driver import Play, call, reply, tool


def data(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "data", "kind": kind, "data": value, **more}


def large_states(*instances: str) -> list[dict[str, Any]]:
    return [data("state", {"a": "x" * 300_000}, _instance=name) for name in instances]


@pytest.mark.parametrize(
    ("parts", "state", "why"),
    [
        ([], {"id": "x" * 1_000_000}, "`state` is too large: at most 900000 bytes"),
        (large_states("a", "b", "c", "d"), {}, "state would have 900026 bytes; at most 900000"),
        (
            [data("input", {}, _instance=f"n{n}") for n in range(MAX_INSTANCES + 1)],
            {},
            f"a run has at most {MAX_INSTANCES} instances",
        ),
    ],
)  # fmt: skip
def test_what_is_too_large_makes_no_run(
    parts: list[dict[str, Any]], state: dict[str, Any], why: str
) -> None:
    context = [{"content": parts}] if parts else []
    with pytest.raises(InvalidRequest, match=why):
        Play(context=context, input=None if parts else "go", state=state)


def test_data_that_cannot_be_kept_is_not_taken_and_that_is_noted() -> None:
    context = [{"content": [data("order", {"a": "x" * 500_000})]}]
    play = Play(context=context, model=[reply("done")] * 2)
    play.receive([data("order", {"b": "x" * 500_000}), {"type": "text", "text": "there"}])
    play.to_end()

    assert "the order in a message was not used" in play.records("notice")[0]["text"]
    assert "b" not in play.run.state.data["order"]
    assert play.messages()[-2]["content"] == [{"type": "text", "text": "there"}]


def test_previous_calls_have_ids_of_their_own_and_are_marked() -> None:
    asked = {"role": "assistant", "calls": [{"id": "a", "tool": "look"}]}
    context = [asked, {"role": "tool", "callId": "a", "content": "item 7"}]
    looks = reply("", call("look"), call("look", provider_id="t0c1"))
    play = Play(tool(), model=[looks, reply("done")], context=context).to_end()

    before, result, _, *later = play.messages()
    assert before["imported"]
    assert result["imported"]
    assert not any(message.get("imported") for message in later)
    ids = [each["providerId"] for one in play.messages() for each in one.get("calls", ())]
    assert len({*ids}) == len(ids) == 3, "providers match a result with its call by the id"


@pytest.mark.parametrize("field", ["input", "state"])
def test_what_is_nested_too_deep_is_no_request(field: str) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        RunRequest.model_validate({"agent": "a", "input": "go", field: {"a": deep}})
