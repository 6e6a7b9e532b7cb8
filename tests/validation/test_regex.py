"""Strangers' regular expressions (§2): found as ECMA-262 has it, in no time, or refused."""

import pytest

from holdfast.validation.regex import (
    MAX_GROUP_DEPTH,
    MAX_PATTERN_CHARACTERS,
    PatternRefused,
    pattern,
)

# A pattern, texts that it is found in, and texts that it is not found in.
DIALECT: list[tuple[str, list[str], list[str]]] = [
    ("b", ["abc"], ["ac"]),
    ("^a+$", ["aa"], ["", "aab", "aa\n"]),
    (r"^\d+$", ["12"], ["١"]),
    (r"^\w$", ["a", "_"], ["é", "-"]),
    (r"^\s$", [" ", "\v", "\u00a0", "\ufeff", "\u3000"], ["a"]),
    (r"^\S$", ["a", "é"], ["\u2003"]),
    (r"^[\S]$", ["a"], ["\u2003"]),
    (r"^[^\s]$", ["a"], ["\u2003"]),
    ("^.$", ["é", "😀"], ["\n", "\r", "\u2028"]),
    (r"^\p{L}+$", ["école"], ["a1"]),
    (r"^\p{Letter}$", ["é"], ["1"]),
    (r"^\P{Lu}$", ["a"], ["A"]),
    (r"^\p{Script=Greek}$", ["λ"], ["l"]),
    (r"^\u0041\x42\u{43}\cJ$", ["ABC\n"], ["ABC"]),
    (r"^\ud83d\ude00$", ["😀"], ["?"]),
    ("^😀?$", ["", "😀"], ["😀😀"]),
    (r"^[\u0020-\uD7FF\uE000-\uFFFD\r\n\t]*$", ["a é\n"], ["\0"]),
    (r"^[a\]\-/.]+$", ["a]-/."], ["b"]),
    (r"^[a-z\d-]+$", ["a-1"], ["A"]),
    (r"^[\d-x]+$", ["1-x"], ["a"]),
    (r"^[a-\d]+$", ["a-1"], ["b"]),
    (r"^[[:alpha:]]$", ["a]", ":]"], ["b]"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^a\.b\/c\-d$", ["a.b/c-d"], ["axb/c-d"]),
    (r"^(?<year>[0-9]{4})-(?P<month>[0-9]{2})$", ["2026-03"], ["26-03"]),
    ("^(?i)straße$", ["STRAße"], ["strase"]),
    ("^(?i:a)b$", ["Ab"], ["AB"]),
    ("^a+?b*?$", ["aab"], ["c"]),
    ("^a{2}b{1,}c{0,2}$", ["aabcc"], ["abc", "aabccc"]),
    ("^a{0}b$", ["b"], ["ab"]),
    ("a{,3}", ["a{,3}"], ["aaa"]),
    ("^x{y}$", ["x{y}"], ["xy"]),
    ("^.{1,2048}$", ["a" * 2048], ["a" * 2049, ""]),
    ("^a{1500,}$", ["a" * 1500], ["a" * 1499]),
    (r"^([a-z0-9-]{1,63}\.){1,127}org$", ["a." * 127 + "org"], ["a." * 128 + "org"]),
    ("^(a|b)|c$", ["ax", "xc"], ["xa"]),
    (r"^a\Z", ["a"], ["a\n"]),
    (r"\bcat\b", ["a cat"], ["cats"]),
    # What looks ahead from the beginning of the text, or behind from its end.
    (r"^(?!\s*$).+", ["a"], ["", "  "]),
    (r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$", ["Abcdefg1"], ["abcdefg1", "Abcdefgh", "Ab1"]),
    (r"^(?!\s+).+(?<!\s)$", ["a b"], [" a", "a "]),
    (r"^x.*(?<=\.json)$", ["x.json"], ["x.yaml"]),
    ("^(?!a|b)[a-z]$", ["c"], ["a", "b"]),
]


@pytest.mark.parametrize(("written", "inside", "outside"), DIALECT, ids=lambda value: repr(value))
def test_a_pattern_is_found_as_json_schema_has_it(
    written: str, inside: list[str], outside: list[str]
) -> None:
    made = pattern(written)
    assert [text for text in inside if not made.is_in(text)] == []
    assert [text for text in outside if made.is_in(text)] == []


def test_half_a_character_is_no_letter_of_a_text() -> None:
    assert not pattern(r"\p{L}").is_in("\ud800")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("a(?=b)c", "looks ahead or behind in the middle"),
        ("(?!a)b", "looks ahead or behind in the middle"),
        ("(?<=a)b", "looks ahead or behind in the middle"),
        ("^(?:(?!a)b)$", "looks ahead or behind in the middle"),
        ("^(?!a)b|c", "looks ahead or behind in the middle"),
        ("a(?<!b)$c", "looks ahead or behind in the middle"),
        (r"(a)\1", "refers back"),
        (r"(?<n>a)\k<n>", "refers back"),
        ("(?P=a)", "not known here"),
        ("(?>a)", "not known here"),
        ("(?s).", "not known here"),
        (r"\q", "not known here"),
        ("\\", "not known here"),
        ("[", "not closed"),
        ("[a-", "not closed"),
        ("(", "not closed"),
        ("^(?!", "not closed"),
        (")", "was not opened"),
        ("[]a]", "is empty"),
        ("[z-a]", "invalid character class range"),
        (r"\p{Nonsense}", "invalid character class range"),
        ("*", "nothing to repeat"),
        ("a|*", "nothing to repeat"),
        ("a**", "is counted"),
        ("a{2}{3}", "is counted"),
        ("a{3,2}", "goes from 3 to 2"),
        ("\ud800", "half a character"),
        ("a{99999}", "too much work to search for"),
        (r"\p{L}{100}", "too much work to search for"),
        ("(?:a{1000}){100}", "too much work to search for"),
        ("^(?!" + "a{999}" * 61 + ")", "too much work to search for"),
        ("(" * (MAX_GROUP_DEPTH + 1) + ")" * (MAX_GROUP_DEPTH + 1), "too deep"),
        ("a" * (MAX_PATTERN_CHARACTERS + 1), "4001 characters"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_unsupported_pattern_is_refused_with_the_fix(written: str, why: str) -> None:
    for _ in range(2):  # the second time from what is remembered
        with pytest.raises(PatternRefused, match=why) as refused:
            pattern(written)
    assert refused.value.fix


@pytest.mark.parametrize(
    "written", ["^(a+)+$", "^(a|aa)+$", "(a*)*b", "(x+x+)+y", "a[ab]{400}c", "(?:a?){500}a{500}b"]
)
def test_what_takes_others_years_takes_no_time(written: str) -> None:
    text = "a" * 20_000 + "x"
    assert not pattern(written).is_in(text)
