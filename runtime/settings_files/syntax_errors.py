"""Explain in plain words why a text is not valid JSON or YAML.

A parser reports what it expected next. These messages report what was found, and what to write.
"""

import json
import re

import yaml

from holdfast.runtime.settings_files.file_problems import UnreadableError

_PYTHON = {"True": "true", "False": "false", "None": "null"}
# By the beginning of the message of Python's parser: the reason and the fix.
_JSON = (
    ("Expecting property name", "a key is missing", 'a key is a text in double quotes: "name"'),
    ("Expecting ',' delimiter", "a comma is missing", "put one before this"),
    ("Expecting ':' delimiter", "a colon is missing", "put one between the key and its value"),
    ("Expecting value", "a value is missing", "write one; a text is in double quotes"),
    ("Extra data", "there is more text after its end", "keep one value to a file"),
    ("Unterminated string", "a text is never closed", 'close it with `"`'),
    ("Invalid control character", "a line ends within a text", r"write `\n` for a new line"),
    ("Invalid \\", "a backslash begins no escape", r"write `\\` for a backslash"),
)
# By PyYAML's message. `{0}` is what it found, `{opened}` the line of the unclosed item.
_YAML = (
    (r"character '\\t'", "a tab is where spaces belong", "indent with spaces"),
    (r"character ['\"](.)['\"]", "a text cannot begin with {0}", "put it in quotes"),
    (
        r"mapping values are not allowed",
        "a colon is where no value can begin",
        "put a text that holds a colon in quotes, or fix the indentation",
    ),
    (r"expected ':'", "a key has no colon", "write `key: value`, with a space between"),
    (
        r"expected <block end>",
        "this does not line up with what is above it",
        "indent it like its neighbours, or put the whole text in quotes",
    ),
    (r"'(.)', but got '<stream end>'", "the bracket of line {opened} is never closed", "add `{0}`"),
    (r"expected ',' or '(.)'", "a comma or `{0}` is missing", "put it before this"),
    (r"unexpected end of stream", "the quotes of line {opened} are never closed", "close them"),
    (r"undefined alias '(.*)'", "`*{0}` is not defined", "put a text that begins so in quotes"),
    (r"another document", "a second document begins here", "keep one to a file"),
    (r"sequence entries are not", "a list cannot begin here", "begin it on a line of its own"),
    (r"expected the node content", "a value is missing", "write one"),
    (r"unknown escape character '(.)'", r"`\{0}` is no escape", "use single quotes"),
    (r"special characters", "it holds a control character", "take it out"),
)


def json_mistake(text: str, error: json.JSONDecodeError) -> UnreadableError:
    """Explain a JSON syntax error, with its line and column."""
    place, reason, fix = _json_mistake(text, error)
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return UnreadableError(line, f"this is no JSON: {reason} (column {column})", fix)


def yaml_mistake(text: str, error: yaml.YAMLError, first_line: int) -> UnreadableError:
    """Explain a YAML syntax error; `first_line` is the text's own line in its file."""
    line, opened = _yaml_lines(text, error)
    problem = str(getattr(error, "problem", None) or error).partition("\n")[0]
    for pattern, reason, fix in _YAML:
        found = re.search(pattern, problem)
        if found:
            words = {"opened": first_line + opened}
            reason, fix = reason.format(*found.groups(), **words), fix.format(*found.groups())
            return UnreadableError(first_line + line, f"this is no YAML: {reason}", fix)
    return UnreadableError(first_line + line, f"this is no YAML: {problem[:200]}", "fix it here")


def _json_mistake(text: str, error: json.JSONDecodeError) -> tuple[int, str, str]:
    place, rest, before = error.pos, text[error.pos :], text[: error.pos].rstrip()
    python = re.match(r"(True|False|None)\b", rest)
    if error.msg.startswith("Illegal trailing comma"):
        return place, *_TRAILING
    if rest[:1] in ("}", "]") and before.endswith(","):
        return len(before) - 1, *_TRAILING
    if rest.startswith(("//", "/*", "#")):
        return place, "it has no comments", "take it out, or write YAML"
    if rest.startswith("'"):
        return place, "single quotes mean nothing", 'write double quotes: "…"'
    if python:
        return place, f"`{python[0]}` is Python", f"write `{_PYTHON[python[0]]}`"
    if not rest.strip():
        return place, "it ends too early", "close what is open: a bracket, or a brace"
    return place, *_said(error.msg)


_TRAILING = ("a comma is before the bracket", "take the comma out")


def _said(message: str) -> tuple[str, str]:
    for beginning, reason, fix in _JSON:
        if message.startswith(beginning):
            return reason, fix
    return message, "fix it here"


def _yaml_lines(text: str, error: yaml.YAMLError) -> tuple[int, int]:
    """Return the line of the error, and of the unclosed item; both from 0."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position)
        return line, line
    mark = getattr(error, "problem_mark", None)
    opened = getattr(error, "context_mark", None)
    lines = [each.line for each in (mark or opened, opened or mark) if each is not None]
    return (lines[0], lines[1]) if lines else (0, 0)
