"""The scripted answers: https://ai.pydantic.dev/testing, `FunctionModel`."""

from pydantic_ai import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

CALLS = [
    ToolCallPart("find_order", {"order_id": "7"}, "call-1"),
    ToolCallPart("refund", {"order_id": "7", "amount": 20}, "call-2"),
    ToolCallPart("final_result", {"refund_id": "R-7", "text": "I refunded order 7."}, "call-3"),
]


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(parts=[CALLS[turn]])


MODEL = FunctionModel(answer)
