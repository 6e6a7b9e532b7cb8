"""LangGraph on Temporal: a graph of two nodes, each of them an activity, as its samples have it."""

from datetime import timedelta
from functools import cache
from typing import Any

from langchain_core.messages import AnyMessage, SystemMessage, convert_to_messages
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from temporalio import workflow
from temporalio.langgraph import graph

with workflow.unsafe.imports_passed_through():
    from langchain_openai import ChatOpenAI

IN_ACTIVITY = {"execute_in": "activity", "start_to_close_timeout": timedelta(minutes=1)}
SYSTEM = SystemMessage("You read records.")


@tool
async def read_record(name: str, size: int) -> str:
    """Read a record."""
    return (f"record {name}: " + "lorem ipsum " * size)[:size]


@cache
def model() -> Any:
    """Where the model is stands in the environment; Temporal repeats what fails."""
    return ChatOpenAI(model="fake", max_retries=0).bind_tools([read_record])


async def agent(state: MessagesState) -> dict[str, list[AnyMessage]]:
    """Ask the model."""
    said = await model().ainvoke([SYSTEM, *convert_to_messages(state["messages"])])
    return {"messages": [said]}


async def tools(state: MessagesState) -> dict[str, list[AnyMessage]]:
    """Carry out the calls of the last message."""
    [last] = convert_to_messages(state["messages"][-1:])
    return {"messages": [await read_record.ainvoke(call) for call in last.tool_calls]}


async def has_calls(state: MessagesState) -> str:
    """Where to go after the model has answered."""
    return "tools" if state["messages"][-1].tool_calls else END


def build_graph() -> StateGraph[MessagesState]:
    """The graph: the model, then its calls, until there are none."""
    built = StateGraph(MessagesState)
    built.add_node("agent", agent, metadata=dict(IN_ACTIVITY))
    built.add_node("tools", tools, metadata=dict(IN_ACTIVITY))
    built.add_edge(START, "agent")
    built.add_conditional_edges("agent", has_calls)
    built.add_edge("tools", "agent")
    return built


@workflow.defn
class RecordsWorkflow:
    """Reads records until the model is done."""

    @workflow.run
    async def run(self, prompt: str, recursion_limit: int) -> str:
        """The model's last text."""
        start: Any = {"messages": [("user", prompt)]}
        limit: Any = {"recursion_limit": recursion_limit}
        result = await graph("records").compile().ainvoke(start, limit)
        return str(result["messages"][-1].content)
