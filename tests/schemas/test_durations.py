"""Durations as texts: what is read is written as a text that can be read."""

import pytest

from holdfast.schemas.base import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1ms", "1ms"),
        ("0.001s", "1ms"),
        ("0.5ms0.5ms", "1ms"),
        ("1h30m", "90m"),
        ("3650d", "3650d"),
    ],
)
def test_a_duration_that_is_read_can_be_written_and_read_again(text: str, written: str) -> None:
    assert format_duration(parse_duration(text)) == written
    assert parse_duration(written) == parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0.4ms", "0.9ms", "3651d"])
def test_a_duration_has_at_least_a_millisecond_and_at_most_ten_years(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is at least 1ms and at most 3650d"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "5", "5 s", "-5s", "5s\n", "٥s", "5S", "1_0s", 5, None])
def test_another_text_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="a duration is a number and a unit"):
        parse_duration(text)
