"""`python -m tests.schemas.publish`: write `holdfast/schemas/*.schema.json` from the models.

They are for editors, and for clients in other languages.
"""

import json
from functools import reduce
from operator import or_
from typing import Any, Literal, NamedTuple

from holdfast.schemas.agent import AgentDefinition
from holdfast.schemas.decision import Decision, PendingApproval, Plan, Receipt
from holdfast.schemas.json_schema import DRAFT
from holdfast.schemas.message import Delivered
from holdfast.schemas.run import CallRequest, PageRequest, RunRequest, RunResult
from holdfast.schemas.settings.budgets import Budgets
from holdfast.schemas.settings.endpoints import Endpoints
from holdfast.schemas.settings.evals import EvalSuite
from holdfast.schemas.settings.inbox import InboxSettings
from holdfast.schemas.settings.keys import Encryption, KeySets
from holdfast.schemas.settings.limits import Limits
from holdfast.schemas.settings.notify import News, Notifiers
from holdfast.schemas.settings.schedules import ScheduleDefinition
from holdfast.schemas.settings.servers import Servers
from holdfast.schemas.tool import Envelope, ShownTool, ToolDefinition
from holdfast.schemas.type_schema import EVENTS, described
from tests.support.process import ROOT

FOLDER = ROOT / "holdfast" / "schemas"


class Published(NamedTuple):
    """One published schema: whether it describes what others write, or what they are answered."""

    title: str
    type: Any
    mode: Literal["validation", "serialization"]


PUBLISHED = {
    "tool": Published("Tool", ToolDefinition, "validation"),
    "agent": Published("Agent", AgentDefinition, "validation"),
    "endpoints": Published("Endpoints", Endpoints, "validation"),
    "servers": Published("MCP servers", Servers, "validation"),
    "keys": Published("Key sets", KeySets, "validation"),
    "encryption": Published("Encryption", Encryption, "validation"),
    "inbox": Published("Inbox", InboxSettings, "validation"),
    "limits": Published("Limits", Limits, "validation"),
    "budgets": Published("Budgets", Budgets, "validation"),
    "schedule": Published("Schedule", ScheduleDefinition, "validation"),
    "evals": Published("Suite of cases", EvalSuite, "validation"),
    "notify": Published("Notifiers", Notifiers, "validation"),
    "news": Published("News", News, "serialization"),
    "run-request": Published("Run request", RunRequest, "validation"),
    "run-result": Published("Run result", RunResult, "serialization"),
    "call-request": Published("Call request", CallRequest, "validation"),
    "message": Published("Message", Delivered, "validation"),
    "decision": Published("Decision", Decision, "validation"),
    "plan": Published("Plan", Plan, "validation"),
    "receipt": Published("Receipt", Receipt, "serialization"),
    "waiting": Published("Pending approval", PendingApproval, "serialization"),
    "shown-tool": Published("Shown tool", ShownTool, "serialization"),
    "page-request": Published("Page request", PageRequest, "validation"),
    "event": Published("Event", reduce(or_, EVENTS), "validation"),
    "result-envelope": Published("Result envelope", Envelope, "validation"),
}


# What editors offer to begin with.
_EXAMPLES: dict[str, Any] = {
    "tool": {
        "description": "Refund an order, in full or in part.",
        "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["order_id", "amount"],
        "_activity": {"type": "RefundOrder", "taskQueue": "payments"},
        "_sideEffects": True,
    },
    "agent": {
        "instructions": "You are the service desk of a shop.",
        "model": {"endpoint": "openai", "name": "gpt-5-mini"},
        "tools": ["refund"],
        "budget": {"maxTurns": 8},
    },
    "encryption": {"keys": [{"id": "2026-08", "env": "PAYLOAD_KEY_2026_08"}]},
    "keys": {"people": {"file": "people.jwks.json", "for": ["decisions"]}},
    "inbox": {
        "url": "https://inbox.example.com",
        "oidc": {
            "issuer": "https://login.example.com",
            "clientId": "holdfast-inbox",
            "clientSecretEnv": "INBOX_CLIENT_SECRET",
        },
    },
    "budgets": [{"name": "teams", "per": "team", "window": "day", "maxCost": 20}],
    "limits": {"budget": {"maxIterations": 6}, "approval": {"require": "side_effects"}},
    "schedule": {
        "agent": "desk",
        "input": "Write the report of yesterday.",
        "cron": "0 7 * * 1-5",
        "timeZone": "Europe/Berlin",
        "overlap": "Skip",
    },
    "evals": {
        "agent": "desk",
        "cases": [{"name": "small", "request": {"input": "Order 7 is broken."}}],
    },
    "notify": {
        "inbox": "https://inbox.example",
        "channels": {"desk": {"slack": {"urlEnv": "SLACK_URL"}, "on": ["asked", "reminder"]}},
    },
    "servers": {
        "shop": {"url": "https://shop.example/mcp", "headersEnv": {"Authorization": "SHOP_TOKEN"}},
        "git": {"command": "uvx", "args": ["mcp-server-git"], "trusted": True},
    },
    "endpoints": {
        "local": {"provider": "openai", "baseUrl": "http://localhost:8080/v1", "timeout": "5m"}
    },
}


# What the log adds to every entry; `result` is the content that the model was shown of a result.
_NUMBERED: dict[str, Any] = {
    "description": "An event of a run, as the query `events` answers it.",
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1},
        "at": {"type": "string", "format": "date-time"},
        "type": {"type": "string"},
        "result": True,
    },
    "required": ["n", "at", "type"],
}


def schema_of(name: str) -> dict[str, Any]:
    """Return the published schema of that name."""
    title, kind, mode = PUBLISHED[name]
    made = described(kind, mode)
    if name == "event":
        made = {**_NUMBERED, **made}
    examples = {"examples": [_EXAMPLES[name]]} if name in _EXAMPLES else {}
    return {"$schema": DRAFT, "$id": f"urn:holdfast:{name}", **made, "title": title, **examples}


def text_of(name: str) -> str:
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every file, and remove those of schemas that are no longer published."""
    for old in FOLDER.glob("*.schema.json"):
        old.unlink()
    for name in PUBLISHED:
        (FOLDER / f"{name}.schema.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
