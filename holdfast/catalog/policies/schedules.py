"""The schedules of a catalog folder, `schedules/*.yaml`, checked against the agents that they run.

The worker does not run them: `holdfast schedules apply` writes them to Temporal.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError
from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.run import PrincipalToken
from holdfast.schemas.settings.schedules import ScheduleDefinition
from holdfast.validation.problems import ValueProblem, name_problem
from holdfast.validation.validator import errors


def load_schedules(
    files: Iterable[Path],
    agents: Mapping[str, ResolvedAgent],
    waiting: Collection[str],
    *,
    principal_tokens: bool,
) -> dict[str, ScheduleDefinition]:
    """Load the schedules of these files, by their names.

    `waiting` are agents whose runs may wait for reasons that their tools do not show.

    Raises:
        LoadError: a schedule does not load, or does not fit its agent.
    """
    found, problems = dict[str, ScheduleDefinition](), list[FileProblem]()
    for path in files:
        try:
            source = read_source(path)
            schedule = source.parse_as(ScheduleDefinition)
        except LoadError as error:
            problems += error.problems
            continue
        faults = [*_problems(schedule, agents, waiting)]
        if path.stem in found or name_problem(path.stem, "name"):
            reason = "the file's name is that of another schedule, or not valid as a name"
            faults.append(ValueProblem((), reason, "rename it: it is the schedule's id"))
        if principal_tokens or isinstance(schedule.principal, PrincipalToken):
            reason = (
                "a token is for one run, by its id, and a schedule starts one run after another"
            )
            fix = "write none, or have a program start them that signs a token for each"
            faults.append(ValueProblem(("principal",), reason, fix))
        problems += source.problems(faults)
        found[path.stem] = schedule
    if problems:
        raise LoadError(problems)
    return found


def _problems(
    schedule: ScheduleDefinition, agents: Mapping[str, ResolvedAgent], waiting: Collection[str]
) -> Iterator[ValueProblem]:
    if (agent := agents.get(schedule.agent)) is None:
        reason = f"there is no agent `{schedule.agent}`"
        yield ValueProblem(("agent",), reason, suggest_names(schedule.agent, agents))
        return
    if isinstance(schedule.input, dict) and agent.input is not None:
        for wrong in errors(schedule.input, agent.input):
            reason = f"it does not fit the `input` of agent `{agent.name}`: {wrong}"
            yield ValueProblem(("input",), reason, "change it: each run would be refused")
    can_wait = agent.name in waiting or _can_wait(agent)
    if schedule.overlap is None and schedule.approvals is None and can_wait:
        reason = f"`overlap` is missing, and a run of `{agent.name}` can wait for a person"
        fix = "state what becomes of the next start then, such as `overlap: Skip`"
        yield ValueProblem((), reason, fix)


def _can_wait(agent: ResolvedAgent) -> bool:
    """Return whether a run may wait: for an approval, an answer, or after an unknown outcome."""
    tools = agent.all_tools
    always = {agent.approval.require, *(tool.approval.require for tool in tools)}
    return (
        bool(tools and (agent.plan == "lazy" or "always" in always))
        or "ask" in agent.on_limit.values()
        or any(skill.activity for skill in agent.skills)
        or any(each.side_effects or each.person or each.delegate for each in tools)
        or any(each.approval_rules for each in tools)
    )
