"""The names of tools as providers accept them, and back."""

import pytest

from holdfast.providers.base import ToolNames, tool_names
from tests.providers.fakes import ask


def names(*of: str) -> ToolNames:
    tools = [{"name": name, "description": "", "parameters": {}} for name in of]
    return tool_names(ask(tools=tools).tools)


@pytest.mark.parametrize("name", ["rag.query", "a" * 100, "naïve", "", "x y", "\ud83d"])
def test_a_name_that_no_provider_takes_is_mapped_there_and_back(name: str) -> None:
    mapped = names(name).to_provider(name)
    assert mapped.isascii()
    assert 0 < len(mapped) <= 64
    assert all(character.isalnum() or character in "_-" for character in mapped)
    assert names(name).from_provider(mapped) == name


def test_names_stay_apart_and_good_ones_stay_as_they_are() -> None:
    all_names = ["a.b", "a_b", "a-b", "a..b", "c.d", "x" * 64, "x" * 65, "x" * 66]
    made = names(*all_names)
    mapped = [made.to_provider(name) for name in all_names]
    assert len(set(mapped)) == len(all_names)
    assert [made.from_provider(name) for name in mapped] == all_names
    assert mapped[1:3] == ["a_b", "a-b"]
    assert mapped[4] == "c_d"
    assert made.clashes == ("a.b",)
