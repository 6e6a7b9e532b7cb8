"""What strangers wrote is printed so that no terminal obeys it, and so that people can read it."""

import json
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime import text_safety


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice control\x1b\\after", "after"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x1b\x1b[2Jtwice", "twice"),
        ("back\x08\x08\x08over", "backover"),
        ("line\rhidden", "line\nhidden"),
        ("amount \u202e001\u202c", "amount 001"),
        ("in\u200bvisible\U000e0041", "invisible"),
        ("half \ud800 a character", "half  a character"),
        ("tab\tand\nline stay", "tab\tand\nline stay"),
        ("[bold]no markup[/bold] 漢字 é 👩‍💻", "[bold]no markup[/bold] 漢字 é 👩‍💻"),
    ],
)
def test_escape_sequences_and_hidden_characters_are_removed(written: str, printed: str) -> None:
    assert text_safety.clean(written) == printed


_STRINGS = [*"\x90\x98\x9d\x9e\x9f", *(f"\x1b{kind}" for kind in "]PX^_")]


@pytest.mark.parametrize("outer", _STRINGS)
def test_no_sequence_contains_the_opener_of_another(outer: str) -> None:
    """Else each of many openers would read thousands of characters again."""
    for inner in (*_STRINGS, "\x1b[", "\x1b"):
        assert text_safety.clean(f"{outer}a{inner}b\x9cc").startswith("a")
    assert text_safety.clean(f"{outer}{'a' * 4_096}\x9cb") == "b"


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_no_control_character_is_left_in_any_text(written: str) -> None:
    left = {
        char for char in text_safety.clean(written) if unicodedata.category(char) in ("Cc", "Cs")
    }

    assert left <= {"\n", "\t"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(st.characters(exclude_categories=[])), st.lists
    )
)
def test_json_is_safe_to_print_and_still_the_same_value(value: object) -> None:
    written = text_safety.as_json(value)

    assert text_safety.clean(written) == written
    assert json.loads(written) == value


@pytest.mark.parametrize(
    ("written", "name", "label"),
    [
        ("ann@shop.example", "ann@shop.example", "ann@shop.example"),
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z", '"2026-01-02T03:04:05.678Z"'),
        ("Ann\x1b[2J Lee", '"Ann Lee"', "Ann Lee"),
        ("you", '"you"', "you"),
        ("ann (signed)", '"ann (signed)"', '"ann (signed)"'),
        ('a"b', '"a\\"b"', '"a\\"b"'),
    ],
)
def test_a_name_and_a_label_are_quoted_where_they_could_pass_for_more_words(
    written: str, name: str, label: str
) -> None:
    assert text_safety.name_in_line(written, 80) == name
    assert text_safety.label_in_line(written, 80) == label


def test_a_long_text_is_marked_as_shortened() -> None:
    assert text_safety.one_line("one\n  two\x1b[1m three", 40) == "one two three"
    assert text_safety.one_line("a" * 50, 10) == "aaaaaaaaa…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("A-1001", "A-1001"),
        ("00123", "00123"),
        ("123", '"123"'),
        ("true", '"true"'),
        (" padded", '" padded"'),
        ("", '""'),
        (123, "123"),
        (None, "null"),
        (["a", 1], '["a", 1]'),
        ("two\nlines\n", "two\nlines\n"),
        ("[" * 9_999, f'"{"[" * 9_999}"'),
    ],
)
def test_an_argument_shows_its_type_where_it_could_be_mistaken(value: object, shown: str) -> None:
    assert text_safety.format_argument(value) == shown


def test_arguments_in_one_line_are_separated_and_bounded() -> None:
    assert text_safety.arguments_line({"id": "A-1", "n": 2}) == 'id="A-1" n=2'
    assert len(text_safety.arguments_line({str(n): "x" * 500 for n in range(100)})) <= 200
    assert text_safety.arguments_line(None) == ""
    assert text_safety.arguments_line("{broken") == '"{broken"'


def test_a_command_can_be_copied_into_a_shell() -> None:
    assert (
        text_safety.holdfast_command("watch", "my run; rm -rf /")
        == "holdfast watch 'my run; rm -rf /'"
    )


def test_times_are_in_utc_and_a_bad_one_is_no_error() -> None:
    hours_ago = datetime.now(UTC) - timedelta(hours=3)

    assert text_safety.format_age(hours_ago.isoformat()) == "3 h"
    assert text_safety.format_clock("2026-03-01T14:03:07+01:00") == "13:03:07"
    assert text_safety.format_date("2026-03-01T00:03:07+01:00") == "2026-02-28 23:03 UTC"
    assert text_safety.format_date("2026-03-01T14:03:07Z", seconds=True) == (
        "2026-03-01 14:03:07 UTC"
    )
    assert text_safety.format_date("nonsense") == "-"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("invalid_arguments: `a` is missing", "`a` is missing"),
        ("`a` is missing", "`a` is missing"),
        ("invalid_argumentsX: y", "invalid_argumentsX: y"),
    ],
)
def test_a_code_is_not_written_twice(message: str, shown: str) -> None:
    assert text_safety.message_after_code("invalid_arguments", message) == shown
