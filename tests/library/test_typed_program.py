"""Type checkers find the mistakes of a user's program: each line with `# wrong`, and no other."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT

PROGRAM = """
from datetime import timedelta
from typing import assert_type

from pydantic import BaseModel, JsonValue
from temporalio.client import Client

from holdfast import (
    Agent, Approval, Budget, CallContext, HoldfastClient, HoldfastPlugin, Run, Skill,
    execute_agent, tool,
)
from holdfast.testing import HoldfastRun, RunUnderTest, call


class Answer(BaseModel):
    text: str


@tool(side_effects=True, approval={"timeout": "24h"}, title="Refund an order")
async def refund(order_id: str, amount: float) -> str:
    return ""


@tool
def find(context: CallContext, order_id: str) -> str:
    return context.token  # wrong


@tool(side_effect=True)  # wrong
def send() -> None: ...


support = Agent(
    "support",
    model="openai:gpt-5",
    tools=[find, refund, "other", {"_tool": "x"}],
    output=Answer,
    budget=Budget(max_turns=3),
    approval=Approval(timeout=timedelta(days=1)),
    skills=[Skill("s", tools=[refund])],
)
plain = Agent("plain", model={"endpoint": "a", "name": "b"})
form = Agent("form", model=["a:b"], output={"type": "object"})
assert_type(support, Agent[Answer])
assert_type(plain, Agent[str])
assert_type(form, Agent[JsonValue])
Agent("x", model="m", budgt=Budget())  # wrong
Agent("x", model="m", calling="composd")  # wrong


async def inside_a_workflow() -> str:
    answer = await execute_agent(support, "Order 7", budget={"maxTurns": 3}, approvals="deny")
    await execute_agent(support, "Order 7", approvals="never")  # wrong
    return answer.txt  # wrong


async def main() -> None:
    await refund("7", 20)
    await refund("7", amount="20")  # wrong
    client = await Client.connect("…", plugins=[HoldfastPlugin(agents=[support])])
    HoldfastPlugin(agent=support)  # wrong
    agents = HoldfastClient(client, task_queue="support")
    run = await agents.start(support, "Order 7 arrived broken", id="order-7")
    assert_type(run, Run[Answer])
    assert_type(await run.result(), Answer)
    print((await run.result()).txt)  # wrong
    async for event in run.events():
        print(event.n, event.entry.type)
        print(event.number)  # wrong
    async for call in agents.approvals():
        await call.approve(by="ada")
        await call.approve(arguments={})  # wrong
        await call.edit()  # wrong
        await call.aprove(by="ada")  # wrong
    other = agents.run("order-7", output=int)
    assert_type(await other.result(), int)
    assert_type(agents.run("order-7", list[Answer]), Run[list[Answer]])
    assert_type(await agents.start("desk", "go", budget={"maxTurns": 3}), Run[JsonValue])
    async for call in run.approval_requests():
        await call.deny(remember=True)  # wrong
        await call.edit("amount: 9")  # wrong
        await call.respond(by="ada")  # wrong


async def test_support(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(support, "Order 7", model=[call(refund, "7", 20), Answer(text="")])
    assert_type(run, RunUnderTest[Answer])
    assert_type(await holdfast_run("support", "Order 7", model=["text"]), RunUnderTest[JsonValue])
    await run.approve(refund, by="ada")
    print(run.requests[0].messages[-1].content, call(find, "7"), call("find", {"order_id": 7}))
    call(refund, "7", amount="20")  # wrong
    call(find, 7)  # wrong
    await holdfast_run(support, "Order 7", model=[(refund, "7")])  # wrong
"""
_MYPY = re.compile(r"^\S+program\.py:(\d+): error: ", re.MULTILINE)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program of a user."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def wrong_lines() -> list[int]:
    return [n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]


def test_mypy_finds_them(program: Path) -> None:
    words = [sys.executable, "-m", "mypy", "--no-error-summary", str(program)]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = {int(each) for each in _MYPY.findall(found.stdout)}
    assert sorted(lines) == wrong_lines(), found.stdout + found.stderr


@pytest.mark.typescript
def test_pyright_finds_them(program: Path) -> None:
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (program.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = ROOT / "tests/foreign/node/node_modules/pyright/index.js"
    words = ["node", str(pyright), "--outputjson", "--pythonpath", sys.executable]
    words += ["--project", str(program.parent)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    problems = json.loads(found.stdout)["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] + 1 for each in problems}
    assert sorted(lines) == wrong_lines(), found.stdout
