"""How good the local model is, in three figures: `python -m examples.local_model.measure`.

Twenty requests, none of which the template was made with. Right means the right tool and every
argument that the request names, to the letter.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from examples.local_model.serve import MODEL_NAME, NotServedError, serve

MAX_TOKENS = 128
REQUEST_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Case:
    """What a person asks, and the one call that answers it."""

    request: str
    tool: str
    arguments: dict[str, str | int | float]


def tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    """A tool as chat completions spell it; `parameters` are the types of its arguments."""
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


DESK = [
    tool("search_orders", "Find the orders of a customer.", customer="string"),
    tool("look_up_order", "Look up one order by its number.", order="string"),
    tool("refund", "Pay money back for an order.", order="string", amount="number"),
    tool("cancel_shipment", "Stop the shipment of an order.", order="string"),
    tool("send_mail", "Send an e-mail.", to="string", text="string"),
]

CASES = [
    Case("Look up order F-620.", "look_up_order", {"order": "F-620"}),
    Case("Show me order 8841.", "look_up_order", {"order": "8841"}),
    Case("What is in order G-15?", "look_up_order", {"order": "G-15"}),
    Case("Look at order HX-9 please.", "look_up_order", {"order": "HX-9"}),
    Case("Search the orders of Lena Fischer.", "search_orders", {"customer": "Lena Fischer"}),
    Case("Find the orders of David Okafor.", "search_orders", {"customer": "David Okafor"}),
    Case("Which orders does Mei Tanaka have?", "search_orders", {"customer": "Mei Tanaka"}),
    Case("Search for paul@example.com.", "search_orders", {"customer": "paul@example.com"}),
    Case("Refund 45 euros for order J-3.", "refund", {"order": "J-3", "amount": 45}),
    Case("Refund 9.90 euros for order 7002.", "refund", {"order": "7002", "amount": 9.9}),
    Case("Pay 120 euros back for order L-88.", "refund", {"order": "L-88", "amount": 120}),
    Case("Give 15 euros back for order N-41.", "refund", {"order": "N-41", "amount": 15}),
    Case("Cancel the shipment of order P-230.", "cancel_shipment", {"order": "P-230"}),
    Case("Stop the shipment of order 6117.", "cancel_shipment", {"order": "6117"}),
    Case("Cancel shipping for order Q-12.", "cancel_shipment", {"order": "Q-12"}),
    Case("Do not ship order S-99: cancel it.", "cancel_shipment", {"order": "S-99"}),
    Case("Send a mail to ida@example.com: it is done.", "send_mail", {"to": "ida@example.com"}),
    Case("Write a mail to sam@example.org: we are sorry.", "send_mail", {"to": "sam@example.org"}),
    Case("Mail zoe@example.net that it is on its way.", "send_mail", {"to": "zoe@example.net"}),
    Case("Send an e-mail to jan@example.com: hello.", "send_mail", {"to": "jan@example.com"}),
]

FORCED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "about": {"enum": ["orders", "money", "mail"]},
        "urgent": {"type": "boolean"},
        "words": {"type": "integer"},
    },
    "required": ["about", "urgent", "words"],
    "additionalProperties": False,
}
FORCED_TYPES = {"about": str, "urgent": bool, "words": int}


def ask(client: httpx.Client, request: str, **settings: Any) -> dict[str, Any]:
    """The message that the model answers with."""
    body = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": request}],
        "max_tokens": MAX_TOKENS,
    }
    response = client.post("/chat/completions", json=body | settings)
    response.raise_for_status()
    message: dict[str, Any] = response.json()["choices"][0]["message"]
    return message


def called(message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The first call's tool and arguments; nothing where there is none, or half of one."""
    for call in message.get("tool_calls", []):
        try:
            return call["function"]["name"], json.loads(call["function"]["arguments"])
        except ValueError:
            break
    return "", {}


def is_right(case: Case, name: str, arguments: dict[str, Any]) -> bool:
    named = {key: arguments.get(key) for key in case.arguments}
    return name == case.tool and named == case.arguments


def is_well_formed(text: str) -> bool:
    try:
        answer = json.loads(text)
    except ValueError:
        return False
    return {key: type(value) for key, value in answer.items()} == FORCED_TYPES


def figures(client: httpx.Client) -> Iterator[str]:
    started = time.monotonic()
    calls = [called(ask(client, case.request, tools=DESK)) for case in CASES]
    seconds = (time.monotonic() - started) / len(CASES)
    right = sum(is_right(case, *call) for case, call in zip(CASES, calls, strict=True))
    right_tool = sum(case.tool == name for case, (name, _) in zip(CASES, calls, strict=True))
    schema = {"type": "json_schema", "json_schema": {"name": "forced", "schema": FORCED}}
    answers = [ask(client, case.request, response_format=schema)["content"] for case in CASES]
    yield f"right tool with right arguments: {right} of {len(CASES)} (right tool: {right_tool})"
    yield f"well formed under a forced schema: {sum(map(is_well_formed, answers))} of {len(CASES)}"
    yield f"seconds an answer with {len(DESK)} tools: {seconds:.1f}"


def main() -> None:
    try:
        with (
            serve() as url,
            httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_SECONDS, trust_env=False) as client,
        ):
            print(*figures(client), sep="\n")
    except NotServedError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
