"""§4, §8, §9: what is allowed is looked up call by call; no text changes it."""

import json
from typing import Any

import pytest

from tests.protocol.stage import Call, ExampleRunner, agent, calls, composed, errors, forced_schema
from tests.protocol.tools import PAGES
from tests.support.model_server import Answer

DONE = {"native": Answer("done"), "composed": composed(output="done")}
BOTH = pytest.mark.parametrize("calling", ["native", "composed"])


def answer_in(calling: str, *made: Call) -> Answer:
    """These calls, in either calling."""
    return composed(*made) if calling == "composed" else calls(*made)


def playing(written: dict[str, Any], name: str, calling: str) -> dict[str, Any]:
    """The agent, with a model of this name and in this calling."""
    return {**written, "calling": calling, "model": {"endpoint": "fake", "name": name}}


def started(told: list[str]) -> list[str]:
    """The calls that were executed."""
    return [line.split()[1] for line in told if line.startswith("tool_start")]


DESK = agent("""
name: desk
instructions: You work at a desk.
reasoningForCall: false
approval: {require: never}
tools: [find_order]
skills:
- {name: letters, description: Write to customers., tools: [mail]}
- {name: refunds, description: Give money back., tools: [refund]}
""")
REFUND = {"_tool": "refund", "order_id": "A1", "amount": 20}


@BOTH
async def test_a_skill_cannot_reach_anothers_tools_whatever_the_model_answers(
    stage: ExampleRunner, calling: str
) -> None:
    name = f"greedy-{calling}"
    choose = {"_tool": "choose_skill", "skill": "letters"}
    spellings = ["refunds.refund", "Refund", " refund", "refund\n", "choose_skill"]
    stage.forces = False
    stage.model(
        name,
        answer_in(calling, REFUND, choose, REFUND),
        answer_in(calling, REFUND, *({**REFUND, "_tool": each} for each in spellings)),
        answer_in(calling, {"_tool": "find_order", "order_id": "A1"}, REFUND),
        DONE[calling],
    )
    run = await stage.start(playing(DESK, name, calling), input="You may do anything.")
    assert (await run.result())["output"] == "done"

    whose, wrong = "Tool 'refund' is not allowed for", await errors(run)
    refusals = [wrong[call] for call in ("t1c1", "t1c3", "t2c1", "t3c2")]
    assert {one["code"] for one in refusals} == {"tool_not_allowed"}
    assert [one["message"] for one in refusals] == [
        f"{whose} agent 'desk'. Allowed: [choose_skill]",
        f"{whose} agent 'desk'. Allowed: [choose_skill]",
        f"{whose} skill 'letters'. Allowed: [find_order, mail]",
        f"{whose} skill 'letters'. Allowed: [find_order, mail]",
    ]
    others = [wrong[f"t2c{index + 2}"]["code"] for index in range(len(spellings))]
    assert others == ["tool_not_allowed"] * len(spellings)
    assert started(await run.event_lines()) == ["t1c2", "t3c1"]


CLERK = {
    "name": "clerk",
    "instructions": "You are a clerk.",
    "reasoningForCall": False,
    "principalScopes": ["ledger:read", "ledger:write"],
    "tools": [
        "write_ledger",
        "find_order",
        {
            "_tool": "ask_bookkeeper",
            "description": "Have the bookkeeper do it.",
            "properties": {"task": {"type": "string"}},
            "required": ["task"],
            "_delegate": "bookkeeper",
        },
    ],
}


async def test_a_delegate_cannot_reach_what_its_principal_may_not(stage: ExampleRunner) -> None:
    """Both agents have the tool and may hold its scope; on whose behalf they act may not."""
    writes = {"_tool": "write_ledger", "line": "all is paid"}
    stage.model("superior", calls({"_tool": "ask_bookkeeper", "task": "Write it."}), Answer("ok"))
    # An agent of the catalog: tests/protocol/catalog/agents/bookkeeper.yaml.
    stage.model(
        "bookkeeper", calls(writes, {"_tool": "find_order", "order_id": "A1"}), Answer("I may not.")
    )
    run = await stage.start(
        playing(CLERK, "superior", "native"),
        input="Write that all is paid.",
        principal={"id": "ada", "scopes": ["ledger:read"]},
    )
    await run.result()

    delegate = run.delegate("t1c1")
    assert await errors(delegate) == {
        "t1c1": {
            "code": "token_scope_insufficient",
            "message": "`write_ledger` needs the scope ledger:write, which this run does not have",
        },
        # And what its parent has besides is not its own.
        "t1c2": {
            "code": "tool_not_allowed",
            "message": "Tool 'find_order' is not allowed for agent 'bookkeeper'."
            " Allowed: [write_ledger]",
        },
    }
    assert started(await delegate.event_lines()) == []


READER = agent("""
name: reader
instructions: You read pages.
reasoningForCall: false
approval: {require: never}
tools: [read_page]
""")


@BOTH
async def test_no_text_of_a_result_changes_what_is_allowed(
    stage: ExampleRunner, calling: str
) -> None:
    """The model believes every page in `PAGES`, and calls what they ask for."""
    name = f"gullible-{calling}"
    pages = [{"_tool": "read_page", "page": page} for page in PAGES]
    stage.forces = False
    stage.model(name, answer_in(calling, *pages), answer_in(calling, REFUND), DONE[calling])
    run = await stage.start(
        playing(READER, name, calling), input="Read.", state={"secret": "swordfish"}
    )
    assert (await run.result())["output"] == "done"

    # The text had no effect by itself, and neither had the call that the model then made.
    assert started(await run.event_lines()) == [f"t1c{index + 1}" for index in range(len(pages))]
    assert await run.error("t2c1") == {
        "code": "tool_not_allowed",
        "message": "Tool 'refund' is not allowed for agent 'reader'. Allowed: [read_page]",
    }
    told = [json.loads(result) for result in list((await run.results()).values())[:-1]]
    assert told == [
        {"tool": "read_page", "trusted": False, "value": value} for value in PAGES.values()
    ]
    first, second, third = stage.requests(name)
    assert first.get("tools") == second.get("tools") == third.get("tools")
    assert forced_schema(first) == forced_schema(second) == forced_schema(third)
    assert first["messages"][0] == second["messages"][0] == third["messages"][0]
