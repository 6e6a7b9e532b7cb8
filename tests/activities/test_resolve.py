"""`resolve_agent`, `resolve_tool`: what a run or a call starts with, and what it is refused for."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from holdfast.activities.resolve import LISTING_PAUSE, MAX_ATTEMPTS, DefinitionResolver
from holdfast.catalog.loader import CurrentCatalog, load_catalog
from holdfast.catalog.mcp_tools import ListedTool
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.schemas import names
from holdfast.schemas.agent import AgentSnapshot, ResolvedAgent, ToolSnapshot, WorkerFacts
from holdfast.schemas.settings.servers import Server
from holdfast.validation.problems import MAX_TOLD_CHARS
from tests.catalog.catalog_folder import Folder

FACTS = WorkerFacts(
    search_attributes=["AgentName"],
    notify="tell",
    generate_timeout=timedelta(hours=1),
    heartbeat_timeout=timedelta(seconds=5),
)
INLINE = {"model": {"endpoint": "m"}}


@pytest.fixture
def resolver(shop: Folder) -> DefinitionResolver:
    """The worker's answers: one agent `desk`, one tool `look_up`."""
    shop.write("agents/desk.md", "---\nmodel: {endpoint: m}\ntools: [look_up]\n---\nBe kind.")
    return DefinitionResolver(CurrentCatalog(shop.load()), lambda: FACTS)


def resolved(resolver: DefinitionResolver, agent: Any) -> AgentSnapshot:
    return AgentSnapshot.read(resolver.resolve_agent({"agent": agent, "input": "go"}))


def refusal(resolver: DefinitionResolver, request: Any) -> str:
    resolve = resolver.resolve_tool if "tool" in request else resolver.resolve_agent
    with pytest.raises(ApplicationError) as refused:
        resolve(request)
    assert (refused.value.type, refused.value.non_retryable) == (names.INVALID_REQUEST, True)
    assert refused.value.category is ApplicationErrorCategory.BENIGN  # it is no worker's fault
    return refused.value.message


def test_an_agent_of_the_catalog_is_given_whole(resolver: DefinitionResolver) -> None:
    snapshot = resolved(resolver, "desk")
    assert snapshot.agent.instructions == "Be kind."
    assert [tool.name for tool in snapshot.agent.tools] == ["look_up"]
    assert snapshot.agent.tools[0].parameters["required"] == ["order_id"]
    assert snapshot.agent.budget.max_turns == 8
    assert snapshot.worker == FACTS


def test_an_inline_agent_may_name_tools_of_the_catalog_and_hold_its_own(
    resolver: DefinitionResolver,
) -> None:
    own = {
        "_tool": "pay",
        "_activity": "charge",
        "_sideEffects": True,
        "properties": {"amount": {"type": "number"}},
    }
    agent = resolved(resolver, {**INLINE, "tools": ["look_up", own]}).agent
    assert agent.name == "inline"
    assert [tool.name for tool in agent.tools] == ["look_up", "pay"]
    assert agent.tools[1].once


def test_an_inline_agent_may_delegate_to_those_of_the_catalog(resolver: DefinitionResolver) -> None:
    ask = {"_tool": "ask", "_delegate": "desk"}
    skill = {"name": "writing", "tools": [{"_tool": "draft", "_delegate": "anonymous"}]}
    agent = resolved(resolver, {**INLINE, "tools": [ask], "skills": [skill]}).agent
    assert agent.tools[0].delegate == "desk"
    assert agent.skills[0].tools[0].delegate == "anonymous"


def test_a_worker_without_a_catalog_has_no_agents_to_delegate_to() -> None:
    catalog = load_catalog(endpoints=["m"], read_definition=activity_definition)
    resolver = DefinitionResolver(CurrentCatalog(catalog), lambda: FACTS)
    said = refusal(
        resolver, {"agent": {**INLINE, "tools": [{"_tool": "ask", "_delegate": "desk"}]}}
    )
    assert said.endswith("there is no agent `desk`; known: `anonymous`")


def ruled(required: Any) -> dict[str, Any]:
    rule = {"when": {"required": required}}
    return {"_tool": "pay", "_activity": "charge", "_approval": [rule]}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"agent": "dosk"}, "`agent`: there is no agent `dosk`; did you mean `desk`?"),
        ({}, "`agent` is missing; add it"),
        ({"agent": 5}, "`agent`: `5` does not fit; write a text, or an object"),
        (
            {"agent": "desk", "inputs": "x"},
            "`inputs`: unknown field `inputs`; did you mean `input`",
        ),
        (
            {"agent": {**INLINE, "tools": ["look_ap"]}},
            "`agent.tools[0]`: there is no tool `look_ap`; did you mean `look_up`?",
        ),
        (
            {"agent": {**INLINE, "output": {"$ref": "http://x/y"}}},
            "`agent.output.$ref`: `http://x/y` is outside of this schema",
        ),
        *(
            ({"agent": {**INLINE, "tools": [ruled(no)]}}, "`agent.tools[0]._approval[0].when.requ")
            for no in (True, None, 5, "amount", [5])
        ),
        ({"agent": {**INLINE, "instructions": "x" * 1_000_001}}, "`agent`: the agent has 100"),
        ({"tool": "look_ap"}, "`tool`: there is no tool `look_ap`; did you mean `look_up`?"),
        ({"tool": "charge"}, "`tool`: there is no tool `charge`; the activity takes no pydantic"),
        ({"tool": {"_tool": "latent"}}, "`tool`: this worker has no activity `latent`"),
        (
            {"tool": {"_tool": "mood", "_output": {"type": "string"}}},
            "`tool`: `mood` is for a model to answer, and a single call has no model; name a tool",
        ),
        (
            {"tool": {"_tool": "ask", "_delegate": "anonymous"}},
            "`tool`: `ask` is for a model to answer, and a single call has no model",
        ),
        (
            {"tool": {"_tool": "ask", "_delegate": "dosk"}},
            "`tool._delegate`: there is no agent `dosk`; did you mean `desk`?",
        ),
        ({"tool": 5}, "`tool`: `5` does not fit"),
    ],
)
def test_an_unavailable_definition_is_refused_with_the_reason(
    resolver: DefinitionResolver, request_: dict[str, Any], message: str
) -> None:
    assert refusal(resolver, request_).startswith(message)


def test_a_single_call_is_given_its_tool_and_what_its_worker_has(
    resolver: DefinitionResolver,
) -> None:
    snapshot = ToolSnapshot.read(resolver.resolve_tool({"tool": "look_up"}))
    assert snapshot.tool.parameters["required"] == ["order_id"]
    assert snapshot.worker == FACTS
    own = {"_tool": "pay", "_activity": "charge", "_sideEffects": True}
    assert ToolSnapshot.read(resolver.resolve_tool({"tool": own})).tool.once


def test_a_single_call_may_be_executed_by_an_agent(resolver: DefinitionResolver) -> None:
    snapshot = resolver.resolve_tool({"tool": {"_tool": "ask", "_delegate": "desk"}})
    assert ToolSnapshot.read(snapshot).tool.delegate == "desk"


def test_a_request_with_a_thousand_faults_is_refused_at_once(resolver: DefinitionResolver) -> None:
    assert "more" in refusal(resolver, {"agent": {**INLINE, "tools": [5] * 20_000}})


def test_the_secrets_of_an_endpoint_are_in_no_snapshot(resolver: DefinitionResolver) -> None:
    answer = resolver.resolve_agent({"agent": "desk", "input": "go"})
    own = {"endpoint", "name", "temperature", "maxOutputTokens", "options"}
    assert set(answer["agent"]["model"]) == own | {"reasoning", "accepts", "retryFor"}


def test_any_number_of_problems_of_any_length_is_reported_in_a_line(
    resolver: DefinitionResolver,
) -> None:
    many = {f"{'x' * 1_000}{n}": n for n in range(1_000)}
    told = refusal(resolver, {"agent": "desk", **many})
    assert len(told) <= MAX_TOLD_CHARS + len(". And 95 more")
    assert told.endswith(". And 95 more")


def test_a_transcript_that_ends_with_an_answer_has_nothing_to_do(
    resolver: DefinitionResolver,
) -> None:
    answer = {"role": "assistant", "content": "Done."}
    message = refusal(resolver, {"agent": "desk", "context": [answer]})
    assert message == "`context`: it holds no new message; add one"
    # Calls without results are refused by the run, which names the call.
    open_ = {"role": "assistant", "calls": [{"id": "a", "tool": "look_up", "arguments": {}}]}
    resolver.resolve_agent({"agent": "desk", "context": [open_]})


def test_a_server_that_cannot_be_reached_is_requested_again_for_half_a_minute() -> None:
    shop = Server(url="https://shop.example/mcp")
    catalog = load_catalog(
        endpoints=["m"], servers={"shop": shop}, read_definition=activity_definition
    )
    found: dict[str, Any] = {"shop": "MCP server `shop`: no route"}
    resolver = DefinitionResolver(
        CurrentCatalog(catalog), lambda: FACTS, list_tools=lambda names: found
    )
    request = {"agent": {**INLINE, "tools": ["mcp:shop/*"]}, "input": "go"}
    env = ActivityEnvironment()
    for attempt, is_final in ((MAX_ATTEMPTS - 1, False), (MAX_ATTEMPTS, True)):
        # After a pause, an attempt has a scheduled time of its own.
        env.info = replace(
            ActivityEnvironment.default_info(), attempt=attempt, scheduled_time=datetime.now(UTC)
        )
        with pytest.raises(ApplicationError, match="MCP server `shop`: no route") as refused:
            env.run(resolver.resolve_agent, request)
        assert (refused.value.type, refused.value.non_retryable) == (
            names.INVALID_REQUEST,
            is_final,
        )
    found["shop"] = [ListedTool("find", input_schema={"type": "object"})]
    agent = AgentSnapshot.read(resolver.resolve_agent(request)).agent
    assert [tool.name for tool in agent.tools] == ["shop_find"]


def test_a_schema_that_does_not_fit_its_meta_schema_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unfit = {"$id": "#order"}
    shop = Server(url="https://shop.example/mcp")
    catalog = load_catalog(
        endpoints=["m"], servers={"shop": shop}, read_definition=activity_definition
    )
    listed = [ListedTool("find", input_schema={"type": "object", "properties": {"a\n": unfit}})]
    resolver = DefinitionResolver(
        CurrentCatalog(catalog), lambda: FACTS, list_tools=lambda names: {"shop": [*listed]}
    )
    env = ActivityEnvironment()

    def logged(agent: dict[str, Any]) -> list[str]:
        caplog.clear()
        env.run(resolver.resolve_agent, {"agent": {**INLINE, **agent}, "input": "go"})
        return caplog.messages

    [text] = logged({"output": unfit})
    reason = "the schema does not fit its meta-schema: '#order' does not match '^[^#]*#?$'"
    assert text.startswith(f"run test: `agent.output.$id`: {reason}")
    # Those of a server once for each listing, in one line.
    [text] = logged({"tools": ["mcp:shop/*"]})
    place = "`_parameters.properties.a .$id`"
    assert text.startswith(f"run test: MCP server `shop`, tool `find`: {place}: {reason}")
    assert logged({"tools": ["mcp:shop/*"]}) == []
    listed.append(ListedTool("pay", input_schema={"type": "object"}))
    assert len(logged({"tools": ["mcp:shop/*"]})) == 1
    caplog.clear()
    call = {"tool": {"_tool": "ask", "_person": True, "_output": unfit}}
    env.run(resolver.resolve_tool, call)
    [text] = caplog.messages
    assert text.startswith(f"run test: `tool._output.$id`: {reason}")


def test_a_listing_that_takes_long_is_awaited_by_another_attempt() -> None:
    """A local activity is a part of a workflow task, which must not take long."""
    servers = {"shop": Server(url="https://shop.example/mcp")}
    catalog = load_catalog(endpoints=["m"], servers=servers, read_definition=activity_definition)

    def list_tools(names: Any) -> Any:
        raise TimeoutError

    resolver = DefinitionResolver(CurrentCatalog(catalog), lambda: FACTS, list_tools=list_tools)
    request = {"agent": {**INLINE, "tools": ["mcp:shop/*"]}, "input": "go"}
    with pytest.raises(ApplicationError, match="shop have not listed their tools") as raised:
        ActivityEnvironment().run(resolver.resolve_agent, request)
    assert not raised.value.non_retryable
    assert raised.value.next_retry_delay == LISTING_PAUSE


def test_prompts_of_a_trusted_server_are_instructions() -> None:
    shop = Server(url="https://shop.example/mcp", trusted=True)
    servers = {"shop": shop, "far": shop.model_copy(update={"trusted": False})}
    catalog = load_catalog(endpoints=["m"], servers=servers, read_definition=activity_definition)
    texts: dict[str, Any] = {
        "shop": [],
        "far": [],
        "shop/prompt/support": [ListedTool("support", description="Be kind.")],
        "far/prompt/support": [ListedTool("support", description="Be kind.")],
        "shop/prompt/gone": "MCP server `shop`, `prompt/gone`: no such prompt",
    }
    resolver = DefinitionResolver(
        CurrentCatalog(catalog),
        lambda: FACTS,
        list_tools=lambda names: {n: texts[n] for n in names},
    )

    def resolve(instructions: str) -> ResolvedAgent:
        skills = [{"name": "more", "instructions": instructions}]
        agent = {**INLINE, "instructions": instructions, "skills": skills}
        request = {"agent": agent, "input": "go"}
        found = ActivityEnvironment().run(resolver.resolve_agent, request)
        return AgentSnapshot.read(found).agent

    agent = resolve("mcp:shop/prompt/support")
    assert (agent.instructions, agent.skills[0].instructions) == ("Be kind.", "Be kind.")
    assert resolve("Write mcp:shop/prompt/support.").instructions.startswith("Write")
    for prompt, reason in [
        ("mcp:shop/prompt/gone", "`agent.instructions`: MCP server `shop`, `prompt/gone`: no such"),
        ("mcp:far/prompt/support", "MCP server `far` is not trusted to write instructions"),
        ("mcp:sho/prompt/support", "there is no MCP server `sho`; did you mean `shop`?"),
    ]:
        with pytest.raises(ApplicationError, match=re.escape(reason)):
            resolve(prompt)
