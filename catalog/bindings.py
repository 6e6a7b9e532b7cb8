"""Activities that a tool, an agent or a skill names: whether this worker can have them carried out.

An activity of another queue is another worker's, of which nothing is known here.
"""

from collections.abc import Iterator

from holdfast.catalog.registry import DefinitionRegistry
from holdfast.schemas import names
from holdfast.schemas.agent import AgentDefinition
from holdfast.schemas.phrases import nearest
from holdfast.schemas.tool import (
    NOT_FOR_HOOKS,
    ActivityBinding,
    ActivityRef,
    Hooks,
    ToolDefinition,
    binding_of,
)
from holdfast.validation.problems import ValueProblem, Where


def activity_faults(written: ActivityRef, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    """What keeps an activity from carrying out calls, or the work of a skill."""
    yield from _presence_faults(written, world)
    binding = binding_of(written)
    if binding.local and binding.task_queue is not None:
        mend = "leave out `taskQueue`, or `local`"
        yield ValueProblem(("local",), "a local activity runs on the run's own worker", mend)


def hook_faults(
    definition: ToolDefinition | AgentDefinition, world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    """What keeps its hooks from being asked."""
    for name, written in _hooks(definition):
        for fault in (*_presence_faults(written, world), *_use_faults(written)):
            yield fault.under(f"_{name}")


def hooks_of(definition: ToolDefinition | AgentDefinition) -> Hooks:
    """Its hooks, with their options."""
    return Hooks(**{name: binding_of(written) for name, written in _hooks(definition)})


def _hooks(definition: ToolDefinition | AgentDefinition) -> Iterator[tuple[str, ActivityRef]]:
    for name in Hooks.model_fields:
        written = getattr(definition, name)
        if written is not None:
            yield name, written


def _use_faults(written: ActivityRef) -> Iterator[ValueProblem]:
    """What is for activities that carry calls out, and says nothing of one that is a hook."""
    said = written.model_fields_set if isinstance(written, ActivityBinding) else ()
    for key in NOT_FOR_HOOKS:
        if key in said:
            yield ValueProblem((key,), "hooks are all asked in one way", "leave it out")


def _presence_faults(written: ActivityRef, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    binding = binding_of(written)
    where: Where = ("type",) if isinstance(written, ActivityBinding) else ()
    if binding.task_queue not in (None, world.task_queue):
        return
    if binding.type in names.RESERVED_ACTIVITIES:
        reason = f"the activity name `{binding.type}` is the worker's own"
        yield ValueProblem(where, reason, "name another")
    elif binding.type not in world.activities and not world.guessing:
        near = nearest(binding.type, world.activities, "`--tools` gives it some")
        mend = f"{near} (an activity of another worker needs its `taskQueue`)"
        yield ValueProblem(where, f"this worker has no activity `{binding.type}`", mend)
