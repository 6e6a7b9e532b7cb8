"""What Gemini signed is sent back as it came, and nothing is lost where nothing was signed."""

from typing import Any

import pytest

from holdfast.providers.answer.streamed_answer import MAX_PROVIDER_DATA_BYTES
from holdfast.providers.gemini.format import UNSIGNED
from tests.providers.fakes import chat_message
from tests.providers.gemini.gemini_exchange import (
    CALL,
    OWN,
    SIGNED,
    SIGNED_TOO,
    again,
    contents,
    read,
)
from tests.providers.wire.gemini import call, event


def test_signed_parts_are_sent_back_as_they_came() -> None:
    parts = [
        {"text": "Let me look."},
        call("rag_query", {"q": "a"}, thoughtSignature=SIGNED),
        call("rag_query", {"q": "b"}),
        {"text": "", "thoughtSignature": SIGNED_TOO},
    ]
    solution = read(
        event({"text": "Let me"}),
        event({"text": " look."}),
        *map(event, parts[1:]),
        event({"text": ""}, finish="STOP"),
    )
    model, _ = again(solution)
    assert model == {"role": "model", "parts": parts}


def test_a_signed_text_is_never_joined_with_another() -> None:
    parts = [
        {"text": "One.", "thoughtSignature": SIGNED},
        {"text": " Two."},
        {"text": " Three 😀.", "thoughtSignature": SIGNED_TOO},
    ]
    solution = read(*map(event, parts), event({"text": ""}, finish="STOP"))
    assert solution.text == "One. Two. Three 😀."
    assert again(solution) == [{"role": "model", "parts": parts}]


def test_four_calls_of_one_answer_stay_four_of_which_the_first_is_signed() -> None:
    parts = [call("rag_query", {"q": number}) for number in range(4)]
    parts[0]["thoughtSignature"] = SIGNED
    model, user = again(read(event(*parts, finish="STOP")))
    assert model["parts"] == parts
    assert len(user["parts"]) == 4


def test_an_unsigned_call_is_marked_as_such() -> None:
    model, _ = again(read(event(call("refund", {}), call("refund", {}), finish="STOP")))
    assert [part.get("thoughtSignature") for part in model["parts"]] == [UNSIGNED, None]


def test_signatures_too_large_to_be_kept_are_left_out_whole_and_reported() -> None:
    large = "A" * MAX_PROVIDER_DATA_BYTES
    solution = read(event(call("refund", {}, thoughtSignature=large), finish="STOP"))
    assert solution.provider_data is None
    assert "was left out" in solution.notices[0]
    model, _ = again(solution)
    assert model["parts"][0]["thoughtSignature"] == UNSIGNED


@pytest.mark.parametrize(
    "data",
    [
        *["x", {"thinking": "Hm."}],
        [None, 1, {"type": "text", "characters": 3, "signature": 5}],
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "tool_use"}],
        [{"type": "text", "characters": 99}, *[{"type": "call"}] * 3],
        [{"type": "text", "characters": "2"}],
    ],
)
def test_data_of_another_kind_loses_nothing_of_the_answer(data: Any) -> None:
    answer = chat_message("assistant", "Yes", calls=[CALL, OWN], providerData=data)
    _, model = contents(chat_message("user", "Hi"), answer)
    parts = [{**part} for part in model["parts"]]
    assert [part.pop("thoughtSignature", None) for part in parts] == [None, UNSIGNED, None]
    assert [next(iter(part)) for part in parts] == ["text", "functionCall", "functionCall"]
