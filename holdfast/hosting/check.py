"""`holdfast check` and `--check`: load everything as a worker does at start, and report problems.

The modules of a user are imported here. Such a module may print, start threads that keep
printing, close the streams, fork, or never return. `run_isolated` reports the result in each of
these cases: it redirects standard output and error to the null device before the first import, and
ends the process at the time limit.
"""

import asyncio
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TextIO

from holdfast.activities.interceptors.once import LOST_REPLIES
from holdfast.catalog.advice import server_advice
from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.mcp_tools import MCP_LOCK, Listing, lock_problems, named_servers
from holdfast.catalog.python_module import stuck_import_problem
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.hosting.options import CheckOptions, WorkerSettings
from holdfast.hosting.process_exit import STOPPED, WRONG_SETUP
from holdfast.hosting.resources import ResourcesError, WorkerResources, load_resources
from holdfast.providers.anthropic.schema import answer_schema
from holdfast.providers.openai.format import fits_strict_mode
from holdfast.providers.tool_schemas import schema_notes
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.settings_files.file_problems import FileProblem, InvalidValueError
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import StoreError
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import RepairAgent, ResolvedTool
from holdfast.validation.problems import ValueProblem
from holdfast.workflows.engine.model.composed import composed_schema
from holdfast.workflows.engine.skills import allowed_tools

FAILED: Final = 1
# Those whose errors are known.
_LIBRARIES: Final = ", ".join([*LOST_REPLIES, "grpc"])
# Duplicates of standard output and error that a forked process does not inherit: the reader of the
# result would wait for the end of that process, too.
_streams: list[TextIO] = []


class CheckResult(NamedTuple):
    """The exit code of a check, and its text for standard output and error."""

    code: int
    out: str = ""
    err: str = ""


def check(settings: WorkerSettings, options: CheckOptions, secrets: Secrets) -> int:
    """Load everything as at a start, report each problem, and return the exit code.

    Problems are lines on standard error, and warnings on standard output, which change no exit
    code. As JSON, either are an array on standard output, of
    `{"file", "line", "reason", "mend", "field"}`: `line` from 1 or null, `field` the place within
    the file.
    """
    return run_isolated(
        lambda: _check(settings, options, secrets),
        options.timeout,
        lambda stack: _failure([stuck_import_problem(stack, options.timeout)], options),
        secrets.clean_for_operator,
    )


def _check(settings: WorkerSettings, options: CheckOptions, secrets: Secrets) -> CheckResult:
    problems: list[FileProblem] = []
    if isinstance(settings.store, Path):  # a bucket is not requested
        try:
            FolderStore(settings.store).check_writable()
        except StoreError as error:
            problems.append(FileProblem("--store", None, error.reason, error.fix))
    try:
        resources = load_resources(settings, secrets)
        faults, notes = _add_server_tools(settings, resources)
        problems += faults
        if problems:
            return _failure(problems, options)
        if options.composed is not None:
            return CheckResult(STOPPED, f"{_composed_schema(resources, options.composed)}\n")
    except ResourcesError as error:
        return _failure([*error.problems, *problems], options)
    unfit = list(_unfit_schemas(resources, options.provider)) if options.provider else []
    notes += _unintended(settings, resources)
    if options.lost_replies:
        notes += _lost_replies(resources)
    advice = resources.current_catalog.catalog.advice
    warnings = [*advice, *notes, *resources.trust_warnings(settings), *unfit]
    warnings = [*dict.fromkeys(warnings)]  # agents share tools
    if options.json:
        return CheckResult(STOPPED, _as_json(warnings))
    lines = [*warnings, f"{resources.summary()}: OK"]
    return CheckResult(STOPPED, "".join(f"{line}\n" for line in lines))


def _unintended(settings: WorkerSettings, resources: WorkerResources) -> Iterator[FileProblem]:
    """Yield warnings about settings that are valid, but perhaps not intended."""
    catalog = resources.current_catalog.catalog
    for each in catalog.python.activities:
        if each.name not in catalog.bound_activities and each.name != settings.notify:
            why = "its one parameter is no pydantic model"
            fix = "give it one, or bind it in `tools/`"
            if each.signature.fewest != 1:
                why = "it does not take one value"
                fix = f"bind it in `tools/` by `{each.signature.binding(each.name)}`"
            reason = f"activity `{each.name}` is registered, and is no tool: {why}"
            fault = ValueProblem((), reason, f"{fix}, if models are to call it")
            yield each.source.problem(fault)
    file, reason = str(settings.servers), "`principalTokens`, and no principal of a run is verified"
    for name, server in catalog.definitions.servers.items():
        if server.principal_tokens is not None and not settings.principal_tokens:
            wrong = f"MCP server `{name}`: {reason}"
            yield FileProblem(file, None, wrong, "add `--principal-tokens`")
    owners: list[ResolvedTool | ResolvedAgent] = [*catalog.all_tools, *catalog.agents.values()]
    repairs = [each.hooks.repair for each in owners]
    fix = "write its `output: {type: object}`"
    for name in dict.fromkeys(each.agent for each in repairs if isinstance(each, RepairAgent)):
        output = catalog.agents[name].output
        if not isinstance(output, dict) or output.get("type") != "object":
            reason = f"agent `{name}`, named by `_repair`, has to return an object, the arguments"
            yield FileProblem(str(settings.catalog), None, reason, fix)


def _lost_replies(resources: WorkerResources) -> Iterator[FileProblem]:
    """Yield the tools whose outcome is unknown after a lost reply."""
    catalog = resources.current_catalog.catalog
    once = {tool.activity.type for tool in catalog.all_tools if tool.once and tool.activity}
    reason = f"is unknown after a lost reply ({_LIBRARIES})"
    for each in catalog.python.activities:
        if each.name in once:
            yield each.source.problem(
                ValueProblem((), f"the outcome of `{each.name}` {reason}", "")
            )


def _add_server_tools(
    settings: WorkerSettings, resources: WorkerResources
) -> tuple[list[FileProblem], list[FileProblem]]:
    """Connect to the MCP servers, and add their tools to the agents of the catalog.

    Returns:
        The problems of the servers, and of the agents with their tools; and the warnings: tools
        that are not locked as they are, advice on their schemas, and locked servers that cannot be
        reached.
    """
    if (servers := resources.servers) is None:
        return [], []
    catalog = resources.current_catalog.catalog
    named = [each for source in catalog.mcp_agents.values() for each in named_servers(source.value)]

    async def listing() -> Listing:
        async with servers.running():
            names = dict.fromkeys([*catalog.definitions.servers, *named])
            return await servers.list_tools(list(names))

    listed = asyncio.run(listing())
    found, warnings = _server_problems(settings, catalog.definitions, listed)
    for name, source in catalog.mcp_agents.items():
        if all(isinstance(listed[each], list) for each in named_servers(source.value)):
            try:
                agent = resolve_definition(source.value, name, catalog.definitions, listed)
                catalog.agents[name] = agent
            except InvalidValueError as refused:
                found += source.problems(refused.faults)
    return found, warnings


def _server_problems(
    settings: WorkerSettings, world: DefinitionRegistry, listed: Listing
) -> tuple[list[FileProblem], list[FileProblem]]:
    file, locked = str(settings.servers), {each.partition("/")[0] for each in world.mcp_lock or ()}
    found: list[FileProblem] = []
    warnings: list[FileProblem] = []
    for name, tools in listed.items():
        server = name.partition("/")[0]
        if isinstance(tools, str):
            is_offline = server in locked and isinstance(listed[server], str)
            fix = "check the server, and its entry here"
            fix = "of its tools, only the names are checked, by the lock" if is_offline else fix
            (warnings if is_offline else found).append(FileProblem(file, None, tools, fix))
        elif name in world.servers:
            unlocked = lock_problems(name, tools, world.mcp_lock).values()
            lock = f"{settings.catalog}/{MCP_LOCK}"
            warnings += (FileProblem(lock, None, each.reason, each.fix) for each in unlocked)
            advice = server_advice(name, tools, world)
            warnings += (FileProblem(file, None, each.reason, each.fix) for each in advice)
            for tool in world.servers[name].overrides.keys() - {each.name for each in tools}:
                fix = suggest_names(tool, [each.name for each in tools], "it lists none")
                reason = f"MCP server `{name}` has no tool `{tool}`"
                found.append(FileProblem(file, None, reason, fix, f"{name}.overrides"))
    return found, warnings


def _unfit_schemas(resources: WorkerResources, provider: str) -> Iterator[FileProblem]:
    """Yield what a provider does not accept or enforce of the tools and the agents' outputs."""
    fits: dict[str, Callable[[Any], Any]] = {
        "openai": fits_strict_mode,
        "anthropic": answer_schema,
        "bedrock": answer_schema,
    }
    rules = provider.removesuffix("-responses")  # OpenAI's formats have the same
    catalog = resources.current_catalog.catalog
    for agent in catalog.agents.values():
        is_checked = isinstance(agent.model_output, dict) and rules in fits
        if is_checked and not fits[rules](agent.model_output):
            reason = f"the provider does not enforce the output of agent `{agent.name}`"
            yield FileProblem(f"--provider {provider}", None, reason, "the run validates it")
    for tool in catalog.all_tools:
        for note in schema_notes(rules, tool.parameters, tool.description):
            reason = f"tool `{tool.name}`: {note}"
            yield FileProblem(f"--provider {provider}", None, reason, "")


def _composed_schema(resources: WorkerResources, target: str) -> str:
    """Return the schema of the answers of `AGENT` or `AGENT:SKILL` in composed calling."""
    name, _, skill = target.partition(":")
    agents = resources.current_catalog.catalog.agents
    if name not in agents:
        fix = suggest_names(name, agents, "name a catalog with agents: `--catalog DIR`")
        raise ResourcesError([FileProblem("--composed", None, f"there is no agent `{name}`", fix)])
    agent = agents[name]
    skills = [one.name for one in agent.skills]
    if skill and skill not in skills:
        fix = suggest_names(skill, skills, f"write `{name}` alone")
        reason = f"`{name}` has no skill `{skill}`"
        raise ResourcesError([FileProblem("--composed", None, reason, fix)])
    # An agent with several skills first chooses one.
    chosen = skill or (skills[0] if len(skills) == 1 else None)
    agent = agent.model_copy(update={"output": agent.model_output})
    schema = composed_schema(agent, allowed_tools(agent, chosen))
    return json.dumps(schema, indent=2, ensure_ascii=False)


def _failure(problems: Sequence[FileProblem], options: CheckOptions) -> CheckResult:
    if options.json:
        return CheckResult(WRONG_SETUP, _as_json(problems))
    return CheckResult(WRONG_SETUP, err="".join(f"{problem}\n" for problem in problems))


def _as_json(problems: Sequence[FileProblem]) -> str:
    return f"{json.dumps([each.to_json() for each in problems], indent=2)}\n"


def run_isolated(
    work: Callable[[], CheckResult],
    timeout: timedelta,
    on_timeout: Callable[[traceback.StackSummary], CheckResult],
    clean: Callable[[str], str],
) -> int:
    """Run the work, print its result, and return its exit code.

    Standard output and error are redirected to the null device from here on, also afterwards. The
    work may print, and may never return: `on_timeout` makes the result from the stack of the main
    thread. `clean` removes secrets from a text.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        stream.flush()
        copy = os.dup(number)
        _streams.append(os.fdopen(copy, "w", encoding=stream.encoding, errors="backslashreplace"))
        os.dup2(null, number)
    os.close(null)
    main_thread = threading.get_ident()

    def end() -> NoReturn:
        stack = traceback.extract_stack(sys._current_frames()[main_thread])
        _print_result(on_timeout(stack), clean)
        os._exit(WRONG_SETUP)

    timer = threading.Timer(timeout.total_seconds(), end)
    timer.daemon = True
    timer.start()
    try:
        result = work()
    except Exception:
        result = CheckResult(FAILED, err=traceback.format_exc())
    timer.cancel()
    _print_result(result, clean)
    return result.code


def _print_result(result: CheckResult, clean: Callable[[str], str]) -> None:
    for stream, text in zip(_streams, (result.out, result.err), strict=False):
        with suppress(BrokenPipeError):  # the reader has closed the pipe
            stream.write(clean(text))
            stream.flush()
    _close_streams()


def _close_streams() -> None:
    for stream in _streams:
        with suppress(BrokenPipeError):
            stream.close()
    _streams.clear()


os.register_at_fork(after_in_child=_close_streams)
