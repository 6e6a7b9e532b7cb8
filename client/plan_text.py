"""A plan, as a person reads it and strikes calls out of it."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from holdfast.runtime.text_safety import as_json, clean, format_argument, one_line, shorten
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.plan import calls_shown, example_edit, no_call

MAX_CALLS: Final = 100
_LABEL_CHARS = 60
_VALUE_CHARS = 2_000


class CannotStrikeError(ValueError):
    """Calls cannot be struck out of a plan: what is wrong, and what to do."""

    def __init__(self, wrong: str, todo: str) -> None:
        super().__init__(f"{wrong}; {todo}")
        self.wrong, self.todo = wrong, todo


def rows(waiting: PendingApproval) -> list[tuple[str, str]]:
    """The calls by number and name, each with what it would do."""
    calls = list(calls_shown(waiting.arguments))
    told = [
        (f"{number}. {name(call)}", "\n".join(_lines(call)))
        for number, call in enumerate(calls[:MAX_CALLS], start=1)
    ]
    more = len(calls) - MAX_CALLS
    return [*told, ("…", f"{more} more calls: see holdfast approvals --json")] if more > 0 else told


def name(call: Mapping[str, Any]) -> str:
    """A call of a plan by its id and the name that people know its tool by."""
    return one_line(f"{call['id']} {call.get('label') or call.get('tool') or ''}", _LABEL_CHARS)


def order(call: Mapping[str, Any]) -> str:
    """What a call of a plan waits for, and where it writes, in a line; empty for neither."""
    waits = ", ".join(map(str, call.get("waitsFor") or []))
    said = [
        f"after {one_line(waits, _VALUE_CHARS)}" if waits else "",
        f"for {one_line(str(call['instance']), _LABEL_CHARS)}" if call.get("instance") else "",
        f"writes {one_line(str(call['writes']), _VALUE_CHARS)}" if call.get("writes") else "",
    ]
    return ", ".join(part for part in said if part)


def by_whom(call: Mapping[str, Any]) -> str:
    """That a call of a plan is a whole run of another agent; empty where it is none."""
    agent = call.get("delegate")
    return f"by agent {one_line(str(agent), _LABEL_CHARS)}, in a run of its own" if agent else ""


def how_to_edit(waiting: PendingApproval) -> str:
    """An example of an edit; empty where no call is shown."""
    edit, means = example_edit(waiting.arguments)
    return f"edit, for example: {clean(edit)} ({clean(means)})" if edit else ""


def named(said: str) -> list[str]:
    """The calls that a person names at once: `t1c2,t1c3` or `t1c2 t1c3`."""
    return said.replace(",", " ").split()


def without(waiting: PendingApproval, struck: Collection[str]) -> dict[str, Any]:
    """What an edit says that strikes calls out of a plan.

    Raises:
        CannotStrikeError: it is no plan, or there are no such calls, or none would be left.
    """
    if waiting.kind != "plan":
        raise CannotStrikeError(f"{clean(waiting.call_id)} is no plan", "approve or deny it")
    ids = [call["id"] for call in calls_shown(waiting.arguments)]
    if not _is_whole(waiting):
        wrong = "the plan is too large to be shown whole"
        raise CannotStrikeError(wrong, "say `edit` with all of its `calls` that are to stay")
    for one in struck:
        if one not in ids:
            raise CannotStrikeError(*no_call(clean(one), map(clean, ids)))
    left = [{"id": one} for one in ids if one not in struck]
    if not left:
        raise CannotStrikeError("no call would be left", "say `deny`")
    return {"calls": left}


def _is_whole(waiting: PendingApproval) -> bool:
    """Whether the plan is shown as it is decided on, and not in part."""
    shown = {"tool": waiting.tool, "arguments": waiting.arguments, "kind": "plan", "round": 1}
    return sha256(canonical_json(shown)) == waiting.digest


def _lines(call: Mapping[str, Any]) -> list[str]:
    """What a call would do: a line for each argument, so that no value can pass for another."""
    given = call.get("arguments")
    told = [
        f"{one_line(str(key), _LABEL_CHARS)}: {_in_line(value)}"
        for key, value in (given.items() if isinstance(given, Mapping) else ())
    ]
    why = call.get("reasoning")
    return [
        *told,
        *filter(None, [by_whom(call), order(call)]),
        *([f"because: {one_line(str(why), _VALUE_CHARS)}"] if why else []),
    ]


def _in_line(value: Any) -> str:
    text = format_argument(value)
    return shorten(as_json(value) if "\n" in text else text, _VALUE_CHARS)
