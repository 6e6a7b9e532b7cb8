"""The text that follows the conversation, since it changes from turn to turn: the current state.

With instances, it is the shared state, and then the own state of each instance, with a fair share
of the room: the unused part of a share goes to larger ones.
"""

import json
from collections.abc import Mapping
from typing import Any

from holdfast.schemas.reference import Path
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING

MAX_STATE_CHARACTERS = 8_000
MAX_INSTANCES_CHARACTERS = 16_000
# A smaller share shows nothing useful: instances without a share are only counted.
MIN_SHARE_CHARACTERS = 100
MIN_VALUE_CHARACTERS = 20
MAX_VALUE_CHARACTERS = 200

_STATE = "The current state (†state), for your information:"
_FOR_ALL = "The current state (†state) of every instance, for your information:"
_OWN = "The state that each instance has of its own, over what every instance has:"


def tail(run_state: RunState, plan: str | None = None) -> str | None:
    """Return the text of the state and the plan, which follows the conversation; None if empty."""
    shared = shown_state(run_state)
    instances = run_state.data.instances()
    own = {name: state for name in instances if (state := shown_state(run_state, name))}
    notes = []
    if shared:
        heading = _FOR_ALL if instances else _STATE
        notes.append(f"{heading}\n{_within(shared, MAX_STATE_CHARACTERS)}")
    if own:
        notes.append(f"{_OWN}\n{_shares(own)}")
    if plan is not None:
        notes.append(plan)
    return "\n\n".join(notes) or None


def shown_state(run_state: RunState, instance: str | None = None) -> Any:
    """Return the shared state, or an instance's own, in the form for the model."""
    place = Path("state", (), instance)
    state = run_state.data.own_value(place.kind, instance)
    return None if state is MISSING or not state else run_state.redactions.redact(state, place)


def _shares(states: Mapping[str, Any]) -> str:
    most = MAX_INSTANCES_CHARACTERS // MIN_SHARE_CHARACTERS
    told = dict(list(states.items())[:most])
    share = _fair(sorted(len(_json(state)) for state in told.values()), MAX_INSTANCES_CHARACTERS)
    lines = [f"{name}: {_within(states[name], share)}" for name in told]
    more = len(states) - len(told)
    return "\n".join([*lines, *([f"(and {more} more instances)"] if more else [])])


def _fair(sizes: list[int], room: int) -> int:
    """Return the largest share of the room such that the smaller sizes fit whole.

    `sizes` are in ascending order.
    """
    for taken, size in enumerate(sizes):
        share = room // (len(sizes) - taken)
        if size > share:
            return share
        room -= size
    return sizes[-1]


def _within(state: Any, most: int) -> str:
    """Return the state in about `most` characters.

    It is whole, or has the beginning of each of its values.
    """
    whole = _json(state)
    if len(whole) <= most:
        return whole
    if isinstance(state, dict):
        room = max(MIN_VALUE_CHARACTERS, min(MAX_VALUE_CHARACTERS, most // len(state)))
        whole = _json({key: _beginning(value, room) for key, value in state.items()})
    return whole if len(whole) <= 2 * most else whole[:most] + " …"


def _beginning(value: Any, most: int) -> Any:
    text = _text(value)
    return value if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
