"""Instances (§8): each sees what is for all and, over it, its own; and never another's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.reference import Path, parse_reference
from holdfast.schemas.tool import OutputMethod
from holdfast.workflows.engine.state.data import MISSING, CannotWrite, Data


def place(text: str, instance: str | None = None) -> Path:
    reference = parse_reference("†" + text)
    assert reference is not None
    return reference.paths[0].within(instance)


def write(data: Data, path: Path, method: OutputMethod, value: Any) -> None:
    data.set(path.kind, data.value_after_write(path, method, value), path.instance)


SHARED: dict[str, Any] = {
    "tone": "kind",
    "seen": [1, 2],
    "order": {"id": 7, "lines": [{"sku": "x"}]},
    "none": None,
}


def run_of(*instances: str, state: Any = SHARED) -> Data:
    """A state for all, and instances that have nothing of their own in it yet."""
    data = Data()
    data.set("state", state)
    for name in instances:
        data.set("input", name, name)
    return data


# Names of places.


def test_a_place_in_an_instance_is_written_as_any_other() -> None:
    assert str(place("state.a[0]", "one")) == "†state.a[0]"
    assert place("state.a", "one").within(None) == place("state.a")
    assert place("state.a", "one") != place("state.a", "two")


@pytest.mark.parametrize(
    ("one", "other", "covers", "overlaps"),
    [
        (place("state.a"), place("state.a"), True, True),
        (place("state"), place("state.a"), True, True),
        (place("state.a"), place("state.a[0].b"), True, True),
        (place("state.a.b"), place("state.a"), False, True),
        (place("state.a"), place("state.b"), False, False),
        (place("state.a"), place("state.ab"), False, False),
        (place("state.a[1]"), place("state.a[10]"), False, False),
        (place("state.a"), place("notes.a"), False, False),
        (place("state.a", "x"), place("state.a.b", "x"), True, True),
        (place("state.a", "x"), place("state.a", "y"), False, False),
        (place("state.a"), place("state.a", "y"), False, False),
    ],
)
def test_a_place_covers_what_is_inside_it(
    one: Path, other: Path, covers: bool, overlaps: bool
) -> None:
    assert one.covers(other) is covers
    assert one.overlaps(other) is overlaps
    assert other.overlaps(one) is overlaps


# What an instance sees.


def test_what_an_instance_set_is_never_mixed_with_what_is_for_all() -> None:
    data = run_of("one")
    write(data, place("state.order", "one"), "set", {"n": 1})
    write(data, place("state"), "merge", {"order": {"paid": True}})

    assert data.read(place("state.order", "one")) == {"n": 1}
    assert data.read(place("state.order.paid", "one")) is MISSING

    write(data, place("state.order", "one"), "set", None)
    write(data, place("state.order.m", "one"), "set", 2)
    assert data.read(place("state.order", "one")) == {"m": 2}


def test_what_is_an_instances_own_are_the_keys_that_it_wrote() -> None:
    data = run_of("one", "two")
    write(data, place("state.order", "one"), "merge", {"n": 1})
    write(data, place("state.verdict", "one"), "set", "ok")

    assert data.own_value("state", "one") == {"order": {**SHARED["order"], "n": 1}, "verdict": "ok"}
    assert data.own_value("state", "two") is MISSING
    assert data.own_values("state") == {"one": data.own_value("state", "one"), "two": {}}
    assert data.own_value("state") == SHARED


def test_instances_come_in_the_order_in_which_they_were_named() -> None:
    data = run_of("b", "a", "c")
    write(data, place("state.x", "a"), "set", 1)

    assert data.instances == ["b", "a", "c"]
    assert data.copy().instances == ["b", "a", "c"]
    assert Data().instances == []


# Whatever is written.

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
NAMES = ["one", "two", "three"]
STATES = st.dictionaries(KEYS, VALUES, max_size=3)
WRITES = st.lists(
    st.tuples(
        st.sampled_from([None, *NAMES]),
        st.lists(KEYS, max_size=2) | st.lists(KEYS | st.integers(0, 2), max_size=3),
        st.sampled_from(["set", "merge", "assign", "push", "concat"]),
        VALUES,
    ),
    max_size=12,
)


def tried(data: Data, path: Path, method: Any, value: Any) -> bool:
    try:
        write(data, path, method, value)
    except CannotWrite:
        return False
    return True


def plain(value: Any) -> Data:
    """The same value in a run that has no instances."""
    data = Data()
    if value is not MISSING:
        data.set("state", value)
    return data


@given(STATES, WRITES)
def test_whatever_is_written_in_one_instance_no_other_sees(state: Any, writes: Any) -> None:
    data = run_of(*NAMES, state=state)
    for instance, steps, method, value in writes:
        others = [name for name in (None, *NAMES) if name != instance]
        before = {name: data.read(place("state", name)) for name in others}
        tried(data, Path("state", tuple(steps), instance), method, value)
        if instance is not None:
            assert {name: data.read(place("state", name)) for name in others} == before


@given(STATES, WRITES)
def test_an_instance_reads_after_each_of_its_writes_what_a_run_of_its_own_would(
    state: Any, writes: Any
) -> None:
    data = run_of(*NAMES, state=state)
    for instance, steps, method, value in writes:
        alone = plain(data.read(place("state", instance)))
        path = Path("state", tuple(steps))
        fits = tried(data, path.within(instance), method, value)

        assert fits is tried(alone, path, method, value)
        assert data.read(place("state", instance)) == alone.read(place("state"))
        assert data.read(path.within(instance)) == alone.read(path)
