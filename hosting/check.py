"""`--check`: everything is loaded as at a start, and nothing else is done."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from holdfast.catalog.module_import import stuck
from holdfast.hosting.isolated_check import CheckAnswer, guarded
from holdfast.hosting.options import Check, WorkerSettings
from holdfast.hosting.resources import LoadError, WorkerResources, holdings, load
from holdfast.hosting.startup_errors import STOPPED, WRONG_SETUP
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.settings_files.file_problems import FileProblem
from holdfast.runtime.storage.locations import try_out
from holdfast.runtime.storage.store import StoreError
from holdfast.schemas.phrases import nearest
from holdfast.validation.problems import ValueProblem
from holdfast.workflows.composed import schema_of_answers


def _notes(house: WorkerResources, settings: WorkerSettings) -> list[str]:
    """What is no mistake, but may not be what was meant."""
    reason = "is registered, and is no tool: its one parameter is no pydantic model"
    mend = "give it one, or bind it in `tools/`, if models are to call it"
    return [
        str(each.source.problem(ValueProblem((), f"activity `{each.name}` {reason}", mend)))
        for each in house.shelf.catalog.unbound
        if each.name != settings.notify
    ]


def check(settings: WorkerSettings, how: Check, secrets: Secrets) -> int:
    """Load everything as at a start, and say what keeps the worker from it; the exit code.

    Problems are lines on standard error. As JSON they are an array on standard output, of
    `{"file", "line", "reason", "mend", "field"}`: `line` from 1 or null, `field` the place within
    the file.
    """
    return guarded(
        lambda: _checked(settings, how, secrets),
        how.timeout,
        lambda stack: _refused([stuck(stack, how.timeout)], how),
        secrets.clean_told,
    )


def _checked(settings: WorkerSettings, how: Check, secrets: Secrets) -> CheckAnswer:
    problems = _of_store(settings)
    try:
        house = load(settings, secrets)
        if problems:
            return _refused(problems, how)
        if how.composed is not None:
            return CheckAnswer(STOPPED, f"{_composed(house, how.composed)}\n")
    except LoadError as error:
        return _refused([*error.problems, *problems], how)
    said = [*_notes(house, settings), f"{holdings(house)}: nothing to mend"]
    return CheckAnswer(STOPPED, "[]\n" if how.json else "\n".join([*said, ""]))


def _of_store(settings: WorkerSettings) -> list[FileProblem]:
    try:
        try_out(settings.store)
    except StoreError as error:
        return [FileProblem("--store", None, error.wrong, error.todo)]
    return []


def _composed(house: WorkerResources, which: str) -> str:
    """The schema of the answers of `AGENT` or `AGENT:SKILL`, in composed calling."""
    name, _, skill = which.partition(":")
    agents = house.shelf.catalog.agents
    if name not in agents:
        mend = nearest(name, agents, "name a catalog with agents: `--catalog DIR`")
        raise LoadError([FileProblem("--composed", None, f"there is no agent `{name}`", mend)])
    agent = agents[name]
    skills = [one.name for one in agent.skills]
    if skill and skill not in skills:
        mend = nearest(skill, skills, f"write `{name}` alone")
        raise LoadError([FileProblem("--composed", None, f"`{name}` has no skill `{skill}`", mend)])
    return json.dumps(schema_of_answers(agent, skill or None), indent=2, ensure_ascii=False)


def _refused(problems: Sequence[FileProblem], how: Check) -> CheckAnswer:
    if how.json:
        said = json.dumps([asdict(problem) for problem in problems], indent=2)
        return CheckAnswer(WRONG_SETUP, out=f"{said}\n")
    return CheckAnswer(WRONG_SETUP, err="".join(f"{problem}\n" for problem in problems))
