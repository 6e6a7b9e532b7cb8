r"""Search for untrusted regular expressions in time that grows with the text alone.

Python's own engine backtracks: `^(a+)+$` takes it years. RE2 does not. Its syntax differs a little
from that of JSON Schema (ECMA-262), so a pattern is translated here: `\d` and `\w` are ASCII, `\s`
is any white space, `$` is the end of the text alone, `.` matches no line break of any kind, and a
count may be more than a thousand.

RE2 has no lookahead and no lookbehind. JSON Schemas nearly always use them at the beginning or the
end of the whole text, where they mean no more than a second search: `^(?!x)y$` matches if `^y$`
does and `^x` does not. All other uses are rejected.
"""

import re
import string
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from holdfast.validation.problems import FixableError

MAX_PATTERN_CHARACTERS = 4_000
# About this many instructions of a compiled pattern, which takes twenty milliseconds.
MAX_PATTERN_STEPS = 60_000
MAX_GROUP_DEPTH = 50
MAX_KEPT_PATTERNS = 128
_MAX_PROGRAM_BYTES = 2 * 1024 * 1024
# RE2 accepts no larger count, and no nested counts with a larger product.
_MAX_COUNT = 1_000

# The approximate instructions of each: a character beyond ASCII, a class of all but a few, a class
# by a property of Unicode.
_BEYOND_STEPS = 4
_WIDE_STEPS = 24
_PROPERTY_STEPS = 1_200

_COUNT = re.compile(r"\{([0-9]{1,6})(,?)([0-9]{0,6})\}")
_CODE = re.compile(
    r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|c([A-Za-z])|0(?![0-9])"
)
_LOW_HALF = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PROPERTY = re.compile(r"[pP]\{(?:(?:Script|sc|General_Category|gc)=)?([A-Za-z_]{1,40})\}")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w{0,99}>|(?!\?))")
_LOOK = re.compile(r"\(\?(=|!|<=|<!)")
_FLAG = re.compile(r"\(\?i(\)|:)")
_SINGLE = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_SPACE = r"\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
_NO_SPACE = (
    r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}"
    r"\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"
)
_CLASSES = {
    "d": (r"\d", 4),
    "D": (r"\D", _WIDE_STEPS),
    "w": (r"\w", 4),
    "W": (r"\W", _WIDE_STEPS),
    "s": (_SPACE, _WIDE_STEPS),
    "S": (_NO_SPACE, _WIDE_STEPS),
}
_ANY = r"[^\n\r\x{2028}\x{2029}]"
# Those long names of Unicode's categories that are in use.
_CATEGORIES = {
    "Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Mark": "M",
    "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Punctuation": "P", "punct": "P",
    "Separator": "Z", "Space_Separator": "Zs", "Symbol": "S", "Control": "Cc", "Format": "Cf",
}  # fmt: skip


class PatternRefused(FixableError):
    """A pattern that is rejected; `fix` is the text to write instead."""


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern; `steps` is the approximate work of a search for each character."""

    wanted: tuple[Any, ...]
    unwanted: tuple[Any, ...]
    steps: int

    def is_in(self, text: str) -> bool:
        """Return whether the text contains a match."""
        # Only a Python text can have halves of surrogate pairs.
        data = text.encode("utf-8", "replace")
        return all(one.search(data) for one in self.wanted) and not any(
            one.search(data) for one in self.unwanted
        )


@lru_cache(maxsize=MAX_KEPT_PATTERNS)
def pattern(written: str) -> Pattern:
    """Return the compiled pattern.

    Raises:
        PatternRefused: the text is not a pattern, or not a supported one.
    """
    if len(written) > MAX_PATTERN_CHARACTERS:
        reason = f"a pattern has {len(written)} characters"
        raise PatternRefused(reason, f"at most {MAX_PATTERN_CHARACTERS}")
    reading = _Reading(written)
    looks = [(is_wanted, _compiled(text)) for is_wanted, text in reading.searches]
    wanted = tuple(compiled for is_wanted, compiled in looks if is_wanted)
    unwanted = tuple(compiled for is_wanted, compiled in looks if not is_wanted)
    return Pattern(wanted, unwanted, reading.steps)


def steps_of(written: str) -> int:
    """Return the work of a search for each character of a text; a rejected pattern has none."""
    try:
        return _Reading(written[:MAX_PATTERN_CHARACTERS]).steps
    except PatternRefused:
        return 0


def _compiled(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_PROGRAM_BYTES
    try:
        return re2.compile(text, options)
    except re2.error as error:
        [message] = error.args
        why = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise PatternRefused(f"it is no regular expression: {why[:200]}", "fix it") from None


@dataclass
class _Atom:
    """A part that a count can follow, its instructions, and the repetitions of a part within it."""

    text: str
    steps: int
    counted: bool = False
    repeats: int = 1


class _Reading:
    """One pass over a pattern.

    `searches` are the patterns to search for, lookarounds at the ends of the text among them: true
    for one that must match, and its text.
    """

    def __init__(self, written: str) -> None:
        self._text = written
        self._at = 0
        self.searches: list[tuple[bool, str]] = []
        self.steps = 0
        begins = self._takes("^")
        while begins and (look := _LOOK.match(self._text, self._at)) and len(look[1]) == 1:
            self._at = look.end()
            self.searches.append((look[1] == "=", f"^(?:{self._inner()})"))
        body: list[_Atom] = []
        while self._at < len(self._text):
            look = _LOOK.match(self._text, self._at)
            if look is None:
                self._atom(body, 0)
                continue
            self._at = look.end()
            inner = self._inner()
            # A lookaround at the end is before a last `$`.
            if len(look[1]) == 1 or self._text[self._at :] != "$":
                raise self._no_looking()
            self.searches.append((look[1] == "<=", f"(?:{inner})$"))
        text = ("^" if begins else "") + "".join(atom.text for atom in body)
        if self.searches and any(atom.text == "|" for atom in body):
            raise self._no_looking()
        self._count(sum(atom.steps for atom in body))
        self.searches.insert(0, (True, text))

    def _inner(self) -> str:
        """Return the pattern of a lookaround whose group has started; its steps are counted."""
        atoms = self._group(1)
        self._count(sum(atom.steps for atom in atoms))
        return "".join(atom.text for atom in atoms)

    def _group(self, depth: int) -> list[_Atom]:
        if depth > MAX_GROUP_DEPTH:
            fix = f"at most {MAX_GROUP_DEPTH} groups within each other"
            raise PatternRefused("a pattern is nested too deep", fix)
        atoms: list[_Atom] = []
        while not self._takes(")"):
            if self._at >= len(self._text):
                fix = "write `)`, or `\\(` for the character"
                raise PatternRefused("a group is not closed", fix)
            self._atom(atoms, depth)
        return atoms

    def _atom(self, atoms: list[_Atom], depth: int) -> None:
        mark = self._text[self._at]
        if mark in "*+?" or (mark == "{" and _COUNT.match(self._text, self._at)):
            self._repeat(atoms)
            return
        if mark == "(":
            atoms.append(self._opened(depth + 1))
            return
        self._at += 1
        match mark:
            case "^" | "$" | "|":
                atoms.append(_Atom(mark, 1))
            case ".":
                atoms.append(_Atom(_ANY, _WIDE_STEPS))
            case "[":
                atoms.append(self._class())
            case "\\":
                atoms.append(self._escape())
            case ")":
                raise PatternRefused("a group is closed that was not opened", "write `\\)`")
            case _:
                atoms.append(_character(mark))

    def _opened(self, depth: int) -> _Atom:
        start, weight = "(?:", 1
        if flag := _FLAG.match(self._text, self._at):
            self._at = flag.end()
            if flag[1] == ")":
                return _Atom("(?i)", 1)
            start, weight = "(?i:", 2
        elif group := _GROUP.match(self._text, self._at):
            self._at = group.end()
        elif _LOOK.match(self._text, self._at):
            raise self._no_looking()
        else:
            opening = self._text[self._at : self._at + 4]
            raise PatternRefused(f"`{opening}` is not known here", "write `(?:…)` for a group")
        atoms = self._group(depth)
        steps = sum(atom.steps for atom in atoms) + 1
        text = f"{start}{''.join(atom.text for atom in atoms)})"
        repeats = max((atom.repeats for atom in atoms), default=1)
        return _Atom(text, weight * steps, repeats=repeats)

    def _repeat(self, atoms: list[_Atom]) -> None:
        if not atoms or atoms[-1].text == "|":
            raise PatternRefused("there is nothing to repeat", "write `\\` before the character")
        atom = atoms[-1]
        count = _COUNT.match(self._text, self._at)
        if atom.counted:
            # `a+?` matches the same texts as `a+`, and only the existence of a match is of
            # interest.
            if not self._takes("?"):
                raise PatternRefused("a count is counted", "put what is repeated in `(?:…)`")
            atom.counted = False
            return
        atom.counted = True
        if count is None:
            atom.text += self._text[self._at]
            self._at += 1
            return
        self._at = count.end()
        least, comma, most = count.groups()
        low = int(least)
        high = low if not comma else int(most) if most else None
        if high is not None and high < low:
            raise PatternRefused(f"a count goes from {low} to {high}", "write the lesser one first")
        repeats = max(low, high or 0, 1)
        atom.steps *= repeats
        self._check(atom.steps)
        at_once = _MAX_COUNT // atom.repeats
        beyond = f"{atom.text}*" if high is None else _times(atom.text, "0,", high - low, at_once)
        atom.text = f"(?:{_times(atom.text, '', low, at_once)}{beyond})"
        atom.repeats *= min(repeats, at_once)

    def _class(self) -> _Atom:
        parts, steps = ["["], 1
        if self._takes("^"):
            parts, steps = ["[^"], _WIDE_STEPS
        if self._text[self._at : self._at + 1] == "]":
            raise PatternRefused("a class of characters is empty", "write `\\]` for the bracket")
        while not self._takes("]"):
            first = self._member()
            parts.append(first.text)
            steps += first.steps
            ahead = self._text[self._at : self._at + 2]
            if not first.counted and ahead[:1] == "-" and ahead[1:] not in ("", "]"):
                self._at += 1
                last = self._member()
                parts.append(f"\\-{last.text}" if last.counted else f"-{last.text}")
                steps += 0 if last.steps == 1 else 2 * last.steps
        return _Atom("".join([*parts, "]"]), steps)

    def _member(self) -> _Atom:
        """Return one member of a class; `counted` marks what is more than one character."""
        if self._at >= len(self._text):
            fix = "write `]`, or `\\[` for the character"
            raise PatternRefused("a class of characters is not closed", fix)
        mark = self._text[self._at]
        self._at += 1
        if mark != "\\":
            return _character(mark)
        return _character("\b") if self._takes("b") else self._escape(in_class=True)

    def _escape(self, *, in_class: bool = False) -> _Atom:
        rest = self._text[self._at : self._at + 60]
        if code := _CODE.match(rest):
            self._at += code.end()
            return _Atom(f"\\x{{{self._number(code):x}}}", _BEYOND_STEPS)
        if named := _PROPERTY.match(rest):
            self._at += named.end()
            name = _CATEGORIES.get(named[1], named[1])
            return _Atom(f"\\{rest[0]}{{{name}}}", _PROPERTY_STEPS, in_class)
        mark, self._at = rest[:1], self._at + 1
        if mark in _SINGLE:
            return _character(_SINGLE[mark])
        if mark in _CLASSES:
            text, steps = _CLASSES[mark]
            return _Atom(text if in_class else f"[{text}]", steps, in_class)
        if not in_class and mark and mark in "bBAZz":
            # Python's `\Z` is `\z` in other languages.
            return _Atom("\\z" if mark == "Z" else f"\\{mark}", 1)
        if mark and mark in "123456789k":
            raise PatternRefused("it refers back to a group", "repeat the pattern of the group")
        if not mark or (mark.isalnum() and mark.isascii()):
            raise PatternRefused(f"`\\{mark}` is not known here", "leave the backslash out")
        return _character(mark)

    def _number(self, code: re.Match[str]) -> int:
        """Return the number of a character; two halves of a surrogate pair are joined."""
        if code[4]:
            return ord(code[4]) % 32
        number = int(code[1] or code[2] or code[3] or "0", 16)
        low = _LOW_HALF.match(self._text, self._at) if 0xD800 <= number < 0xDC00 else None
        if low is None:
            return number
        self._at = low.end()
        return 0x10000 + ((number - 0xD800) << 10) + int(low[1], 16) - 0xDC00

    def _takes(self, mark: str) -> bool:
        taken = self._text.startswith(mark, self._at)
        self._at += len(mark) if taken else 0
        return taken

    def _count(self, steps: int) -> None:
        self.steps += steps
        self._check(self.steps)

    def _check(self, steps: int) -> None:
        if steps > MAX_PATTERN_STEPS:
            fix = "use smaller counts, or `minLength` and `maxLength`"
            raise PatternRefused("a pattern takes too much work to search for", fix)

    def _no_looking(self) -> PatternRefused:
        fix = (
            "it may do so right after `^` or right before `$`; else write"
            ' `{"not": {"pattern": …}}`, or a second `pattern` in `allOf`'
        )
        return PatternRefused("a pattern looks ahead or behind in the middle of a text", fix)


def _character(mark: str) -> _Atom:
    if 0xD800 <= ord(mark) < 0xE000:
        raise PatternRefused("a pattern holds half a character", "leave it out")
    if mark in string.ascii_letters + string.digits or mark > "\x7f":
        return _Atom(mark, _BEYOND_STEPS if mark > "\x7f" else 1)
    return _Atom(f"\\x{{{ord(mark):x}}}", 1)


def _times(one: str, least: str, times: int, at_once: int) -> str:
    """Return the part repeated; repetitions beyond `least` are optional."""
    whole, rest = divmod(times, at_once)
    return f"{one}{{{least}{at_once}}}" * whole + (f"{one}{{{least}{rest}}}" if rest else "")
