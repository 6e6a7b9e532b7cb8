"""Agents of a catalog: what a run keeps of them, and what a worker refuses at start."""

import pytest

from tests.catalog.catalog_folder import Folder

MINIMAL = "model: {endpoint: m}\n"


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
    agent = shop.load().agents["desk"]
    assert [tool.name for tool in agent.tools] == ["look_up", "inline"]
    assert (agent.calling, agent.plan) == ("composed", "lazy")
    budget = {"maxIterations": 6, "maxTurns": 3, "maxCalls": 32, "maxDepth": 4}
    assert agent.budget.model_dump(by_alias=True, exclude_none=True) == budget
    on_limit = {"maxIterations": "finalize", "maxTurns": "ask", "maxDepth": "fail"}
    assert agent.on_limit == on_limit
    assert agent.approval.to_json() == {
        "require": "side_effects",
        "timeout": "2h",
        "onTimeout": "deny",
        "quorum": 1,
        "approvers": [],
        "auto": ["inline"],
    }
    assert agent.hooks.to_json() == {
        "prepare": {"type": "charge"},
        "after": {"type": "audit", "taskQueue": "books", "startToCloseTimeout": "5s"},
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"name": "n", "model": {"endpoint": "m"}, "instructions": "x"}'),
        ("a.yaml", "name: n\nmodel: {endpoint: m}\ninstructions: x"),
        ("a.yml", "name: n\nmodel: {endpoint: m}\ninstructions: x"),
        ("sub/n.md", "---\nmodel: {endpoint: m}\n---\nx"),
    ],
)
def test_json_yaml_and_markdown_say_the_same(shop: Folder, name: str, text: str) -> None:
    shop.write(f"agents/{name}", text)
    agent = shop.load().agents["n"]
    assert (agent.name, agent.instructions, agent.model.endpoint) == ("n", "x", "m")


def test_a_worker_without_endpoints_is_told_how_to_have_one(shop: Folder) -> None:
    shop.write("agents/a.yaml", "model: {endpoint: openai}")
    assert shop.problems(endpoints=[]) == [
        "agents/a.yaml:1: `model.endpoint`: there is no endpoint `openai`; this worker has none: "
        "set a key such as OPENAI_API_KEY, or name a file of them with `--endpoints`"
    ]


REFUSED = [
    (
        MINIMAL + "tools: [charge]",
        "2: `tools[0]`: there is no tool `charge`; the activity takes no pydantic model: give it"
        " one, or a file in `tools/`",
    ),
    (
        MINIMAL + "approval:\n  when: {type: strin}",
        "3: `approval.when.type`: `strin` is no type; did you mean `string`?",
    ),
    (
        MINIMAL + "output:\n  $ref: http://x/y",
        "3: `output.$ref`: `http://x/y` is outside of this schema",
    ),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_an_agent_that_does_not_load_is_told_by_its_line(
    shop: Folder, text: str, problem: str
) -> None:
    shop.write("agents/a.yaml", text)
    assert shop.problem().startswith(f"agents/a.yaml:{problem}")


def test_an_agent_may_say_what_an_editor_checks_it_with(shop: Folder) -> None:
    shop.write("agents/a.yaml", MINIMAL + "$schema: ../schemas/agent.schema.json")
    assert set(shop.load().agents) == {"a"}


def test_in_markdown_the_line_is_that_of_the_file(shop: Folder) -> None:
    shop.write("agents/a.md", "---\nmodel:\n  endpoint: nope\ntools: [nope]\n---\nBe kind.\n")
    assert [said.split(": ")[0] for said in shop.problems()] == ["agents/a.md:3", "agents/a.md:4"]


IN_SEVERAL_FILES: list[tuple[dict[str, str], str]] = [
    (
        {"agents/my agent.yaml": MINIMAL},
        "agents/my agent.yaml:1: the file's name `my agent` is no good name; ",
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
        write = shop.module if name.endswith(".py") else shop.write
        write(name, text)
    assert shop.problem().startswith(problem)
