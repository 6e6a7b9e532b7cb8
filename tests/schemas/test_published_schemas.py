"""§3: one schema describes each object, and is published (`schemas/*.schema.json`)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.agent import AgentDefinition
from holdfast.schemas.base import Strict
from holdfast.schemas.decision import Decision, Receipt
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.log_entry import DoneEntry, ToolCallEntry, ToolEndEntry
from holdfast.schemas.names import CallError, ErrorCode
from holdfast.schemas.run import CallRequest, RunRequest, RunResult
from holdfast.schemas.tool import ToolDefinition
from tests.schemas import publish
from tests.support.news_receivers import WAITING, news

TOOL = {
    "_tool": "refund",
    "description": "Refund an order, in full or in part.",
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "number", "exclusiveMinimum": 0},
        "_output": {"type": "object", "properties": {"refund_id": {"type": "string"}}},
        "_outputPath": {"const": "†state.refund"},
    },
    "required": ["order_id", "amount"],
    "$defs": {"money": {"type": "number"}},
    "x-of-somebody-else": True,
    "_activity": {"type": "RefundOrder", "taskQueue": "payments", "startToCloseTimeout": "30s"},
    "_sideEffects": True,
    "_idempotent": True,
    "_approval": {"when": {"properties": {"amount": {"exclusiveMinimum": 100}}}, "timeout": "24h"},
    "_requires": ["orders:refund"],
}
AGENT = {
    "name": "support",
    "instructions": "Be kind.",
    "model": {"endpoint": "openai", "name": "small", "maxOutputTokens": 500},
    "tools": ["look_up", TOOL],
    "toolChoice": {"name": "refund"},
    "budget": {"maxTurns": 3, "maxDuration": "1h30m"},
    "onLimit": {"maxTurns": "ask"},
    "approval": {"timeout": "2h", "auto": ["look_up"]},
    "calling": "composed",
    "plan": "lazy",
    "memory": True,
    "knowledge": [{"name": "faq", "description": "Our terms.", "file": "faq.md"}],
    "skills": [
        {"name": "refunds", "tools": [TOOL], "knowledge": [{"name": "law", "text": "…"}]},
        {"name": "report", "activity": {"type": "Report", "taskQueue": "books"}},
    ],
    "_before": {"type": "Policy", "taskQueue": "policies"},
}
REQUEST = {
    "agent": AGENT,
    "input": {"order": 7},
    "context": [
        {"role": "user", "content": [{"type": "data", "kind": "note", "data": 1, "_instance": "a"}]}
    ],
    "skill": "refunds",
    "principal": {"id": "ada", "scopes": ["orders:refund"]},
    "conversation": {"idleTimeout": "7d"},
}
CALL = {"tool": TOOL, "arguments": {"order_id": "A-1"}, "principal": {"id": "ada"}}
NOTIFIERS = {
    "$schema": "schemas/notify.schema.json",
    "inbox": "https://acme.org/holdfast",
    "channels": {
        "program": {"webhook": {"url": "http://ops:8080/x", "secretEnv": "S"}, "content": "full"},
        "people": {"mail": {"host": "h", "from": "a@b.org", "toGroups": {"finance": ["c@b.org"]}}},
        "chat": {"slack": {"urlEnv": "SLACK_URL"}, "groups": ["finance"], "on": ["asked"]},
    },
}
DECISION = {"callId": "t1c1", "decision": "edit", "arguments": {"amount": 5}, "by": "ada"}
EXAMPLE_FILES = ("agents/*.*", "tools/*.*", "endpoints.yaml")
SHIPPED = sorted(
    path
    for pattern in EXAMPLE_FILES
    for folder in ("examples/*", "holdfast/cli/template")
    for path in Path(__file__).parents[2].glob(f"{folder}/{pattern}")
)


def event(entry: Any) -> dict[str, Any]:
    """An entry as the query `events` answers it."""
    return {"n": 1, "at": "2026-01-02T03:04:05.678Z", **entry.to_json()}


DENIED = CallError(code=ErrorCode.DENIED, message="no")
# Their schemas show an example.
WITH_EXAMPLE = ("tool", "agent", "endpoints", "servers", "keys", "inbox", "notify")
EXAMPLES: list[tuple[str, Any]] = [
    ("tool", TOOL),
    ("tool", {}),
    ("tool", {"_delegate": "translator", "_scopes": ["state"], "_instance": "berlin"}),
    ("tool", {"_output": True, "properties": {"_instance": {"enum": ["berlin", "tokyo"]}}}),
    ("tool", {"_activity": {"type": "x", "local": True}, "_before": "y", "_after": {"type": "z"}}),
    ("tool", {"_activity": {"type": "generate", "taskQueue": "elsewhere"}}),
    ("agent", AGENT),
    ("agent", {"model": {"endpoint": "m"}}),
    ("run-request", REQUEST),
    ("run-request", {"agent": "support"}),
    ("call-request", CALL),
    ("call-request", {"tool": "refund"}),
    ("run-result", RunResult(status="stopped", turns=1, calls=2, usage=Usage()).to_json()),
    ("decision", DECISION),
    ("receipt", Receipt(call_id="t1c1", decision="deny", decided=True).to_json()),
    ("waiting", WAITING.to_json()),
    ("waiting", WAITING.model_copy(update={"instance": "ada"}).to_json()),
    ("waiting", WAITING.model_copy(update={"on_timeout": "approve"}).to_json()),
    ("message", {"content": "And the other one?", "delivery": "followUp"}),
    ("endpoints", {"openai": {"provider": "openai", "baseUrl": "https://x/v1", "timeout": "30s"}}),
    ("tool", {"$schema": "../schemas/tool.schema.json", "properties": {"a": {"x-hint": 1}}}),
    ("tool", {"properties": {"a": {"nullable": True, "example": 1, "deprecated": True}}}),
    ("agent", {"$schema": "../schemas/agent.schema.json", "model": {"endpoint": "m"}}),
    ("endpoints", {"$schema": "schemas/endpoints.schema.json"}),
    ("keys", {"people": {"file": "people.jwks.json", "for": ["decisions"], "leeway": "5s"}}),
    (
        "keys",
        {"id": {"url": "https://id.example/jwks.json", "audience": "us", "for": ["inbox"]}},
    ),
    ("notify", NOTIFIERS),
    ("news", news("decided").to_json()),
    ("news", news(agent=None, principal=None, link="https://inbox.x/waiting/a/t1c1").to_json()),
    ("page-request", {"after": 3}),
    ("event", event(ToolCallEntry(turn=1, call_id="t1c1", tool="refund", arguments={"amount": 5}))),
    ("event", event(DoneEntry(status="completed", output="Done."))),
    ("event", event(ToolEndEntry(turn=1, call_id="t1c1", tool="refund", error=DENIED))),
    ("result-envelope", {"content": "Sent.", "terminate": True}),
    *((name, publish.schema_of(name)["examples"][0]) for name in WITH_EXAMPLE),
]
# More of what is wrong is in the tests of what loading refuses.
WRONG: list[tuple[str, Any]] = [
    ("tool", {"_": 1}),
    ("tool", {"properties": {"a": {"properties": {"b": {"type": "sting"}}}}}),
    ("tool", {"properties": {"_sideEffects": {"const": "yes"}}}),
    ("tool", {"_before": {"type": "x", "local": True}}),
    ("agent", {**AGENT, "_before": {"type": "x", "local": True}}),
    ("agent", {**AGENT, "skills": [{"tools": []}]}),
    ("agent", {**AGENT, "knowledge": [{"name": "faq"}]}),
    ("run-request", {"agent": {"model": {}}}),
    ("call-request", {"arguments": {}}),
    ("call-request", {"tool": "refund", "arguments": [5]}),
    ("call-request", {"tool": {"_foo": 1}}),
    ("decision", {**DECISION, "decision": "perhaps"}),
    ("message", {"content": "x", "delivery": "now"}),
    ("keys", {}),
    ("notify", {"inbox": "https://inbox.x"}),
    ("notify", {**NOTIFIERS, "inbox": "inbox.x"}),
    ("notify", {**NOTIFIERS, "channels": {}}),
    ("event", {"n": 1, "at": "2026-01-02T03:04:05.678Z", "type": "no_such_event"}),
    ("event", DoneEntry(status="completed").to_json()),
]


def published(name: str) -> dict[str, Any]:
    """Return the published schema."""
    text = (publish.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def mistakes(name: str, value: Any) -> list[str]:
    """Return what the published schema finds wrong with a value."""
    found = Draft202012Validator(published(name)).iter_errors(value)
    return [error.message for error in found]


@pytest.mark.parametrize("name", sorted(publish.PUBLISHED))
def test_a_published_file_is_made_from_the_models(name: str) -> None:
    published = (publish.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert published == publish.text_of(name), "run `make schemas`"


def test_nothing_else_is_published() -> None:
    files = {path.name.removesuffix(".schema.json") for path in publish.FOLDER.glob("*.json")}
    assert files == set(publish.PUBLISHED)


@pytest.mark.parametrize("name", sorted(publish.PUBLISHED))
def test_a_published_schema_is_valid_and_described(name: str) -> None:
    schema = published(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:holdfast:{name}"
    assert schema["title"]
    assert schema["description"]
    kind = publish.PUBLISHED[name].type
    if isinstance(kind, type) and issubclass(kind, Strict) and name != "tool":
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize(("name", "value"), EXAMPLES)
def test_what_is_right_fits(name: str, value: Any) -> None:
    assert mistakes(name, value) == []


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_is_wrong_does_not_fit(name: str, value: Any) -> None:
    assert mistakes(name, value)


@pytest.mark.parametrize("path", SHIPPED, ids=str)
def test_the_agents_tools_and_endpoints_that_we_ship_fit(path: Path) -> None:
    kinds = {"agents": "agent", "tools": "tool", "endpoints.yaml": "endpoints"}
    name = next(kind for part, kind in kinds.items() if part in path.parts)
    assert mistakes(name, read_source(path).value) == []


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in it that has properties."""
    if not isinstance(schema, dict):
        return
    if "properties" in schema:
        yield schema
    for key, inner in schema.items():
        if key in ("properties", "$defs"):
            inside = list(inner.values())
        else:
            inside = inner if isinstance(inner, list) and key != "examples" else [inner]
        for each in inside:
            yield from objects(each)


@pytest.mark.parametrize("name", sorted(publish.PUBLISHED))
def test_every_field_is_described_and_every_definition_has_a_title(name: str) -> None:
    schema = publish.schema_of(name)
    meaning = {key: each for each in objects(schema) for key, each in each["properties"].items()}
    for key, each in meaning.items():
        # What is fixed needs no words, and neither does a condition on another field.
        if key not in ("n", "at", "type", "const") and not isinstance(each, bool):
            assert {"description", "const"} & set(each), key
    titles = [each["title"] for each in schema.get("$defs", {}).values()]
    assert [title for title in titles if re.search("[a-z][A-Z]", title)] == []


def test_the_examples_are_what_the_models_read() -> None:
    for model, value in (
        (ToolDefinition, TOOL),
        (AgentDefinition, AGENT),
        (RunRequest, REQUEST),
        (CallRequest, CALL),
        (Decision, DECISION),
    ):
        model.model_validate(value, by_alias=True, by_name=False)


def test_publishing_writes_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no-longer.schema.json").write_text("{}")
    monkeypatch.setattr(publish, "FOLDER", tmp_path)
    publish.main()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.schema.json" for name in publish.PUBLISHED
    }
