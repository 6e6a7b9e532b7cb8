"""Plans: the calls of one answer as people are shown them to decide on all at once, and as they
edit them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from holdfast.schemas.base import Json, Strict
from holdfast.schemas.phrases import MAX_NAMES_TOLD, quoted, some


class PlannedCall(Strict):
    """One call of a plan.

    Where a plan is edited, `id` is enough for a call that stays as it is. Only `arguments` may be
    others than those that are shown.
    """

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """The call."""
    tool: str | None = None
    """The tool that would be carried out."""
    label: str | None = None
    """Its name for people."""
    arguments: dict[str, Json] | None = None
    """What it would be carried out with; a reference to what is not there yet stands as it is."""
    reasoning: str | None = None
    """Why the model makes the call."""
    waits_for: list[str] | None = None
    """The calls that have to end before."""
    writes: str | None = None
    """Where its result is written, and behind `||` its error."""
    instance: str | None = None
    """Whose data it reads and writes, in a run with instances."""
    delegate: str | None = None
    """The agent whose run carries it out, where one does; left out of what is shown where none
    does."""

    def to_json(self) -> dict[str, Any]:
        """Every field, whether or not it is at its default: people's screens read this. Only
        `delegate` is left out where there is none."""
        alone = {"delegate"} if self.delegate is None else set()
        return self.model_dump(mode="json", by_alias=True, exclude=alone)


class Plan(Strict):
    """The `arguments` of what waits as a plan, and those with which it is edited: a call that is
    left out then is struck out of the plan."""

    calls: list[PlannedCall]
    """The calls, in the order in which the model made them."""

    def to_json(self) -> dict[str, Any]:
        """Every field of every call."""
        return {"calls": [call.to_json() for call in self.calls]}


def calls_shown(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The calls of a plan as it is shown, which may be in part."""
    calls = arguments.get("calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            yield call


def in_brief(kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a question is about, where there is one line for it: of a plan, the tool of each
    call."""
    if kind != "plan":
        return arguments
    return {call["id"]: call.get("tool") for call in calls_shown(arguments)}


def example_edit(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """An edit of a plan, and what it would do; both empty where no call of it is shown."""
    ids = [call["id"] for call in calls_shown(arguments)]
    if not ids:
        return "", ""
    *stays, other = ids[:2]
    entries = [json.dumps({"id": one}) for one in stays]
    entries.append(f'{{"id": {json.dumps(other)}, "arguments": {{…}}}}')
    said = [
        *(f"{one} stays as it is" for one in stays),
        f"{other} has other arguments",
        *(["any other call is struck out"] if len(ids) > 2 else []),
    ]
    return f'{{"calls": [{", ".join(entries)}]}}', ", ".join(said)


def no_call(name: str, ids: Iterable[str]) -> tuple[str, str]:
    """That a plan has no call of this name, and which it has: ids are too much alike to guess which
    one is meant."""
    has = some([f"`{one}`" for one in ids], MAX_NAMES_TOLD)
    return f"{quoted(name)} is no call of this plan", f"it has {has}"
