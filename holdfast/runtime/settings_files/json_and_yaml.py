"""Parse JSON and YAML with the line of each value.

Python's own parser reads the values of JSON, and a scan of the text finds the lines. The values of
YAML are built here from the node tree of PyYAML's parser. Scalars follow the rules of YAML 1.2
(`yes`, `on` and dates are strings). Tags, merge keys and repeated keys are rejected, and the number
of values that aliases expand to is bounded.

A parser reports what it expected next. The messages here report what was found, and what to write.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import yaml

from holdfast.runtime.settings_files.file_problems import UnreadableError
from holdfast.validation.problems import Where

Lines = dict[Where, int]
"""The line of each place in a value, from 1."""

# The most values that a file may hold, with its aliases expanded.
MAX_VALUES = 100_000
MAX_DEPTH = 100
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+')
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_TRAILING = ("a comma is before the bracket", "take the comma out")
# By the beginning of the message of Python's parser: the reason and the fix.
_JSON = (
    ("Illegal trailing comma", *_TRAILING),
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
    (r"character '\\t'", "a tab is in the indentation", "indent with spaces"),
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


def read_json(text: str) -> tuple[Any, Lines]:
    """Read a JSON text, and the line of every key and item in it.

    Raises:
        UnreadableError: the text is not JSON, repeats a key, or is too large or too deep.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _json_mistake(text, error) from error
    except RecursionError as error:
        raise _too_deep(1) from error
    except ValueError as error:
        raise UnreadableError(1, f"this is no JSON: {error}", "shorten the number") from error
    lines = _json_lines(text)
    if len(lines) > MAX_VALUES:
        raise UnreadableError(1, "it holds too many values", f"use at most {MAX_VALUES}")
    return value, lines


def _json_lines(text: str) -> Lines:
    """Return the line of every key and item of a valid JSON text."""
    lines: Lines = {(): 1}
    where: list[str | int] = []
    line, last_text, item_begins = 1, "", False
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
            continue
        if item_begins and token != "]":
            lines[tuple(where)] = line
        item_begins = False
        match token:
            case "{" | "[":
                if len(where) >= MAX_DEPTH:
                    raise _too_deep(line)
                where.append(0 if token == "[" else "")
                item_begins = token == "["
            case "}" | "]":
                where.pop()
            case "," if isinstance(where[-1], int):
                where[-1] += 1
                item_begins = True
            case ":":
                name = where[-1] = json.loads(last_text)
                if tuple(where) in lines:
                    reason = f"the key `{name}` occurs twice"
                    raise UnreadableError(line, reason, "keep one of them")
                lines[tuple(where)] = line
            case _:
                last_text = token
    return lines


def _too_deep(line: int) -> UnreadableError:
    return UnreadableError(line, "it is nested too deep", f"use at most {MAX_DEPTH} levels")


class _Loader(yaml.SafeLoader):
    """The parser, with the plain scalars of YAML 1.2: a scalar that is not JSON is a string."""


class _Dumper(yaml.SafeDumper):
    """The writer: quotes a text that YAML 1.1 or this module would read as another value."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # The other styles lose these line breaks.
        style = '"' if re.search("[\x85\u2028\u2029]", data) else None
        return self.represent_scalar(_PREFIX + "str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)

_Loader.yaml_implicit_resolvers = {}
_PREFIX = "tag:yaml.org,2002:"
_SCALARS: dict[str, Callable[[str], Any]] = {
    "!!str": str,
    "!!null": lambda _: None,
    "!!bool": lambda text: {"true": True, "false": False}[text.lower()],
    "!!int": int,
    "!!float": float,
}
for _kind, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    (
        "float",
        r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
        list("-+.0123456789"),
    ),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_PREFIX + _kind, re.compile(_pattern), _first)


def read_yaml(text: str, first_line: int = 1) -> tuple[Any, Lines]:
    """Read a YAML text that begins at `first_line` of its file, and the line of every place in it.

    Raises:
        UnreadableError: the text is not YAML, has values that JSON lacks, or is too large or too
            deep.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise _yaml_mistake(text, error, first_line) from error
    except RecursionError as error:
        raise _too_deep(first_line) from error
    except ValueError as error:
        reason = "this is no YAML: " + " ".join(str(error).split())[:200]
        raise UnreadableError(first_line, reason, "fix it") from error
    builder = _Builder(text, first_line)
    value = builder.build(node, ()) if node is not None else None
    return value, builder.lines


def write_yaml(value: Any) -> str:
    """Return a JSON value as the YAML that `read_yaml` reads as equal."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Builder:
    def __init__(self, text: str, first_line: int) -> None:
        self.lines: Lines = {}
        self._text = text
        self._first_line = first_line
        self._values = 0

    def build(self, node: yaml.Node, where: Where) -> Any:
        """Build the value of a node; an alias is expanded, so the number of values is bounded."""
        line = self._line_of(node)
        self._values += 1
        if self._values > MAX_VALUES or len(where) > MAX_DEPTH:
            fix = f"use at most {MAX_VALUES} values, {MAX_DEPTH} levels deep, aliases unfolded"
            raise UnreadableError(line, "it holds too much", fix)
        self.lines.setdefault(where, line)
        if isinstance(node, yaml.MappingNode) and node.tag == _PREFIX + "map":
            value: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key, line = key_node.value, self._line_of(key_node)
                if key == "<<":
                    raise UnreadableError(line, "keys are not merged here", "write them out")
                if key_node.tag != _PREFIX + "str":
                    shown = key if isinstance(key_node, yaml.ScalarNode) else "a list or an object"
                    fix = "write a text; put it in quotes"
                    raise UnreadableError(line, f"`{shown}` is no key", fix)
                if key in value:
                    raise UnreadableError(line, f"the key `{key}` occurs twice", "keep one of them")
                # A comma divides a text in braces, and what is behind it would be lost as a key.
                written = self._text[key_node.end_mark.index : value_node.end_mark.index]
                if node.flow_style and value_node.value == "" and ":" not in written:
                    fix = "put a text that holds a comma in quotes, or write `key: value`"
                    raise UnreadableError(line, f"`{key}` has no value", fix)
                self.lines[(*where, key)] = line
                value[key] = self.build(value_node, (*where, key))
            return value
        if isinstance(node, yaml.SequenceNode) and node.tag == _PREFIX + "seq":
            return [self.build(item, (*where, n)) for n, item in enumerate(node.value)]
        return self._scalar(node, line)

    def _line_of(self, node: yaml.Node) -> int:
        return self._first_line + int(node.start_mark.line)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        tag = str(node.tag).replace(_PREFIX, "!!")
        if not isinstance(node, yaml.ScalarNode) or tag not in _SCALARS:
            raise UnreadableError(line, f"the tag `{tag}` is not supported here", "leave it out")
        try:
            return _SCALARS[tag](node.value)
        except (KeyError, ValueError) as error:
            fix = "write it plainly, without the tag"
            raise UnreadableError(line, f"this is no {tag}", fix) from error


def _json_mistake(text: str, error: json.JSONDecodeError) -> UnreadableError:
    place, rest, before = error.pos, text[error.pos :], text[: error.pos].rstrip()
    python = re.match(r"(True|False|None)\b", rest)
    known = ((reason, fix) for start, reason, fix in _JSON if error.msg.startswith(start))
    reason, fix = next(known, (error.msg, "fix it here"))
    if rest[:1] in ("}", "]") and before.endswith(","):
        place, (reason, fix) = len(before) - 1, _TRAILING
    elif rest.startswith(("//", "/*", "#")):
        reason, fix = "it has no comments", "take it out, or write YAML"
    elif rest.startswith("'"):
        reason, fix = "single quotes mean nothing", 'write double quotes: "…"'
    elif python:
        reason, fix = f"`{python[0]}` is Python", f"write `{_PYTHON[python[0]]}`"
    elif not rest.strip():
        reason, fix = "it is incomplete", "close what is open: a bracket, or a brace"
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return UnreadableError(line, f"this is no JSON: {reason} (column {column})", fix)


def _yaml_mistake(text: str, error: yaml.YAMLError, first_line: int) -> UnreadableError:
    """Explain a YAML syntax error; `first_line` is the text's own line in its file."""
    marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
    lines = [mark.line for mark in marks if mark is not None] or [0]
    if isinstance(error, yaml.reader.ReaderError):
        lines = [text.count("\n", 0, error.position)]
    # The line of the error, and that of the unclosed item.
    line, opened = first_line + lines[0], first_line + lines[-1]
    problem = str(getattr(error, "problem", None) or error).partition("\n")[0]
    for pattern, reason, fix in _YAML:
        if found := re.search(pattern, problem):
            reason = reason.format(*found.groups(), opened=opened)
            return UnreadableError(line, f"this is no YAML: {reason}", fix.format(*found.groups()))
    return UnreadableError(line, f"this is no YAML: {problem[:200]}", "fix it here")
