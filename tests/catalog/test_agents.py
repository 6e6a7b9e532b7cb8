"""Agents of a catalog: what a run keeps of them, and what a worker refuses at start."""

import json
from typing import Any

import pytest

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.tool import ResolvedTool
from tests.catalog.catalog_folder import Folder

MINIMAL = "model: {endpoint: m}\n"
PAY = {"_tool": "pay", "_activity": "charge", "_sideEffects": True}
FAQ = {"name": "faq", "text": "Refunds take five days."}


def write(folder: Folder, **fields: Any) -> None:
    """Write the agent with these fields."""
    folder.write("agents/a.json", json.dumps({"model": {"endpoint": "m"}, **fields}))


def agent(folder: Folder, **fields: Any) -> ResolvedAgent:
    """Load the agent with these fields."""
    write(folder, **fields)
    return folder.load().agents["a"]


def names(tools: Any) -> list[str]:
    """Return the tools' names."""
    return [tool.name for tool in tools]


def test_an_agent_is_kept_with_its_tools_resolved_and_its_defaults_filled_in(shop: Folder) -> None:
    text = """
        model: {endpoint: m, name: small}
        tools: [look_up, {_tool: inline, _activity: charge}]
        calling: composed
        plan: lazy
        budget: {maxTurns: 3}
        onLimit: {maxTurns: ask, maxDepth: fail}
        approval: {timeout: 2h, auto: [inline]}
        _prepare: charge
        _after: {type: audit, taskQueue: books, startToCloseTimeout: 5s}
    """
    shop.write("agents/desk.yaml", text)
    desk = shop.load().agents["desk"]
    assert names(desk.tools) == ["look_up", "inline"]
    assert (desk.calling, desk.plan) == ("composed", "lazy")
    budget = {"maxIterations": 6, "maxTurns": 3, "maxCalls": 32, "maxDepth": 4}
    assert desk.budget.model_dump(by_alias=True, exclude_none=True) == budget
    on_limit = {"maxIterations": "finalize", "maxTurns": "ask", "maxDepth": "fail"}
    assert desk.on_limit == on_limit
    assert desk.approval.to_json() == {
        "require": "side_effects",
        "timeout": "2h",
        "onTimeout": "deny",
        "quorum": 1,
        "approvers": [],
        "auto": ["inline"],
    }
    assert desk.hooks.to_json() == {
        "prepare": {"type": "charge"},
        "after": {"type": "audit", "taskQueue": "books", "startToCloseTimeout": "5s"},
    }


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


def test_a_skill_by_an_activity_has_the_rules_of_its_tool_or_its_own(shop: Folder) -> None:
    shop.write("tools/pay.yaml", "_activity: charge\n_sideEffects: true\n_requires: [pay]")
    own = {"activity": "look_up", "sideEffects": True}
    kept = agent(shop, skills=[{"name": "a", "activity": "charge"}, {"name": "b", **own}])

    followed, stated = (skill.rules for skill in kept.skills)
    assert followed is not None
    assert (followed.once, followed.requires) == (True, ["pay"])
    assert stated is not None
    assert stated.once


EFFECTS = "_activity: charge\n_sideEffects: true"
SECOND = {"_tool": "second", "_activity": "charge"}
RULELESS: list[tuple[dict[str, Any], str]] = [
    ({"tools": [SECOND]}, "`tools[0]._activity`: `second` runs the activity of `pay`"),
    (
        {"tools": [PAY, SECOND]},
        "`tools[1]._activity`: `second` runs the activity of `pay`, which has side effects; write"
        " its own `_sideEffects`: true, or false if this use has none",
    ),
    (
        {"tools": [{**PAY, "_tool": "b"}], "skills": [{"name": "s", "activity": "charge"}]},
        "`skills[0].activity`: `pay`, `b` run this activity, and the skill can follow one; write"
        " the skill's own `sideEffects`",
    ),
    (
        {"_after": "charge"},
        "`_after`: this hook runs the activity of `pay`, which has side effects; name an activity"
        " without any",
    ),
    (
        {"tools": [{"_tool": "a", "_activity": "look_up", "_before": "charge"}]},
        "`tools[0]._before`: this hook runs the activity of `pay`",
    ),
    ({"skills": [{"name": "s", "sideEffects": True}]}, "`sideEffects` is of an `activity`"),
    (
        {"skills": [{"name": "s", "activity": {"type": "charge", "local": True}}]},
        "`skills[0].activity.local`: a local activity may run twice",
    ),
]


@pytest.mark.parametrize(("fields", "problem"), RULELESS)
def test_an_activity_with_side_effects_is_not_used_without_rules(
    shop: Folder, fields: dict[str, Any], problem: str
) -> None:
    shop.write("tools/pay.yaml", EFFECTS)
    write(shop, **fields)

    assert problem in "".join(shop.problems())


def test_a_tool_beside_one_with_side_effects_states_its_own(shop: Folder) -> None:
    """In whichever order the files are read."""
    shop.write("tools/pay.yaml", EFFECTS)
    shop.write("tools/a.yaml", "_activity: charge")
    shop.write("tools/b.yaml", "_activity: charge\n_sideEffects: false")
    shop.write("tools/c.yaml", "_activity: {type: charge, taskQueue: elsewhere}")
    shop.write("tools/d.yaml", "_activity: look_up\n_before: charge")

    activity, hook = shop.problems()
    assert "tools/a.yaml:1: `_activity`: `a` runs the activity of `pay`" in activity
    assert "tools/d.yaml:2: `_before`: this hook runs the activity of `pay`" in hook


def test_a_tool_that_states_nothing_beside_many_is_one_problem(shop: Folder) -> None:
    for n in range(10):
        shop.write(f"tools/read{n}.yaml", "_activity: charge")
        shop.write(f"tools/write{n}.yaml", EFFECTS)
    shop.write("tools/other.yaml", "_activity: look_up\n_after: charge")
    problems = shop.problems()
    assert len(problems) == 11
    others = "`write0`, `write1`, `write2` and 7 more, which have side effects; write its own"
    assert f"`_activity`: `read9` runs the activity of {others}" in problems[-1]


def test_what_names_tools_may_name_those_of_skills_knowledge_and_memory(shop: Folder) -> None:
    known = ["pay", "faq", "memory_write"]
    kept = agent(
        shop,
        tools=[{"_tool": "thank", "_activity": "look_up", "_limits": {"after": ["pay"]}}],
        skills=[{"name": "refunds", "tools": [PAY], "knowledge": [FAQ]}],
        memory=True,
        approval={"auto": known},
        toolChoice={"name": "pay"},
    )
    assert kept.approval.auto == known
    assert kept.tools[0].limits.after == ["pay"]


def test_a_blank_name_is_that_of_the_file(shop: Folder) -> None:
    for name in ("a", "b"):
        shop.write(f"agents/{name}.yaml", MINIMAL + "name:\nmemory: true\n")
    agents = shop.load().agents
    for name in ("a", "b"):
        assert {each.memory and each.memory.agent for each in agents[name].tools} == {name}
    shop.write("agents/no name.yaml", MINIMAL + "name:\n")
    assert "no name.yaml" in shop.problem()


def test_a_skills_tool_may_wait_for_one_of_the_agents_own(shop: Folder) -> None:
    paid = {**PAY, "_limits": {"after": ["look_up", "quote"]}}
    quote = {"_tool": "quote", "_activity": "look_up"}
    agent(shop, tools=["look_up"], skills=[{"name": "refunds", "tools": [quote, paid]}])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"name": "n", "model": {"endpoint": "m"}, "instructions": "x"}'),
        (
            "a.yaml",
            "$schema: ../schemas/agent.schema.json\nname: n\nmodel: {endpoint: m}\ninstructions: x",
        ),
        ("a.yml", "name: n\nmodel: {endpoint: m}\ninstructions: x"),
        ("sub/n.md", "---\nmodel: {endpoint: m}\n---\nx"),
    ],
)
def test_json_yaml_and_markdown_are_equivalent(shop: Folder, name: str, text: str) -> None:
    shop.write(f"agents/{name}", text)
    kept = shop.load().agents["n"]
    assert (kept.name, kept.instructions, kept.own_model.endpoint) == ("n", "x", "m")


def test_a_worker_without_endpoints_reports_how_to_have_one(shop: Folder) -> None:
    shop.write("agents/a.yaml", "model: {endpoint: openai}")
    assert shop.problems(endpoints=[]) == [
        "agents/a.yaml:1: `model.endpoint`: there is no endpoint `openai`; this worker has none: "
        "set a key such as OPENAI_API_KEY, or name a file of them with `--endpoints`"
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"title": "Order {ordr}", "input": {"properties": {"order": {}}}},
        "`title`: `{ordr}` names no property of `input`; did you mean `order`?",
    ),
    (
        {"model": [{"endpoint": "m"}, {"endpoint": "mm"}]},
        "`model[1].endpoint`: there is no endpoint `mm`; did you mean `m`?",
    ),
    ({"_beforeModel": "missing"}, "`_beforeModel`: this worker has no activity `missing`"),
    (
        {"_onModelError": {"type": "look_up", "local": True}},
        "`_onModelError.local`: this option is not for hooks; leave it out",
    ),
    ({"model": []}, "`model`: `[]` does not fit; write at least 1"),
    (
        {"model": [{"endpoint": "m", "retryFor": "soon"}]},
        "`model[0].retryFor`: `soon` does not fit; a duration is a number and a unit: "
        '"500ms", "30s", "5m", "24h", "7d"',
    ),
    (
        {"tools": ["charge"]},
        "`tools[0]`: there is no tool `charge`; the activity takes no pydantic model: give it one,"
        " or a file in `tools/`",
    ),
    (
        {"approval": {"when": {"type": "strin"}}},
        "`approval.when.type`: `strin` is no type; did you mean `string`?",
    ),
    (
        {"output": {"$ref": "http://x/y"}},
        "`output.$ref`: `http://x/y` is outside of this schema",
    ),
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
        {"skills": [{"name": "a", "when": {"type": "objct"}}]},
        "`skills[0].when.type`: `objct` is no type; did you mean `object`?",
    ),
    (
        {"_repair": {"agent": "b"}},
        "`_repair.agent`: there is no agent `b`; known: `a`",
    ),
    (
        {"_repair": {"agent": "a", "local": True}},
        "unknown field `local`; known: `agent`",
    ),
    (
        {"skills": [{"name": "a", "activity": "charge", "tools": ["look_up"]}]},
        "`skills[0].tools`: this skill runs an activity, without a model; leave",
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


@pytest.mark.parametrize(("fields", "problem"), REFUSED)
def test_an_agent_that_does_not_load_is_reported_with_its_place(
    shop: Folder, fields: dict[str, Any], problem: str
) -> None:
    write(shop, **fields)
    assert shop.problem().startswith(f"agents/a.json:1: {problem}")


def test_an_agent_is_as_large_as_its_tools_are_in_each_of_its_skills(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[ResolvedTool] = []

    def measure(tool: ResolvedTool) -> int:
        measured.append(tool)
        return 200_000

    shop.write("tools/large.yaml", f"_activity: charge\ndescription: {'x' * 200_000}")
    skills = [{"name": f"s{n}", "tools": ["large"]} for n in range(10_000)]
    assert len(agent(shop, skills=skills[:4]).skills) == 4
    write(shop, skills=skills[:5])
    assert shop.problem().startswith("agents/a.json:1: the agent has 100")
    monkeypatch.setattr("holdfast.catalog.agent_reader._size_bytes", measure)
    write(shop, skills=skills)
    assert shop.problem().startswith("agents/a.json:1: the agent has 200")
    assert len(measured) == 1


def test_in_markdown_the_line_is_that_of_the_file(shop: Folder) -> None:
    shop.write("agents/a.md", "---\nmodel:\n  endpoint: nope\ntools: [nope]\n---\nBe kind.\n")
    assert [said.split(": ")[0] for said in shop.problems()] == ["agents/a.md:3", "agents/a.md:4"]


IN_SEVERAL_FILES: list[tuple[dict[str, str], str]] = [
    (
        {"agents/my agent.yaml": MINIMAL},
        "agents/my agent.yaml:1: the file's name `my agent` is not valid as a name; ",
    ),
    (
        {
            "tools/pay.yaml": "_activity: charge\n_limits: {after: [look_up]}",
            "agents/good.yaml": MINIMAL + "tools: [pay, look_up]",
            "agents/bad.yaml": MINIMAL + "tools: [pay]",
        },
        "agents/bad.yaml:2: `tools[0]`: `pay` runs only after `look_up`",
    ),
    # A fault is not reported again where its name is used.
    (
        {"tools/broken.yaml": "_activity: chrge", "agents/a.yaml": MINIMAL + "tools: [broken]"},
        "tools/broken.yaml:1: ",
    ),
    (
        {"agents/b.yaml": "name: b", "tools/t.yaml": "_delegate: b"},
        "agents/b.yaml:1: `model` is missing",
    ),
    ({"agents/b.yaml": "{", "tools/t.yaml": "_delegate: b"}, "agents/b.yaml:1: "),
    ({"agents/another.json": "{", "tools/t.yaml": "_delegate: b"}, "agents/another.json:1: "),
    (
        {"agents/a.yaml": MINIMAL + "approval: {effect: pay}"},
        "agents/a.yaml:2: `approval`: `effect` is of one tool; write it in that tool's `_approval`",
    ),
    (
        {"agent/b.yaml": MINIMAL, "tools/t.yaml": "_delegate: b"},
        "agent: a folder of this name is not read; call it `agents`",
    ),
    (
        {
            "broken.py": "x = (",
            "tools/latent.yaml": "_sideEffects: true",
            "tools/t.yaml": "_activity: in_the_broken_module",
            "agents/a.yaml": MINIMAL + "tools: [in_the_broken_module]",
        },
        "broken.py:1: ",
    ),
    (
        {
            "agents/a.yaml": MINIMAL
            + "approval: {auto: [pay]}\ntoolChoice: {name: pay}\n"
            + "skills: [{name: a, tools: [{_tool: pay, _activity: chrge}]}]"
        },
        "agents/a.yaml:4: `skills[0].tools[0]._activity`: this worker has no",
    ),
]


@pytest.mark.parametrize(("files", "problem"), IN_SEVERAL_FILES)
def test_one_fault_is_one_problem(shop: Folder, files: dict[str, str], problem: str) -> None:
    for name, text in files.items():
        put = shop.module if name.endswith(".py") else shop.write
        put(name, text)
    assert shop.problem().startswith(problem)
