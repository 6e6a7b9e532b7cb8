"""§3: one schema describes each object, and is published (`schemas/*.schema.json`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from activities.catalog.source import read_source
from schemas import publish
from schemas.agent import AgentDefinition
from schemas.decision import Decision, Receipt, Waiting
from schemas.entry import Done, ToolCall, ToolEnd
from schemas.errors import CallError, ErrorCode
from schemas.run import RunRequest, RunResult
from schemas.solution import Usage
from schemas.tool import META_PROPERTIES, ToolDefinition

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
}
REQUEST = {
    "agent": AGENT,
    "input": {"order": 7},
    "context": [{"role": "user", "content": [{"type": "data", "kind": "note", "data": 1}]}],
    "principal": {"id": "ada", "scopes": ["orders:refund"]},
    "conversation": {"idleTimeout": "7d"},
}
DECISION = {"callId": "t1c1", "decision": "edit", "arguments": {"amount": 5}, "by": "ada"}
WAITING = Waiting(
    call_id="t1c1",
    kind="call",
    tool="refund",
    label="Refund",
    arguments={"amount": 5},
    digest="0" * 64,
    requested_at="2026-01-02T03:04:05.678Z",
    expires_at="2026-01-09T03:04:05.678Z",
)


EXAMPLE_FILES = ("*/agents/*.*", "*/tools/*.*", "*/endpoints.yaml")
SHIPPED = sorted(
    path
    for pattern in EXAMPLE_FILES
    for path in Path(__file__).parents[2].glob(f"examples/{pattern}")
)


def event(entry: Any) -> dict[str, Any]:
    """An entry as the query `events` answers it."""
    return {"n": 1, "at": "2026-01-02T03:04:05.678Z", **entry.to_json()}


EXAMPLES: list[tuple[str, Any]] = [
    ("tool", TOOL),
    ("tool", {}),
    ("agent", AGENT),
    ("agent", {"model": {"endpoint": "m"}}),
    ("run-request", REQUEST),
    ("run-request", {"agent": "support"}),
    ("run-result", RunResult(status="stopped", turns=1, calls=2, usage=Usage()).to_json()),
    ("decision", DECISION),
    ("receipt", Receipt(call_id="t1c1", decision="deny", decided=True).to_json()),
    ("waiting", WAITING.to_json()),
    ("message", {"content": "And the other one?", "delivery": "followUp"}),
    ("endpoints", {"openai": {"provider": "openai", "baseUrl": "https://x/v1", "timeout": "30s"}}),
    ("page-request", {"after": 3}),
    ("event", event(ToolCall(turn=1, call_id="t1c1", tool="refund", arguments={"amount": 5}))),
    ("event", event(Done(status="completed", output="Done."))),
    (
        "event",
        event(
            ToolEnd(
                turn=1,
                call_id="t1c1",
                tool="refund",
                error=CallError(code=ErrorCode.DENIED, message="no"),
            )
        ),
    ),
    ("result-envelope", {"content": "Sent.", "terminate": True}),
]
WRONG: list[tuple[str, Any]] = [
    *(("tool", {f"{name}x": 1}) for name in META_PROPERTIES),
    ("tool", {"_": 1}),
    ("tool", {"properties": {"_activty": {"const": "x"}}}),
    ("tool", {"type": "array"}),
    ("tool", {"_activity": {"taskQueue": "q"}}),
    ("tool", {"_approval": {"timeout": "soon"}}),
    ("agent", {}),
    ("agent", {**AGENT, "tols": []}),
    ("agent", {**AGENT, "tools": [{"_foo": 1}]}),
    ("agent", {**AGENT, "tool_choice": "none"}),
    ("run-request", {"agent": {"model": {}}}),
    ("decision", {**DECISION, "decision": "perhaps"}),
    ("message", {"content": "x", "delivery": "now"}),
    ("endpoints", {"openai": {"provider": "telepathy"}}),
    ("event", {"n": 1, "at": "2026-01-02T03:04:05.678Z", "type": "no_such_event"}),
    ("event", Done(status="completed").to_json()),
]


def validator(name: str) -> Draft202012Validator:
    """A validator of the published file."""
    text = (publish.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("name", sorted(publish.PUBLISHED))
def test_a_published_file_is_what_the_models_say(name: str) -> None:
    published = (publish.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert published == publish.text_of(name), "run `make schemas`"


def test_nothing_else_is_published() -> None:
    files = {path.name.removesuffix(".schema.json") for path in publish.FOLDER.glob("*.json")}
    assert files == set(publish.PUBLISHED)


@pytest.mark.parametrize("name", sorted(publish.PUBLISHED))
def test_a_published_schema_is_valid_and_says_what_it_is(name: str) -> None:
    schema = validator(name).schema
    assert isinstance(schema, dict)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:holdfast:{name}"
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize(("name", "value"), EXAMPLES)
def test_what_is_right_fits(name: str, value: Any) -> None:
    assert [error.message for error in validator(name).iter_errors(value)] == []


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_is_wrong_does_not_fit(name: str, value: Any) -> None:
    assert list(validator(name).iter_errors(value))


@pytest.mark.parametrize("path", SHIPPED, ids=str)
def test_the_agents_tools_and_endpoints_that_we_ship_fit(path: Path) -> None:
    kinds = {"agents": "agent", "tools": "tool", "endpoints.yaml": "endpoints"}
    name = next(kind for part, kind in kinds.items() if part in path.parts)
    value = read_source(path).value
    assert [error.message for error in validator(name).iter_errors(value)] == []


def test_the_examples_are_what_the_models_read() -> None:
    for model, value in (
        (ToolDefinition, TOOL),
        (AgentDefinition, AGENT),
        (RunRequest, REQUEST),
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
