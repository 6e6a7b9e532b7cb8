"""What was made of a value is made once, as long as there is room for it."""

from typing import Any

import pytest

from holdfast.providers.tool_schemas import MAX_CACHED_SCHEMAS, cached_by_value

made: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


def maker() -> Any:
    """A function of a schema that counts what it makes."""

    @cached_by_value
    def make(schema: Any, *, kind: str = "") -> list[Any]:
        made.append(schema)
        return [kind, schema]

    return make


def test_the_same_schema_gives_the_same_result_however_it_was_read() -> None:
    make = maker()
    assert make({"a": [1, None]}) is make({"a": [1, None]})
    assert len(made) == 1


@pytest.mark.parametrize("other", [{"b": 2, "a": 1}, {"a": 1, "b": 2.0}, {"a": 1, "b": "2"}, None])
def test_another_schema_gives_another_result(other: Any) -> None:
    make = maker()
    make({"a": 1, "b": 2})
    assert make(other) == ["", other]
    assert repr(make(other)) == repr(["", other]), "the order of its words is sent too"


def test_how_it_is_asked_for_counts() -> None:
    make = maker()
    assert make({}) != make({}, kind="other")


def test_what_was_not_asked_for_the_longest_makes_room() -> None:
    make = maker()
    for number in (*range(MAX_CACHED_SCHEMAS), 0, "new", 0, 1):
        make(number)
    assert made[MAX_CACHED_SCHEMAS:] == ["new", 1]
