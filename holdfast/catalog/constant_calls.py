"""Constant calls, which an agent has in place of a model, and their problems.

They are a composed answer that a person wrote: each call names its tool, and its arguments may
refer to the input and to what others write. Whatever is known of them before a run is checked when
the agent is read: tools, arguments without references, and agents that call themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from holdfast.catalog.registry import DefinitionRegistry
from holdfast.catalog.tool_reader import output_path_problems
from holdfast.schemas.agent import NOT_BESIDE_CALLS, AgentDefinition, ResolvedAgent
from holdfast.schemas.base import readable_json
from holdfast.schemas.budget import BUDGET_DEFAULTS
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.reference import (
    HOW_TO_REFER,
    ITEM,
    MARK,
    malformed_references,
    parse_reference,
    references_in,
)
from holdfast.schemas.tool import (
    ANONYMOUS,
    CHOSEN_BY_MODEL,
    EACH,
    MAX_ITEMS,
    REASONING,
    TOOL,
    ResolvedTool,
)
from holdfast.validation.arguments import InvalidArguments, fit, without_unknown
from holdfast.validation.problems import ValueProblem, under


def constant_call_problems(
    definition: AgentDefinition, tools: Sequence[ResolvedTool], world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    """Yield the problems of an agent's constant calls of these tools, and of its `answer`."""
    calls, known = definition.calls, {tool.name: tool for tool in tools}
    if not calls:
        yield from _reference_problems({"answer": definition.answer})
        return
    written = definition.model_dump(by_alias=True, exclude_unset=True)
    for key in sorted(NOT_BESIDE_CALLS & written.keys()):
        reason = "an agent with `calls` has no model"
        yield ValueProblem((key,), reason, f"leave out `{key}`, or `calls`")
    budget = definition.budget.over(BUDGET_DEFAULTS).bounded(world.limits.budget)
    most = budget.of_run().max_calls
    if most is not None and len(calls) > most:
        reason = f"`calls` has {len(calls)}, and the budget's `maxCalls` is {most}"
        yield ValueProblem(("calls",), reason, "raise it, or make fewer calls")
    yield from _reference_problems({"calls": calls, "answer": definition.answer})
    has_hooks = definition.prepare is not None or definition.repair is not None
    for n, call in enumerate(calls):
        name = call.get(TOOL)
        if not isinstance(name, str):
            reason = f"`{TOOL}` is missing" if name is None else f"`{TOOL}` is no text"
            yield ValueProblem(("calls", n), reason, "name the tool of the call in it")
        elif name in known:
            faults = _call_problems(call, known[name], is_fitted=not has_hooks)
            yield from under(faults, "calls", n)


def _reference_problems(written: dict[str, Any]) -> Iterator[ValueProblem]:
    for place, text in malformed_references(written):
        yield ValueProblem((), f"`{place}`: {quote_value(text)} is no reference", HOW_TO_REFER)


def _call_problems(
    call: Mapping[str, Any], tool: ResolvedTool, *, is_fitted: bool
) -> Iterator[ValueProblem]:
    if tool.latent or tool.delegate == ANONYMOUS:
        reason = f"`{tool.name}` is for a model to answer, and an agent with `calls` has none"
        fix = "name a tool with an activity, or with an agent as its `_delegate`"
        yield ValueProblem((TOOL,), reason, fix)
    own = tool.parameters.get("properties", {})
    meta = [key for key in call if key.startswith("_") and key not in own]
    for key in meta:
        if key not in (TOOL, REASONING, EACH, *CHOSEN_BY_MODEL):
            fix = suggest_names(key, (REASONING, EACH, *CHOSEN_BY_MODEL))
            yield ValueProblem((key,), f"`{key}` is no meta-property of a call", fix)
    yield from _loop_problems(call, tool)
    if isinstance(path := call.get("_outputPath"), str):
        yield from output_path_problems(path)
    if is_fitted and not (tool.hooks.prepare or tool.hooks.repair):
        arguments = {key: value for key, value in call.items() if key not in meta}
        unknown = [key for key, value in arguments.items() if MARK in readable_json(value)]
        try:
            fit(arguments, without_unknown(tool.parameters, unknown))
        except InvalidArguments as error:
            reason = f"the arguments do not fit the tool `{tool.name}`: {error}"
            yield ValueProblem((), reason, "change them, or refer to a value")


def _loop_problems(call: Mapping[str, Any], tool: ResolvedTool) -> Iterator[ValueProblem]:
    items = call.get(EACH)
    is_reference = isinstance(items, str) and parse_reference(items) is not None
    if items is None:
        refers = any(
            path.kind == ITEM for one in references_in([*call.values()]) for path in one.paths
        )
        if refers and tool.each:
            reason = f"`{MARK}{ITEM}` is an item of a list, and the call has none"
            yield ValueProblem((), reason, f"name the list in `{EACH}`")
    elif not tool.each:
        reason = f"`{tool.name}` runs for no list"
        yield ValueProblem((EACH,), reason, f"leave it out, or write `{EACH}: true` in the tool")
    elif isinstance(items, list) and len(items) > MAX_ITEMS:
        reason = f"the list has {len(items)} items, and a loop runs for at most {MAX_ITEMS}"
        yield ValueProblem((EACH,), reason, "split it")
    elif not (isinstance(items, list) or is_reference):
        fix = f"write a list, or refer to one: {MARK}state.order.lines"
        yield ValueProblem((EACH,), "this is no list", fix)


def cycle_problems(agents: Mapping[str, ResolvedAgent]) -> Iterator[tuple[str, ValueProblem]]:
    """Yield the first agent whose constant calls start it again, and the problem of the call."""
    delegates: dict[str, dict[str, int]] = {}
    for name, agent in agents.items():
        by_tool = {tool.name: tool.delegate for tool in agent.tools}
        # A tool of an MCP server is not among them.
        called = [(by_tool.get(call.tool), n) for n, call in enumerate(agent.calls)]
        delegates[name] = {to: n for to, n in reversed(called) if to is not None and to in agents}
    try:
        TopologicalSorter(delegates).prepare()
    except CycleError as error:
        # Each is listed before the agent that delegates to it.
        names: list[str] = error.args[1][::-1]
        reason = f"this call starts its own agent again: {' → '.join(names)}"
        where = ("calls", delegates[names[0]][names[1]])
        yield names[0], ValueProblem(where, reason, "delegate to another agent")
