"""An answer as a model means it, and the choices that a server has when it writes it.

Nothing here knows how Holdfast reads answers: the writers of this folder are written from the
formats' own references, and from what servers are known to send.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Call:
    """A call; `number` is its position among the calls of the answer, from 0."""

    number: int
    name: str
    arguments: dict[str, Any]

    @property
    def id(self) -> str:
        return f"call_{self.number}"


@dataclass(frozen=True)
class AbstractAnswer:
    """The parts of an answer in their order; a text is a plain one."""

    parts: Sequence[str | Thought | Call]

    @property
    def texts(self) -> list[str]:
        return [part for part in self.parts if isinstance(part, str)]

    @property
    def calls(self) -> list[Call]:
        return [part for part in self.parts if isinstance(part, Call)]


@dataclass(frozen=True)
class Event:
    """One event of a stream: its value as JSON, or a text that is sent as it is.

    `pieces` are the calls of which it has a piece, or the name; `wholes` those of which it has all
    arguments.
    """

    value: Any
    pieces: frozenset[int] = field(default=frozenset())
    wholes: frozenset[int] = field(default=frozenset())


class Choices:
    """Chooses how an answer is written: without `draw`, as the provider's own server does.

    `is_lossy`: events will get lost, so an empty object of arguments is never left to be inferred.
    """

    def __init__(
        self, draw: Callable[[st.SearchStrategy[Any]], Any] | None = None, *, is_lossy: bool = False
    ) -> None:
        self._draw = draw
        self.is_lossy = is_lossy

    def one(self, *options: T) -> T:
        """One of the options, of which the first is the provider's own."""
        return options[self._draw(st.integers(0, len(options) - 1)) if self._draw else 0]

    def cut(self, text: str) -> list[str]:
        """The text in one or more pieces; by itself, in two."""
        if self._draw is None or len(text) < 2:
            middle = len(text) // 2
            return [text[:middle], text[middle:]] if middle and self._draw is None else [text]
        places = self._draw(st.lists(st.integers(1, len(text) - 1), max_size=4, unique=True))
        bounds = [0, *sorted(places), len(text)]
        return [text[start:end] for start, end in pairwise(bounds)]

    def cut_bytes(self, data: bytes) -> list[bytes]:
        """The bytes in the chunks in which they arrive."""
        size = self.one(len(data) or 1, 1, 7, 64)
        return [data[start : start + size] for start in range(0, len(data), size)]

    def mixed(self, rows: Sequence[Sequence[T]]) -> list[T]:
        """The items of all rows, each row in its order, started one after the other."""
        queues, merged, newest = [list(row) for row in rows if row], list[T](), 0
        while any(queues):
            queue = self.one(*(each for each in queues[: newest + 1] if each))
            merged.append(queue.pop(0))
            if queue is queues[newest]:
                newest = min(newest + 1, len(queues) - 1)
        return merged

    def in_turn(
        self, answer: AbstractAnswer, rows: Sequence[Sequence[T]], *, is_mixed: bool
    ) -> list[T]:
        """The items of the rows, one row a part; those of calls in a row may be mixed."""
        told, calls = list[T](), list[Sequence[T]]()
        for part, row in zip([*answer.parts, ""], [*rows, []], strict=True):
            if isinstance(part, Call) and is_mixed:
                calls.append(row)
            else:
                told += [*self.mixed(calls), *row]
                calls = []
        return told

    def kept(self, events: Sequence[Event]) -> list[Event]:
        """The events that arrive, where any may be lost.

        Without a whole, behind a lost piece of a call none of its pieces arrives: a gap within a
        text is no fault that a reader could notice.
        """
        if not self.is_lossy:
            return [*events]
        lost = [self.one(False, False, True) for _ in events]
        wholes: set[int] = set()
        for event, is_lost in zip(events, lost, strict=True):
            wholes |= set() if is_lost else event.wholes
        kept, broken = [], set[int]()
        for event, is_lost in zip(events, lost, strict=True):
            if is_lost or event.pieces & (broken - wholes):
                broken |= event.pieces
            else:
                kept.append(event)
        return kept


TOOLS = ("refund", "rag_query", "list_files")
WORDS = st.sampled_from(["", "a", "Zoë 😀", "17", '"', "{}", "x" * 40, "\n", "null", "}{"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**15) | st.sampled_from([0.5, 1e-7]) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["order", "note", "é", ""]), VALUES, max_size=3)
TEXTS = st.sampled_from(["I look.", "Grüße, Zoë 😀", " so\n", '{"a": 1}', "[DONE]", "data: x"])


@st.composite
def answers(draw: st.DrawFn) -> AbstractAnswer:
    """Any answer: texts, thoughts, and calls of the same and of other tools."""
    parts: list[str | Thought | Call] = []
    for kind in draw(st.lists(st.sampled_from(["text", "thought", *["call"] * 3]), max_size=5)):
        if kind == "text":
            parts.append(draw(TEXTS))
        elif kind == "thought":
            parts.append(Thought(draw(TEXTS)))
        else:
            number = sum(isinstance(part, Call) for part in parts)
            name = draw(st.sampled_from(TOOLS))
            parts.append(Call(number, name, draw(ARGUMENTS)))
    return AbstractAnswer(parts)
