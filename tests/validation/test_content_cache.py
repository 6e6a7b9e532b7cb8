"""Results that are kept by the content of what they are made of."""

from threading import Thread
from typing import Any

import pytest

from holdfast.validation.content_cache import ContentCache, cached_by_content, content_of


def maker(cache: ContentCache) -> tuple[Any, list[Any]]:
    """Return a function of a schema, and the list of what it has made."""
    made: list[Any] = []

    def make(schema: Any, *, kind: str = "") -> list[Any]:
        made.append(schema)
        return [kind, schema]

    return cached_by_content(make, cache), made


@pytest.mark.parametrize(
    "other",
    [{"b": 2, "a": 1}, {"a": 1, "b": 2.0}, {"a": 1, "b": "2"}, {"a": "\ud800"}, None],
    ids=["order", "float", "text", "half a character", "none"],
)
def test_the_same_content_is_made_once_and_another_one_again(other: Any) -> None:
    make, made = maker(ContentCache())
    assert make({"a": 1, "b": 2}) is make({"a": 1, "b": 2})
    assert len(made) == 1
    assert make(other) == ["", other]
    assert repr(make(other)) == repr(["", other]), "a provider is sent the order, too"
    assert make({}) != make({}, kind="other")


def test_a_result_does_not_change_with_the_value_that_it_was_made_of() -> None:
    make, _ = maker(ContentCache())
    schema = {"a": [1]}
    result = make(schema)
    schema["a"].append(2)
    assert result == ["", {"a": [1]}] == make({"a": [1]})


@pytest.mark.parametrize("cache", [ContentCache(max_results=2), ContentCache(max_bytes=20)])
def test_what_was_not_used_for_longest_makes_room(cache: ContentCache) -> None:
    made = list[int]()
    for number in (1, 2, 1, 3, 1, 2):
        cache.get(b"%010d" % number, lambda number=number: made.append(number))  # type: ignore[misc]
    assert made == [1, 2, 3, 2]


def test_an_error_is_not_kept() -> None:
    cache = ContentCache()
    with pytest.raises(ZeroDivisionError):
        cache.get(b"key", lambda: 1 // 0)
    assert cache.get(b"key", lambda: 1) == 1


def test_threads_share_it() -> None:
    cache, found = ContentCache(max_results=3), list[bool]()

    def use() -> None:
        for number in range(2_000):
            key = number % 7
            found.append(cache.get(content_of(key), lambda key=key: key) == key)  # type: ignore[misc]

    threads = [Thread(target=use) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8_000
    assert all(found)
