"""Agents with skills, knowledge and memory: what a run keeps of them, and what is refused."""

import json
from typing import Any

import pytest

from holdfast.schemas.agent import Agent
from holdfast.schemas.base import json_size
from tests.catalog.catalog_folder import Folder

MODEL: dict[str, Any] = {"model": {"endpoint": "m"}}
PAY = {"_tool": "pay", "_activity": "charge", "_sideEffects": True}
FAQ = {"name": "faq", "text": "Refunds take five days."}


def agent(folder: Folder, **more: Any) -> Agent:
    """The agent with these fields."""
    folder.write("agents/a.json", json.dumps({**MODEL, **more}))
    return folder.load().agents["a"]


def names(tools: Any) -> list[str]:
    """The tools' names."""
    return [tool.name for tool in tools]


def test_a_skill_is_kept_with_its_tools_and_its_knowledge_resolved(shop: Folder) -> None:
    skill = {
        "name": "refunds",
        "description": "Give money back.",
        "instructions": "Be quick.",
        "tools": ["look_up", PAY],
        "knowledge": [FAQ],
    }
    kept = agent(shop, tools=[{**PAY, "_tool": "thank"}], skills=[skill, {"name": "chat"}])
    refunds, chat = kept.skills
    assert names(kept.tools) == ["thank"]
    assert names(refunds.tools) == ["look_up", "pay", "faq"]
    assert (refunds.description, refunds.instructions) == ("Give money back.", "Be quick.")
    assert refunds.tools[0].parameters["required"] == ["order_id"]
    assert (chat.tools, chat.activity) == ([], None)


def test_the_work_of_a_skill_may_be_one_activity(shop: Folder) -> None:
    elsewhere = {"type": "Report", "taskQueue": "books", "startToCloseTimeout": "5m"}
    kept = agent(
        shop,
        skills=[{"name": "pay", "activity": "charge"}, {"name": "report", "activity": elsewhere}],
    )
    bindings = [skill.activity.to_json() for skill in kept.skills if skill.activity is not None]
    assert bindings == [{"type": "charge"}, elsewhere]


def test_what_names_tools_may_name_those_of_skills_knowledge_and_memory(shop: Folder) -> None:
    known = ["pay", "faq", "memory_write"]
    kept = agent(
        shop,
        tools=[{"_tool": "thank", "_activity": "charge", "_limits": {"after": ["pay"]}}],
        skills=[{"name": "refunds", "tools": [PAY], "knowledge": [FAQ]}],
        memory=True,
        approval={"auto": known},
        toolChoice={"name": "pay"},
    )
    assert kept.approval.auto == known
    assert kept.tools[0].limits.after == ["pay"]


def test_a_skills_tool_may_wait_for_one_of_the_agents_own(shop: Folder) -> None:
    paid = {**PAY, "_limits": {"after": ["look_up", "quote"]}}
    quote = {"_tool": "quote", "_activity": "charge"}
    agent(shop, tools=["look_up"], skills=[{"name": "refunds", "tools": [quote, paid]}])


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"knowledge": [FAQ], "skills": [{"name": "a", "tools": [{**PAY, "_tool": "faq"}]}]},
        "`skills[0].tools[0]`: it has `faq` twice; keep one of them",
    ),
    (
        {"tools": [{**PAY, "_tool": "memory_read"}], "memory": True},
        "`memory`: it has `memory_read` twice; keep one of them",
    ),
    (
        {"knowledge": [{**FAQ, "name": "choose_skill"}]},
        "`knowledge[0]`: the tool name `choose_skill` is the engine's own; give it another",
    ),
    (
        {"skills": [{"name": "a", "knowledge": [{"name": "faq", "file": "nope.md"}]}]},
        "`skills[0].knowledge[0].file`: there is no such file; ",
    ),
    (
        {"skills": [{"name": "a", "activity": {"type": "generate"}}]},
        "`skills[0].activity.type`: the activity name `generate` is the worker's own",
    ),
    (
        {"skills": [{"name": "a", "activity": {"type": "x", "taskQueue": "q", "local": True}}]},
        "`skills[0].activity.local`: a local activity runs on the run's own worker",
    ),
]


@pytest.mark.parametrize(("more", "problem"), REFUSED)
def test_what_does_not_load_is_told_by_its_place(
    shop: Folder, more: dict[str, Any], problem: str
) -> None:
    shop.write("agents/a.json", json.dumps({**MODEL, **more}))
    assert shop.problem().startswith(f"agents/a.json:1: {problem}")


def test_an_agent_is_as_large_as_its_tools_are_in_each_of_its_skills(shop: Folder) -> None:
    shop.write("tools/large.yaml", f"_activity: charge\ndescription: {'x' * 200_000}")
    skills = [{"name": f"s{n}", "tools": ["large"]} for n in range(5)]
    assert len(agent(shop, skills=skills[:4]).skills) == 4
    shop.write("agents/a.json", json.dumps({**MODEL, "skills": skills}))
    assert shop.problem().startswith("agents/a.json:1: the agent has 100")


def test_a_tool_that_is_repeated_by_thousands_of_skills_is_measured_once(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []

    def measure(value: Any) -> int:
        measured.append(json_size(value))
        return measured[-1]

    monkeypatch.setattr("holdfast.catalog.agent_reader.json_size", measure)
    shop.write("tools/large.yaml", f"_activity: charge\ndescription: {'x' * 200_000}")
    skills = [{"name": f"s{n}", "tools": ["large"]} for n in range(10_000)]
    shop.write("agents/a.json", json.dumps({**MODEL, "skills": skills}))
    assert shop.problem().startswith("agents/a.json:1: the agent has 200")
    assert len(measured) == 1
