"""Compute the search attributes of a workflow, and the changes to upsert."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.base import json_size

from holdfast.workflows.engine.execution_base import ExecutionBase

# The server terminates a run with a search attribute of more than 2 KB.
MAX_LIST_BYTES = 1_900

_KEYWORD = {
    name: SearchAttributeKey.for_keyword(name)
    for name in (names.AGENT_NAME, names.AGENT_STATUS, names.AGENT_PRINCIPAL)
}
_KEYS: dict[str, SearchAttributeKey[Any]] = {
    **_KEYWORD,
    names.PENDING_TOOLS: SearchAttributeKey.for_keyword_list(names.PENDING_TOOLS),
    names.PENDING_FOR: SearchAttributeKey.for_keyword_list(names.PENDING_FOR),
    names.PENDING_SINCE: SearchAttributeKey.for_datetime(names.PENDING_SINCE),
    names.PENDING_UNTIL: SearchAttributeKey.for_datetime(names.PENDING_UNTIL),
}


def attributes(work: ExecutionBase) -> dict[str, Any]:
    """Return the search attributes of a run or a call: names and states, no content."""
    principal, questions = work.state.principal, work.state.pending.list_open()
    approvers = [each.policy.approvers or [names.FOR_ANYBODY] for each in questions]
    return {
        names.AGENT_NAME: work.agent_name,
        names.AGENT_STATUS: work.status,
        names.AGENT_PRINCIPAL: principal.id if principal is not None else None,
        names.PENDING_TOOLS: _fitting(tool for each in questions for tool in each.tools) or None,
        names.PENDING_SINCE: max((each.requested_at for each in questions), default=None),
        names.PENDING_UNTIL: min((each.expires_at for each in questions), default=None),
        names.PENDING_FOR: _fitting(chain.from_iterable(approvers)) or None,
    }


def updates(
    old: dict[str, Any], new: dict[str, Any], known: list[str]
) -> list[SearchAttributeUpdate[Any]]:
    """Return the changes to attributes of the namespace: an unknown one would fail the run."""
    return [
        _KEYS[name].value_unset() if value is None else _KEYS[name].value_set(value)
        for name, value in new.items()
        if name in known and old.get(name) != value
    ]


def continued_updates(known: list[str]) -> list[SearchAttributeUpdate[Any]]:
    """Return the changes for a history that the run leaves by continuing as new."""
    return updates({}, {names.AGENT_STATUS: names.CONTINUED}, known)


def _fitting(found: Iterable[str]) -> list[str]:
    """Return the distinct names, from the first, that fit."""
    fitting: list[str] = []
    for name in dict.fromkeys(found):
        if json_size([*fitting, name]) > MAX_LIST_BYTES:
            break
        fitting.append(name)
    return fitting
