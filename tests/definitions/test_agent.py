"""An agent in Python is its file: the same fields, the same checks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from holdfast import Agent, Budget, Skill, tool
from holdfast.definitions.agent import AgentFields, SkillFields
from holdfast.definitions.json_form import read_as
from holdfast.definitions.run_request import RequestFields, execute_agent, run_request
from holdfast.definitions.tool import Approval
from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.agent import AgentDefinition, Knowledge, ModelSettings, SkillDefinition
from holdfast.schemas.base import Stored, parse_duration
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import ActivityBinding

ROOT = Path(__file__).parents[2]
AGENT_FILES = [
    path
    for folder in ("examples", "holdfast/cli/template", "tests/protocol", "tests/support")
    for path in sorted((ROOT / folder).rglob("agents/*"))
]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
HOOK = {"type": "look", "startToCloseTimeout": "5s"}
# By the name of the field in Python: values as a file has them, and the same in Python's types.
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "description": [("what", "what")],
    "title": [("Order {order}", "Order {order}")],
    "instructions": [("do", "do"), ("", "")],
    "model": [
        ("m:x", "m:x"),
        (
            {"endpoint": "m", "retryFor": "90s"},
            ModelSettings(endpoint="m", retry_for=parse_duration("90s")),
        ),
        (["m", {"endpoint": "n", "name": "y"}], ["m", ModelSettings(endpoint="n", name="y")]),
    ],
    "calling": [("composed", "composed")],
    "tools": [(["find", {"_tool": "own"}], ["find", {"_tool": "own"}]), ([], [])],
    "skills": [([{"name": "s", "tools": ["t"]}], [Skill("s", tools=["t"])])],
    "change_skill": [(True, True), (False, False)],
    "knowledge": [([{"name": "k", "text": "t"}], [Knowledge(name="k", text="t")])],
    "memory": [(True, True)],
    "input": [(SCHEMA, SCHEMA), (True, True)],
    "output": [(SCHEMA, SCHEMA), ({"type": "integer"}, int)],
    "state": [(SCHEMA, SCHEMA)],
    "tool_choice": [("required", "required"), ({"name": "find"}, {"name": "find"})],
    "budget": [
        ({"maxTurns": 3, "perMessage": {"maxDuration": "1h"}},) * 2,
        ({"maxCost": 1.5}, Budget(max_cost=1.5)),
    ],
    "on_limit": [({"maxTurns": "fail"},) * 2],
    "on_threshold": [({"maxTokens": 0.5},) * 2],
    "concurrency": [(2, 2)],
    "approval": [
        ({"timeout": "24h", "auto": ["find"]},) * 2,
        ({"timeout": "1d"}, Approval(timeout=parse_duration("24h"))),
    ],
    "plan": [("lazy", "lazy")],
    "principal_scopes": [(["a"], ("a",)), ([], [])],
    "reasoning_for_call": [(False, False)],
    **{
        name: [("look", "look"), (HOOK, HOOK), (HOOK, ActivityBinding.model_validate(HOOK))]
        for name in (
            *("prepare", "repair", "before", "after"),
            *("before_model", "on_model_error", "after_answer"),
        )
    },
}


def _alias(name: str) -> str:
    return AgentDefinition.model_fields[name].alias or name


def test_every_field_of_a_file_is_an_argument() -> None:
    beside = {"name", "output", "schema_uri"}
    assert AgentFields.__annotations__.keys() == AgentDefinition.model_fields.keys() - beside
    assert SkillFields.__annotations__.keys() == SkillDefinition.model_fields.keys() - {"name"}
    assert RequestFields.__annotations__.keys() == RunRequest.model_fields.keys() - {
        "agent",
        "input",
    }
    assert VALUES.keys() | {"calls", "answer"} == AgentFields.__annotations__.keys() | {"output"}


@given(st.fixed_dictionaries({}, optional={name: st.sampled_from(VALUES[name]) for name in VALUES}))
def test_an_agent_in_python_is_its_file_and_back(fields: dict[str, tuple[Any, Any]]) -> None:
    fields = {"model": ("m", "m"), **fields}
    form = {"name": "desk", **{_alias(name): each[0] for name, each in fields.items()}}
    python: Any = {name: each[1] for name, each in fields.items()}
    assert Agent("desk", **python).to_json() == form
    assert Agent.from_json(form).to_json() == form


@pytest.mark.parametrize("path", AGENT_FILES, ids=lambda path: path.stem)
def test_an_example_s_agent_in_python_is_its_file(path: Path) -> None:
    form = {"name": path.stem, **read_source(path).value}
    names = {_alias(name): name for name in AgentDefinition.model_fields}
    python: Any = {names[key]: value for key, value in form.items()}
    assert Agent(**python).to_json() == form


def test_constant_calls_need_no_model() -> None:
    calls = [{"_tool": "find", "id": "†input.id"}]
    made = Agent("fixed", calls=calls, answer={"found": "†result"})
    assert made.to_json() == {"name": "fixed", "calls": calls, "answer": {"found": "†result"}}


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (
            lambda: Agent("a", model="m", budget={"maxTurn": 3}),
            "agent `a`: `budget.maxTurn`: unknown field `maxTurn`; did you mean `maxTurns`?",
        ),
        (lambda: Agent("a"), "agent `a`: `model` is missing; add it, or `calls` in its place"),
        (
            lambda: Agent("a", model="m", bugdet={}),  # type: ignore[call-overload]
            "agent `a`: unknown argument `bugdet`; did you mean `budget`?",
        ),
        (lambda: Agent("a", model="m", output=Skill), "agent `a`: `output` has no JSON Schema"),
        (lambda: Agent.from_json({"name": "a"}), "agent `a`: `model` is missing"),
    ],
)
def test_a_wrong_agent_is_refused_in_a_line(make: Any, wrong: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        make()
    assert str(refused.value).startswith(wrong)
    assert "\n" not in str(refused.value)


class RunOutput(BaseModel):
    """What a run returns."""

    order: str


@dataclass
class DeskOrder:
    """What a run is about."""

    id: str


@tool
def find(order: DeskOrder) -> None:
    """Find an order."""


def test_types_are_schemas_and_functions_are_names() -> None:
    made = Agent(
        "a",
        model="m",
        input=DeskOrder,
        output=RunOutput,
        tools=[find],
        skills=[Skill("s", tools=[find])],
    )
    form = made.to_json()
    assert form["tools"] == form["skills"][0]["tools"] == ["find"]
    assert made.tools == [find, find]
    assert form["input"]["required"] == ["id"]
    assert form["output"]["required"] == ["order"]
    assert read_as(made.output_type, {"order": "7"}) == RunOutput(order="7")
    with pytest.raises(ValidationError):
        read_as(made.output_type, {"order": None})


def test_a_request_is_written_as_others_write_it() -> None:
    agent = Agent("a", model="m")
    request = run_request(
        agent, RunOutput(order="7"), {"budget": Budget(max_turns=2), "skill": "s"}
    )
    assert request == {
        "agent": "a",
        "input": {"order": "7"},
        "budget": {"maxTurns": 2},
        "skill": "s",
    }
    assert RunRequest.model_validate(request).budget == Budget(max_turns=2)


@pytest.mark.parametrize(
    ("result", "code", "message"),
    [
        (
            {"status": "budget_exceeded", "reason": "maxTurns"},
            "budget_exceeded",
            "the run of agent `a` used up its budget: maxTurns",
        ),
        (
            {
                "status": "completed",
                "output": Stored(sha256="0", size_bytes=3_000_000, beginning="{").value(),
            },
            "invalid_output",
            "the output of agent `a` is in the store, and no workflow reads it",
        ),
    ],
)
async def test_a_child_without_an_output_is_an_error_for_an_agent_of_any_output(
    monkeypatch: pytest.MonkeyPatch, result: dict[str, Any], code: str, message: str
) -> None:
    async def execute_child(*request: object, **options: object) -> dict[str, Any]:
        return {"turns": 1, "calls": 0, "usage": {}, **result}

    monkeypatch.setattr(workflow, "execute_child_workflow", execute_child)
    with pytest.raises(ApplicationError, match=message) as refused:
        await execute_agent(Agent("a", model="m"), "Order 7 broke.")
    assert refused.value.type == code
