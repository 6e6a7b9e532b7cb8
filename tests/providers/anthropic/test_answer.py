"""What Anthropic, and servers of its format, may answer; and what is understood of it."""

from typing import Any

import httpx
import pytest

from holdfast.providers.answer.streamed_answer import MAX_PROVIDER_DATA_BYTES
from holdfast.providers.base import ContextOverflow, ProviderRefused
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import TOOLS, stream
from tests.providers.test_conformance import Exchange, good, refusal
from tests.providers.wire.anthropic import (
    AnthropicWire,
    block,
    call,
    events,
    started,
    stopped,
    text,
)

THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}
DEEP = [
    {"type": "thinking_delta", "thinking": "Let me"},
    {"type": "thinking_delta", "thinking": " see."},
    {"type": "signature_delta", "signature": "c2ln"},
]


async def solve(*replies: bytes | httpx.Response, **asked: Any) -> Solution:
    """What is understood of an answer, or of the last of them."""
    responses = [good(each) if isinstance(each, bytes) else each for each in replies]
    return await Exchange(AnthropicWire(), *responses).solve(**{"tools": TOOLS, **asked})


async def test_calls_whose_pieces_are_interleaved_are_separated() -> None:
    first, second = list(call(0, "rag_query", '{"a": 1}')), list(call(1, "refund", '{"b": 2}'))
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    solution = await solve(events(started(), *mixed, *stopped("tool_use")))
    assert [made.arguments for made in solution.calls] == [{"a": 1}, {"b": 2}]


async def test_a_call_without_arguments_has_none() -> None:
    solution = await solve(events(started(), *call(0, "refund"), *stopped("tool_use")))
    assert solution.calls[0].arguments == {}


@pytest.mark.parametrize("whole", [{"a": "ä"}, '{"a": "ä"}'], ids=["object", "text"])
async def test_arguments_that_come_whole_with_the_name_are_kept(whole: Any) -> None:
    opening = {"type": "tool_use", "id": "1", "name": "refund", "input": whole}
    start = {"type": "content_block_start", "index": 0, "content_block": opening}
    solution = await solve(stream([start, *stopped("tool_use")]))
    assert solution.calls[0].arguments == {"a": "ä"}


async def test_thoughts_are_kept_in_their_place_and_not_shown() -> None:
    solution = await solve(
        events(
            started(),
            *block(0, THOUGHT, *DEEP),
            *text(1, "So", ": "),
            *block(2, {"type": "redacted_thinking", "data": "x"}),
            *call(3, "refund", "{}"),
            *stopped("tool_use"),
        )
    )
    assert solution.text == "So: "
    assert solution.provider_data == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "characters": 4},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use"},
    ]


async def test_unsigned_thoughts_are_kept_for_hosts_that_sign_nothing() -> None:
    unsigned = block(0, THOUGHT, *DEEP[:2])
    solution = await solve(events(started(), *unsigned, *text(1, "So"), *stopped("end_turn")))
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "", "endpoint": "openai"}
    assert solution.provider_data == [thought, {"type": "text", "characters": 2}]


async def test_thoughts_too_large_to_be_kept_are_left_out_and_reported() -> None:
    long = {"type": "thinking_delta", "thinking": "x" * (MAX_PROVIDER_DATA_BYTES + 1)}
    thought = block(0, THOUGHT, long, DEEP[2])
    solution = await solve(events(started(), *thought, *call(1, "refund"), *stopped("tool_use")))
    assert solution.provider_data is None
    assert len(solution.calls) == 1
    assert "thoughts" in solution.notices[0]


async def test_a_refusal_is_reported_with_the_provider_s_words() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "Not\nthis."}
    solution = await solve(events(started(), *stopped("refusal", stop_details=why)))
    assert solution.notices == ["the provider's filters ended the answer (`refusal`): Not this."]


async def test_counts_are_sums_so_far_and_the_last_of_each_holds() -> None:
    last, end = stopped("end_turn")
    last["usage"] = {"output_tokens": 9, "input_tokens": 6, "cache_read_input_tokens": 2}
    opening = started(cache_read_input_tokens=1, cache_creation_input_tokens=4)
    usage = (await solve(events(opening, last, end))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (12, 9, 2)


async def test_too_large_a_request_in_a_stream_is_too_long_a_conversation() -> None:
    error = {"type": "error", "error": {"type": "request_too_large", "message": "Sorry"}}
    with pytest.raises(ContextOverflow) as refused:
        await solve(stream([error]))
    assert (refused.value.status, refused.value.window) == (413, None)


def refused(message: str) -> httpx.Response:
    return refusal(AnthropicWire(), 400, message)


YES = events(started(), *text(0, "Yes"), *stopped("end_turn"))


@pytest.mark.parametrize(
    ("message", "changes", "told"),
    [
        ("`temperature` is deprecated for this model.", {}, "`temperature`"),
        ("`temperature` and `top_p` cannot both be specified for this model.", {}, "`temperature`"),
        ("`temperature` may only be set to 1 when thinking is enabled.", {}, "`temperature`"),
        (
            "Thinking may not be enabled when tool_choice forces tool use.",
            {"toolChoice": "required"},
            "cannot be forced to call",
        ),
        ("output_config.format: Extra inputs are not permitted", {"output": {}}, "output's schema"),
        ("output_config: Extra inputs are not permitted", {"output": {}}, "output's schema"),
        ("Schema is too complex for compilation.", {"output": {}}, "output's schema"),
        (
            "output_config.format.schema: For 'integer' type, property 'minimum' is not supported",
            {"output": {}},
            "output's schema",
        ),
    ],
)
async def test_a_setting_that_a_model_refuses_is_left_out_and_reported(
    message: str, changes: dict[str, Any], told: str
) -> None:
    solution = await solve(refused(message), YES, **changes)
    assert solution.text == "Yes"
    assert any(told in notice for notice in solution.notices)


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("temperature: range: 0..1", {"model": {"temperature": 1.5}}),
        ("tools.0.custom.input_schema: JSON schema is invalid", {"output": {}}),
        ("output_config.effort: Input should be 'low', 'medium' or 'high'", {"output": {}}),
        ("Thinking may not be enabled when tool_choice forces tool use.", {}),
        ("output_config.format: Extra inputs are not permitted", {}),
    ],
)
async def test_a_mistake_of_the_agent_s_is_reported_as_it_is(
    message: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(ProviderRefused) as error:
        await solve(refused(message), YES, **changes)
    assert error.value.message == message
