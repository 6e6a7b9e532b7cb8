"""A call that the token limit cuts off in its middle, and the turns after it.

This server refuses a history that holds such a call, and would refuse it for ever.
"""

import httpx
import pytest

from examples.local_model.serve import MODEL_NAME
from tests.model.mind import PlayedDesk, ended, model_messages

pytestmark = [pytest.mark.model, pytest.mark.timeout(100)]

LOOK_UP = "Look up order 1042."
# The call takes about 30 tokens: this is from its first word to just before its end.
LIMITS = [3, 16, 22, 29]


async def test_the_runs_continue_and_end(desk: PlayedDesk) -> None:
    calls = []
    for limit in LIMITS:
        run = await desk.ask(
            LOOK_UP,
            tools=["look_up_order"],
            model={"maxOutputTokens": limit},
            budget={"maxTurns": 3},
        )
        result = await ended(run)
        assert result["turns"] > 1
        calls += [
            call for message in await model_messages(run) for call in message.get("calls", [])
        ]
    # Or else nothing was cut off where it matters.
    assert any(call.get("written", "").startswith('{"order') for call in calls)


@pytest.mark.parametrize("arguments", ['{"order_id": 10', ""])
def test_a_history_with_broken_arguments_is_refused(model_url: str, arguments: str) -> None:
    function = {"name": "look_up_order", "arguments": arguments}
    called = {"id": "t1c1", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": LOOK_UP},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "t1c1", "content": "invalid_arguments"},
    ]
    body = {"model": MODEL_NAME, "messages": messages, "max_tokens": 1}
    answer = httpx.post(f"{model_url}/chat/completions", json=body, trust_env=False, timeout=30)
    assert answer.status_code == 500
