"""YAML with its lines: values are built here from the node tree of PyYAML's parser.

Scalars follow the rules of YAML 1.2 (`yes`, `on` and dates are strings). Tags, merge keys and
repeated keys are rejected, and the number of values that aliases expand to is bounded.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from holdfast.runtime.settings_files.file_problems import (
    MAX_DEPTH,
    MAX_VALUES,
    Lines,
    UnreadableError,
)
from holdfast.runtime.settings_files.syntax_errors import yaml_mistake
from holdfast.validation.problems import Where


class _Loader(yaml.SafeLoader):
    """The parser, with the plain scalars of YAML 1.2: a scalar that is not JSON is a string."""


_Loader.yaml_implicit_resolvers = {}
_PREFIX = "tag:yaml.org,2002:"
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
    _Loader.add_implicit_resolver(_PREFIX + _kind, re.compile(_pattern), _first)


def read_yaml(text: str, first_line: int = 1) -> tuple[Any, Lines]:
    """Read a YAML text that begins at `first_line` of its file, and the line of every place in it.

    Raises:
        UnreadableError: the text is not YAML, has values that JSON lacks, or is too large or too
            deep.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise yaml_mistake(text, error, first_line) from error
    except RecursionError as error:
        fix = f"use at most {MAX_DEPTH} levels"
        raise UnreadableError(first_line, "it is nested too deep", fix) from error
    except ValueError as error:
        reason = "this is no YAML: " + " ".join(str(error).split())[:200]
        raise UnreadableError(first_line, reason, "fix it") from error
    builder = _Builder(first_line)
    value = builder.build(node, ()) if node is not None else None
    return value, builder.lines


class _Builder:
    def __init__(self, first_line: int) -> None:
        self.lines: Lines = {}
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
            return dict(self._pairs(node, where))
        if isinstance(node, yaml.SequenceNode) and node.tag == _PREFIX + "seq":
            return [self.build(item, (*where, n)) for n, item in enumerate(node.value)]
        return self._scalar(node, line)

    def _pairs(self, node: yaml.MappingNode, where: Where) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key, line = key_node.value, self._line_of(key_node)
            if key == "<<":
                raise UnreadableError(line, "keys are not merged here", "write them out")
            if key_node.tag != _PREFIX + "str":
                shown = key if isinstance(key_node, yaml.ScalarNode) else "a list or an object"
                raise UnreadableError(
                    line, f"`{shown}` is no key", "write a text; put it in quotes"
                )
            if key in seen:
                raise UnreadableError(line, f"the key `{key}` stands twice", "keep one of them")
            seen.add(key)
            self.lines[(*where, key)] = line
            yield key, self.build(value_node, (*where, key))

    def _line_of(self, node: yaml.Node) -> int:
        return self._first_line + int(node.start_mark.line)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        text = node.value
        try:
            match node.tag.removeprefix(_PREFIX):
                case "str":
                    return str(text)
                case "null":
                    return None
                case "bool":
                    return {"true": True, "false": False}[text.lower()]
                case "int":
                    return int(text)
                case "float":
                    return float(text)
        except (KeyError, ValueError, TypeError) as error:
            raise UnreadableError(
                line, f"this is no {_tag(node)}", "write it plainly, without the tag"
            ) from error
        raise UnreadableError(line, f"the tag `{_tag(node)}` is not supported here", "leave it out")


def _tag(node: yaml.Node) -> str:
    return str(node.tag).replace(_PREFIX, "!!")
