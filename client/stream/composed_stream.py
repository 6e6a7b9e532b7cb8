"""An answer in composed calling while it grows: its JSON is told as what it says so far.

    {"calls": [{"_tool": "refund", "order_id": "A1"}, {"_tool": "ma      refund order_id="A1"
                                                                          …
    {"calls": [], "output": "I refunded or                                I refunded or

Where it stands in no such form (yet), or its beginning is not there any more, its length is told.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast.runtime.text_safety import arguments_line, one_line

_NAME_CHARS = 80
_CALLS = re.compile(r'\s*\{\s*"calls"\s*:\s*\[')
_BETWEEN = ", \t\r\n"
_OUTPUT = re.compile(r'\s*(?:\]\s*,|\{)\s*"output"\s*:\s*')
_TOOL = re.compile(r'"_tool"\s*:\s*"([^"\\]*)"')
# A text as far as it is written, up to an escape that is not whole yet.
_TEXT = re.compile(r'"((?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*)')
_NULL = re.compile(r"n(u(ll?)?)?\b")


def told(text: str, offset: int) -> str:
    """What an answer says of which this is the end, behind `offset` characters."""
    begun = _CALLS.match(text)
    if offset or not (begun or _OUTPUT.match(text)):
        return f"(an answer of {offset + len(text):,} characters so far)" if text else ""
    return "\n".join(_said(text, begun.end() if begun else 0))


def _said(text: str, at: int) -> Iterator[str]:
    """The calls, and the output as far as it is written."""
    decoder = json.JSONDecoder()
    while at:
        at = len(text) - len(text[at:].lstrip(_BETWEEN))
        try:
            call, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        yield _call(call)
    output = _OUTPUT.match(text, at)
    if output is not None:
        yield _growing(text[output.end() :])
    elif tool := _TOOL.search(text, at):
        yield f"{one_line(tool[1], _NAME_CHARS)} …"


def _call(call: Any) -> str:
    if not isinstance(call, dict):
        return ""
    arguments = {name: value for name, value in call.items() if value is not None}
    name = one_line(str(arguments.pop("_tool", "")), _NAME_CHARS)
    return f"{name} {arguments_line(arguments)}".rstrip()


def _growing(value: str) -> str:
    """A value as far as it is written: a text as it reads, anything else but null as JSON."""
    text = _TEXT.match(value)
    if text is not None:
        said: str = json.loads(f'"{text[1]}"', strict=False)
        return said
    return "" if _NULL.match(value) else value
