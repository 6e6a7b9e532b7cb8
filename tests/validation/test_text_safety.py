"""Names: which of them are those of one person."""

import sys
import unicodedata

import pytest

from holdfast.validation.text_safety import is_same_person, plain_name

MARKS = [
    *("\ufe0f", "\u034f", "\u3164", "\uffa0", "\u1160", "\u115f", "\u17b4", "\u180b", "\U000e01ef"),
    *("\u2800", "\u200d", "\ufeff", "\u00ad", "\u202e", "\x00", "\x07", "\x7f", "\U000e0061"),
    *("\u200b", "\u2060", "\u2065", "\ue000", "\ud800", "\u061c", "\u180e", "\ufff9", "\U0001d173"),
]


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: f"U+{ord(mark):04X}")
def test_a_character_that_is_not_seen_makes_no_other_person(mark: str) -> None:
    assert is_same_person(f"Ada{mark}", "ada")
    assert is_same_person(f"{mark}a{mark}da", "ada")
    assert plain_name(mark * 3) == ""
    assert not is_same_person(mark, mark), "it names no one"


def test_no_control_or_format_character_makes_another_person() -> None:
    controls = [
        char
        for char in map(chr, range(sys.maxunicode))
        if unicodedata.category(char) in ("Cc", "Cf")
    ]
    others = [char for char in controls if not is_same_person(f"ada{char}b", "adab")]
    assert others == ["\t", "\n"], "these part two words"


@pytest.mark.parametrize("other", ["ad\u00e1", "\u0430da", "ad a", "adb", "ada.", None, ""])
def test_what_a_person_sees_makes_another_one(other: str | None) -> None:
    assert not is_same_person("ada", other)
