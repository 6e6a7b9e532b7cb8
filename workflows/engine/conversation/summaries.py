"""Summaries: what a model reads in place of the older part of a conversation.

A model takes in so many tokens: its window. A summary of the older part is made by a request of its
own, and represents it in every request from then on; people, queries and references still see all.

    the next request would take three quarters of the window ─► all but the newest quarter
    the request of a turn was too long ─► the older half ─► the turn again ─► half of the rest …
    a summary's own request was too long, or gave nothing ─► a part half as large …

A conversation is parted between pieces alone. A piece is a turn, with all of its calls and their
results, or a message that was said outside of turns. Each summary ends later than the one before,
and each part that was too long leads to a shorter one, so this ends: in a request that fits; or,
where a single piece is too long, in the run's failure. Before anything was too long, a summary that
cannot be had is no failure: the turn is asked for as it is.

How long a conversation is, providers say; what they do not say is estimated from its bytes. What a
model's window is, is learnt from the activity that asks it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.base import Lenient, json_size
from holdfast.schemas.internal.model_request import Ask, ConversationPointer
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.log_entry import SummaryEntry
from holdfast.workflows.engine.budget.reservations import BudgetExhausted, check_request
from holdfast.workflows.engine.conversation import summary_prompt
from holdfast.workflows.engine.log.compressed_pages import Record
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.run_state import RunState

BYTES_PER_TOKEN = 4
# What a picture takes of the window, whatever its data are.
PICTURE_BYTES = 6_000
MAX_REQUESTS_PER_TURN = 32
# The part of the window that a request may take; and the part of it, or of the conversation, that
# is worth a summary.
FULL = 3 / 4
WORTH_IT = 1 / 8
_NEWER = 3 / 4
_HALF = 1 / 2

_MEND = "show less of results (`_show: preview`), or name a model with a larger window"
_MEND_BUDGET = "allow the run more, or name a model with a larger window"


class CannotShorten(Exception):
    """The conversation is longer than the model's window, and stays so; the message says why."""


@dataclass(frozen=True)
class Piece:
    """A part of a conversation that stays together: up to entry `upto`, of so many bytes."""

    upto: int
    size_bytes: int


class SummariesProgress(Lenient, frozen=False):
    """What the next summary goes on from.

    The model reads the newest summary, and the entries after number `since`; `origin` is the digest
    of all before. `task` is the task as it was given, once a summary had to repeat it. The last
    request took `tokens` of the model's `window` with its answer: all up to entry `counted`.
    """

    since: int = 0
    origin: str = ""
    task: str | None = None
    window: int | None = None
    tokens: int = 0
    counted: int = 0


class Summaries:
    """The summaries of one run."""

    def __init__(self, state: RunState, model: str, progress: SummariesProgress) -> None:
        self._state = state
        self._model = model
        self.progress = progress
        # Since the last answer: whether the turn was too long, whether there is no more to do about
        # it, the requests for summaries, the part of the last one, and the most of a further one.
        self._too_long = False
        self._settled = False
        # Whether it is to be summarised whatever room the model has.
        self._crowded = False
        self._requests = 0
        self._part: list[Piece] = []
        self._most_bytes: int | None = None

    @property
    def is_active(self) -> bool:
        """Return whether a turn is to come for which summaries were asked for."""
        return self._requests > 0

    def pointer(self, turn: int) -> ConversationPointer:
        """Return the request of a turn: all that is in the log, the older part by its summary."""
        log = self._state.log
        return ConversationPointer(
            turn=turn,
            entries=len(log),
            digest=log.digest,
            since=self.progress.since,
            origin=self.progress.origin,
        )

    def due_request(self, turn: int) -> ConversationPointer | None:
        """Return the request for a summary that comes before this turn's, where one does.

        Raises:
            CannotShorten: the turn's request was too long, and no summary fixes that.
        """
        if self._too_long:
            self._part = self._needed()
        elif not self._settled and self._is_full():
            self._part = self._wanted()
        elif not self._settled and self._crowded:
            self._part = self._all_but_the_last()
        else:
            return None
        if not self._part:
            return None
        upto = self._part[-1].upto
        return self.pointer(turn).model_copy(update={"summary": True, "upto": upto})

    def ask(self, ask: Ask) -> Ask:
        """Return how the model is asked for a summary.

        As for a turn, so that its provider's cache holds; but for a text, whatever form an answer
        has else.
        """
        tail = summary_prompt.request(self.progress.window)
        return ask.model_copy(update={"tool_choice": "none", "output": None, "tail": tail})

    def turn_answered(self, solution: Solution) -> None:
        """Take in that the model has answered a turn; its answer is in the log."""
        self.progress.window = solution.window or self.progress.window
        self.progress.tokens = self._taken(solution.usage)
        self.progress.counted = len(self._state.log)
        self._too_long = self._settled = self._crowded = False
        self._requests, self._most_bytes = 0, None

    def turn_refused(self, solution: Solution) -> None:
        """Take in that a turn's request was too long."""
        self.progress.window = solution.window or self.progress.window
        self._too_long, self._settled = True, False

    def summary_answered(self, solution: Solution) -> None:
        """Take in the answer to the request for a summary."""
        self.progress.window = solution.window or self.progress.window
        self._requests += 1
        text = solution.text.strip()
        if text and not solution.too_long:
            self._replace(self._part[-1].upto, text)
        elif len(self._part) == 1:
            self._settled = True
        else:
            self._most_bytes = _size(self._part) // 2

    def make_room(self) -> None:
        """Have all but the last turn summarised before the next, though the model could read it.

        The run cannot take it all along where it continues as new.
        """
        self._crowded = True

    def _all_but_the_last(self) -> list[Piece]:
        found = list(pieces(self._state.log, self.progress.since))
        return self._oldest(found[:-1], _size(found)) if self._hindrance() is None else []

    def _replace(self, upto: int, text: str) -> None:
        log = self._state.log
        if self.progress.task is None:
            self.progress.task = summary_prompt.task(log)
        told = summary_prompt.summary(
            text, self.progress.task, self.progress.window, calls=bool(self._state.tools())
        )
        self.progress.since, self.progress.origin = upto, log.digest_at(upto)
        self.progress.tokens, self.progress.counted = len(told.encode()) // BYTES_PER_TOKEN, upto
        log.append(SummaryEntry(upto=upto, text=told))
        self._too_long, self._settled = False, True

    def _taken(self, usage: Usage) -> int:
        if usage.input_tokens is not None and usage.output_tokens is not None:
            return usage.input_tokens + usage.output_tokens
        return self.progress.tokens + self._new_tokens()

    def _new_tokens(self) -> int:
        """Return what was said since the last answer, in tokens."""
        records = self._state.log.records_after(self.progress.counted)
        return sum(_bytes_of(record) for record in records) // BYTES_PER_TOKEN

    def _is_full(self) -> bool:
        if self.progress.window is None:
            return False
        return self.progress.tokens + self._new_tokens() >= self.progress.window * FULL

    def _wanted(self) -> list[Piece]:
        """Return what a summary is to replace before the window is full.

        Nothing, where that is little, or another request is more than the budget allows.
        """
        assert self.progress.window is not None  # it is full
        found = list(pieces(self._state.log, self.progress.since))
        part = self._oldest(found[:-1], _size(found) * _NEWER)
        is_little = _size(part) < self.progress.window * BYTES_PER_TOKEN * WORTH_IT
        return [] if is_little or self._hindrance() is not None else part

    def _needed(self) -> list[Piece]:
        """Return what a summary is to replace so that the turn can be asked for."""
        found = list(pieces(self._state.log, self.progress.since))
        if self._settled or not found:
            raise self._failure("and what came last is too long by itself")
        if self._requests >= MAX_REQUESTS_PER_TURN:
            raise self._failure(f"also after {self._requests} requests for summaries of it")
        hindrance = self._hindrance()
        if hindrance is not None:
            raise self._failure(f"and cannot be summarised: {hindrance}", _MEND_BUDGET)
        size_bytes = _size(found)
        return self._oldest(found, size_bytes * _HALF, size_bytes * WORTH_IT)

    def _oldest(self, found: list[Piece], most_bytes: float, least_bytes: float = 1) -> list[Piece]:
        """Return the oldest pieces, as many as have room.

        But as much as is worth it, where nothing says that it is too much, and one at the least.
        """
        if self.progress.window is not None:
            most_bytes = min(most_bytes, self.progress.window * FULL * BYTES_PER_TOKEN)
            least_bytes = min(most_bytes, least_bytes)
        if self._most_bytes is not None:
            most_bytes, least_bytes = min(most_bytes, self._most_bytes), 1
        part: list[Piece] = []
        for piece in found:
            if _size(part) >= least_bytes and _size(part) + piece.size_bytes > most_bytes:
                break
            part.append(piece)
        return part

    def _hindrance(self) -> BudgetExhausted | None:
        """Return why the budget does not allow a request besides the turn's, where it does not."""
        try:
            check_request(self._state.meter, self._state.clock())
        except BudgetExhausted as error:
            return error
        return None

    def _failure(self, why: str, mend: str = _MEND) -> CannotShorten:
        window = "" if self.progress.window is None else f" of {self.progress.window} tokens"
        return CannotShorten(
            f"the conversation is longer than the window{window} of the model `{self._model}`,"
            f" {why}; {mend}"
        )


def pieces(log: Log, since: int) -> Iterator[Piece]:
    """Yield the pieces of the conversation after entry `since`, without a turn that is not over."""
    size_bytes, upto = 0, since
    in_turn = answered = False
    open_calls: dict[str, None] = {}
    for record in log.records_after(since):
        message = record.get("message", {})
        match record["type"]:
            case "turn_start":
                in_turn, answered = True, False
            case "turn_end":
                in_turn = answered = False
            case "message":
                answered = answered or (in_turn and message["role"] == "assistant")
                open_calls |= dict.fromkeys(call["id"] for call in message.get("calls", ()))
                open_calls.pop(message.get("callId", ""), None)
                size_bytes += _bytes_of(record)
            case _:
                continue
        upto = record["n"]
        if size_bytes and not answered and not open_calls:
            yield Piece(upto, size_bytes)
            size_bytes = 0


def _size(found: list[Piece]) -> int:
    return sum(piece.size_bytes for piece in found)


def _bytes_of(record: Record) -> int:
    """Return what an entry takes of what the model reads; of a summary, it is counted by itself."""
    if record["type"] != "message":
        return 0
    message = record["message"]
    content: Any = message.get("content", "")
    if isinstance(content, str):
        return json_size(message)
    pictures = [part for part in content if part["type"] == "image"]
    others = [part for part in content if part["type"] != "image"]
    return json_size({**message, "content": others}) + PICTURE_BYTES * len(pictures)
