"""A program of a user, with mistakes: `mypy` finds those that it is to ignore, and no others.

It reports each line that is marked without a mistake, too, since it warns of unused marks.
"""

from datetime import timedelta
from typing import assert_type

from pydantic import BaseModel, JsonValue
from temporalio.client import Client

from holdfast import (
    Agent,
    Approval,
    Budget,
    CallContext,
    HoldfastClient,
    HoldfastPlugin,
    Run,
    Skill,
    execute_agent,
    tool,
)
from holdfast.testing import HoldfastRun, RunUnderTest, call


class SupportAnswer(BaseModel):
    text: str


@tool(side_effects=True, approval={"timeout": "24h"}, title="Refund an order")
async def refund(order_id: str, amount: float) -> str:
    return ""


@tool
def find(context: CallContext, order_id: str) -> str:
    return context.token  # type: ignore[attr-defined, no-any-return]


@tool(side_effect=True)  # type: ignore[call-overload, untyped-decorator]
def send() -> None: ...


support = Agent(
    "support",
    model="openai:gpt-5",
    tools=[find, refund, "other", {"_tool": "x"}],
    output=SupportAnswer,
    budget=Budget(max_turns=3),
    approval=Approval(timeout=timedelta(days=1)),
    skills=[Skill("s", tools=[refund])],
)
plain = Agent("plain", model={"endpoint": "a", "name": "b"})
form = Agent("form", model=["a:b"], output={"type": "object"})
assert_type(support, Agent[SupportAnswer])
assert_type(plain, Agent[str])
assert_type(form, Agent[JsonValue])
Agent("x", model="m", budgt=Budget())  # type: ignore[call-overload]
Agent("x", model="m", calling="composd")  # type: ignore[call-overload]


async def inside_a_workflow() -> str:
    answer = await execute_agent(support, "Order 7", budget={"maxTurns": 3}, approvals="deny")
    await execute_agent(support, "Order 7", approvals="never")  # type: ignore[arg-type]
    return answer.txt  # type: ignore[attr-defined, no-any-return]


async def main() -> None:
    await refund("7", 20)
    await refund("7", amount="20")  # type: ignore[arg-type]
    client = await Client.connect("…", plugins=[HoldfastPlugin(agents=[support])])
    HoldfastPlugin(agent=support)  # type: ignore[call-arg]
    agents = HoldfastClient(client, task_queue="support")
    run = await agents.start(support, "Order 7 arrived broken", id="order-7")
    assert_type(run, Run[SupportAnswer])
    assert_type(await run.result(), SupportAnswer)
    print((await run.result()).txt)  # type: ignore[attr-defined]
    async for event in run.events():
        print(event.n, event.entry.type)
        print(event.number)  # type: ignore[attr-defined]
    async for pending in agents.approvals():
        await pending.approve(by="ada")
        await pending.approve(arguments={})  # type: ignore[call-arg]
        await pending.edit()  # type: ignore[call-arg]
        await pending.aprove(by="ada")  # type: ignore[attr-defined]
    other = agents.run("order-7", output=int)
    assert_type(await other.result(), int)
    assert_type(agents.run("order-7", list[SupportAnswer]), Run[list[SupportAnswer]])
    assert_type(await agents.start("desk", "go", budget={"maxTurns": 3}), Run[JsonValue])
    async for pending in run.approval_requests():
        await pending.deny(remember=True)  # type: ignore[call-arg]
        await pending.edit("amount: 9")  # type: ignore[arg-type]
        await pending.respond(by="ada")  # type: ignore[call-arg]


async def test_support(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(
        support, "Order 7", model=[call(refund, "7", 20), SupportAnswer(text="")]
    )
    assert_type(run, RunUnderTest[SupportAnswer])
    assert_type(await holdfast_run("support", "Order 7", model=["text"]), RunUnderTest[JsonValue])
    await run.approve(refund, by="ada")
    print(run.requests[0].messages[-1].content, call(find, "7"), call("find", {"order_id": 7}))
    call(refund, "7", amount="20")  # type: ignore[arg-type, misc]
    call(find, 7)  # type: ignore[call-overload]
    await holdfast_run(support, "Order 7", model=[(refund, "7")])  # type: ignore[list-item]
