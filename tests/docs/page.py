"""Parse a page of `docs/` into the steps that its reader takes, in order.

A block's first line or fence names its kind:

- a first line `# desk/tools/refund.yaml` (or that name on the fence, for JSON) names the file to
  write; a block named after a file of this repository is an excerpt of that file;
- `sh` is typed into a shell; a block `text` after it is the expected output, where `…` matches
  anything;
- `json decision` is an example of the published schema `decision`;
- `console` is shown and not run.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(
    r"^```(?P<language>[a-z]+)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^ *(?:```|~~~)", re.MULTILINE)
_FILE = re.compile(r"\A(?:---\n)?(?:#|//) (\S+\.[a-z]+)\n")


@dataclass(frozen=True)
class File:
    """A file that the reader writes, or an excerpt of one that is there."""

    name: str
    text: str


@dataclass(frozen=True)
class Example:
    """JSON of a published schema."""

    schema: str
    text: str


@dataclass(frozen=True)
class Shell:
    """Commands, and what they print where the page has it."""

    line: int
    commands: str
    prints: str | None


Step = File | Example | Shell


def steps(page: Path) -> list[Step]:
    """What a page has the reader do.

    Raises:
        ValueError: a block of it is none of these.
    """
    source = page.read_text(encoding="utf-8")
    matches = list(_STEP.finditer(source))
    fences = len(_FENCE.findall(source))
    if fences != 2 * len(matches):
        raise ValueError(f"{page.name}: a block has no language, or is not closed")
    made: list[Step] = []
    for match in matches:
        if match["language"] == "console":
            continue
        line = source.count("\n", 0, match.start()) + 1
        made.append(_step(f"{page.name}:{line}", line, match, made))
    return [step for step in made if not isinstance(step, Shell) or step.commands]


def _step(place: str, line: int, match: re.Match[str], before: list[Step]) -> Step:
    text, name = match["text"], match["name"]
    named = _FILE.match(text)
    if name is not None and "." not in name:
        return Example(name, text)
    file = named.group(1) if named is not None else name
    if file is not None:
        return File(file, text)
    if match["language"] == "sh":
        return Shell(line, text, None)
    if match["language"] == "text" and before and isinstance(before[-1], Shell):
        typed = before.pop()
        assert isinstance(typed, Shell)
        return Shell(typed.line, typed.commands, text)
    raise ValueError(f"{place}: this block says neither what file it is nor what it is of")
