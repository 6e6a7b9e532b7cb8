"""The scripted answers: `agents.testing`, the SDK's own test doubles."""

from agents.items import TResponseOutputItem
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

ANSWERS = [
    function_call("find_order", {"order_id": "7"}, call_id="call-1"),
    function_call("refund", {"order_id": "7", "amount": 20}, call_id="call-2"),
    assistant_message('{"refund_id": "R-7", "text": "I refunded order 7."}'),
]


def answer(call: ModelCall) -> list[TResponseOutputItem]:
    turn = sum(item.get("type") == "function_call_output" for item in call.input)
    return [ANSWERS[turn]]


MODEL = ScriptedModel([ModelStep.respond(answer)] * len(ANSWERS))
