"""References: names in a text for a value, or for the place of one.

`†state.order.id` names a place: a kind, then keys and indexes. `†a || †b` is the first that exists,
`†a && †b` all of them. `†{state.name}` inside a longer text represents the text of the value. A key
of any characters is quoted: `†state.headers["content-type"]`. `[-1]` is the last item of a list.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

MARK = "†"
# The kind of the references to the item that a call of a loop runs for.
ITEM = "item"
HOW_TO_REFER = f"write {MARK}state.items[0].id, and {MARK}{{state.name}} in a longer text"
_KIND = r"[A-Za-z][A-Za-z0-9_-]*"
_KEY = r"[^\s.\[\]{}|&†]{1,200}"
MAX_PATHS = 20
MAX_STEPS = 64
_QUOTED = r"""\[(?:"(?:[^"\\\n]|\\["\\]){1,200}"|'[^'\n]{1,200}')\]"""
_PATH = rf"{_KIND}(?:\.{_KEY}|\[-?[0-9]{{1,9}}\]|{_QUOTED}){{0,{MAX_STEPS}}}"
_WHOLE = re.compile(rf"{MARK}({_PATH})\Z")
_STEP = re.compile(rf"\.({_KEY})|\[(-?[0-9]+)\]|({_QUOTED})")
_INSIDE = re.compile(rf"{MARK}\{{({_PATH})\}}")
# A mark before a space, as of a footnote or a year of death, begins a text like any other.
_BEGUN = re.compile(rf"\s*{MARK}(?:\S|\s+(?:state|input)[.\[])")


@dataclass(frozen=True)
class Path:
    """A place: in the value named `kind`, along `steps` (keys and indexes).

    With an `instance` it is a place in that instance's data. No one writes this down in a text: a
    call names once whose data its references are about.
    """

    kind: str
    steps: tuple[str | int, ...] = ()
    instance: str | None = None

    def __str__(self) -> str:
        return f"{MARK}{self.kind}{''.join(map(_step_text, self.steps))}"

    @property
    def certain(self) -> "Path":
        """Return the place up to an index from the end, which may be of any item."""
        for n, step in enumerate(self.steps):
            if isinstance(step, int) and step < 0:
                return replace(self, steps=self.steps[:n])
        return self

    def within(self, instance: str | None) -> "Path":
        """Return the same place in the data of an instance."""
        return replace(self, instance=instance)

    def covers(self, other: "Path") -> bool:
        whose = (self.kind, self.instance) == (other.kind, other.instance)
        return whose and other.steps[: len(self.steps)] == self.steps

    def overlaps(self, other: "Path") -> bool:
        one, two = self.certain, other.certain
        return one.covers(two) or two.covers(one)


@dataclass(frozen=True)
class Reference:
    """What a text represents: the `first` of its paths that exists, or `all`, and the last."""

    paths: tuple[Path, ...]
    choose: Literal["first", "all"] = "first"


@dataclass(frozen=True)
class OutputPath:
    """Where a call's result is written, and where its error is."""

    result: tuple[Path, ...]
    error: tuple[Path, ...] = ()

    def within(self, instance: str | None) -> "OutputPath":
        """Return the same places in the data of an instance."""
        return OutputPath(
            tuple(path.within(instance) for path in self.result),
            tuple(path.within(instance) for path in self.error),
        )


def parse_reference(text: str) -> Reference | None:
    """Return the reference that the whole text is, or None where it is a text like any other."""
    if not text.lstrip().startswith(MARK):
        return None
    choose: Literal["first", "all"] = "all" if "&&" in text else "first"
    pieces = text.split("&&" if choose == "all" else "||", MAX_PATHS)
    found = [_WHOLE.match(piece.strip()) for piece in pieces[:MAX_PATHS]]
    paths = [_steps(match.group(1)) for match in found if match]
    if len(paths) != len(pieces):
        return None
    return Reference(tuple(paths), choose)


def argument_path(text: str) -> Path | None:
    """Return the place in a call's arguments that a text names, or None: `customer.id`."""
    match = _WHOLE.match(f"{MARK}arguments{'' if text.startswith('[') else '.'}{text}")
    path = None if match is None else _steps(match.group(1))
    return path if path is not None and isinstance(path.steps[0], str) else None


def value_at(value: Any, steps: Sequence[str | int]) -> Any:
    """Return what is in a JSON value along some steps; None if there is nothing."""
    for step in steps:
        match value:
            case dict() if isinstance(step, str):
                value = value.get(step)
            case list() if isinstance(step, int) and -len(value) <= step < len(value):
                value = value[step]
            case _:
                return None
    return value


def references_in(value: Any, instance: str | None = None) -> Iterator[Reference]:
    """Yield every reference in a value, as in a call for the instance."""
    match value:
        case str() if MARK in value:
            if (reference := parse_reference(value)) is not None:
                paths = tuple(path.within(instance) for path in reference.paths)
                yield Reference(paths, reference.choose)
            for path in paths_inside(value):
                yield Reference((path.within(instance),))
        case list():
            for item in value:
                yield from references_in(item, instance)
        case dict():
            yield from references_in([*value.values()], instance)


def malformed_references(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value that begin as a reference, or one in `†{`, and are none.

    Each has its place in front, such as `order.items[0]`.
    """
    match value:
        case str() if MARK in value:
            rest = _INSIDE.sub(" ", value)
            is_begun = f"{MARK}{{" in rest or (rest == value and _BEGUN.match(value))
            if is_begun and parse_reference(value) is None:
                yield place, value
        case list():
            for n, item in enumerate(value):
                yield from malformed_references(item, f"{place}[{n}]")
        case dict():
            for key, item in value.items():
                yield from malformed_references(item, f"{place}.{key}" if place else key)


def replace_inside(text: str, text_at: Callable[[Path], str]) -> str:
    """Return the text with each reference inside it replaced, once, by `text_at` its path."""
    return _INSIDE.sub(lambda match: text_at(_steps(match.group(1))), text)


def paths_inside(text: str) -> list[Path]:
    return [_steps(match.group(1)) for match in _INSIDE.finditer(text)]


def parse_output_path(text: str) -> OutputPath:
    """Read where a result is to be written.

    `†state.a`, `†state.a && †state.b` (both), or `†state.a || †state.b` (the first for a result,
    the second for an error).

    Raises:
        ValueError: the text names no such place.
    """
    reference = parse_reference(text)
    if reference is None or not all(path.steps for path in reference.paths):
        raise ValueError(
            f"`{text[:200]}` names no place to write to; write it like `{MARK}state.order.id`"
        )
    if any(path.certain != path for path in reference.paths):
        raise ValueError(
            f"`{text[:200]}`: an index from the end is not written to; name the whole list, with"
            " `_outputMethod`"
        )
    if any(path.kind == "input" for path in reference.paths):
        raise ValueError(
            f"`{text[:200]}`: a run's input is never written to; write to `{MARK}state.…`"
        )
    paths = reference.paths
    if reference.choose == "all":
        return OutputPath(result=paths)
    if len(paths) > 2:
        raise ValueError(f"`{text[:200]}`: `||` takes two places, for a result and for an error")
    return OutputPath(result=paths[:1], error=paths[1:])


def _steps(text: str) -> Path:
    kind = re.match(_KIND, text)
    assert kind is not None  # every caller has matched _PATH
    found = _STEP.findall(text, kind.end())
    steps = (key or (_unquoted(quoted) if quoted else int(index)) for key, index, quoted in found)
    return Path(kind.group(0), tuple(steps))


def _unquoted(quoted: str) -> str:
    """Return the key of `["…"]`, where a backslash precedes a quote or a backslash, or `['…']`."""
    key = quoted[2:-2]
    return re.sub(r"\\(.)", r"\1", key) if quoted[1] == '"' else key


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(_KEY, step):
        return f".{step}"
    escaped = re.sub(r'(["\\])', r"\\\1", step)
    return f'["{escaped}"]'
