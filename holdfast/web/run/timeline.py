"""The log of a run as lines of its page: the lines of `runtime.narration`, with their links.

A long body is cut and has a link to its full text, so a page has a bound whatever its log contains.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from holdfast.client.result import token_counts
from holdfast.runtime import text_safety
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.schemas import log_entry, names
from holdfast.schemas.internal.solution import NO_USAGE
from holdfast.web.message_files import PageFile, page_files
from holdfast.web.pages import address, display_time

BODY_CHARS: Final = 4_000
# A longer body is folded, except that of a person or a model.
BRIEF_CHARS: Final = 400
BRIEF_LINES: Final = 6
HEAD_CHARS: Final = 100
_NAME_CHARS: Final = 100


@dataclass(frozen=True)
class PageLink:
    """A link to a page of the inbox."""

    href: str
    text: str


@dataclass(frozen=True)
class TimelineLine:
    """A line of the page.

    `number` is that of its entry, on the first line of the entry; `at` is the time for programs,
    `time_text` for people. A folded body shows its `head` first. `note` is how long an approval was
    waited for, or what happens if it expires.
    """

    line: NarrationLine
    at: str
    time_text: str
    number: int | None = None
    turn: int | None = None
    note: str = ""
    head: str = ""
    is_folded: bool = False
    links: Sequence[PageLink] = ()
    pictures: Sequence[PageFile] = ()


class Timeline:
    """Describes the entries of one run, in order; `lead` are those before the first shown one.

    With `has_forks`, the end of a turn has a link to fork the run there.
    """

    def __init__(
        self,
        run_id: str,
        lead: Iterable[Mapping[str, Any]] = (),
        *,
        is_single_call: bool = False,
        has_forks: bool = False,
    ) -> None:
        self._run_id, self._is_single_call, self._has_forks = run_id, is_single_call, has_forks
        self._narration = LogNarration(run_id, with_all_arguments=True, in_terminal=False)
        self._turn: int | None = None
        # The use of the run up to the turn before `_next_turn`.
        self._used = NO_USAGE
        self._next_turn = 1
        self._requested: dict[str, str] = {}
        # The number of the last entry that a fork has of the other run: links would lead nowhere.
        self._copied = 0
        self.lines(lead)

    def name(self, call_id: str, tool: str) -> str:
        """Return the id of a call and the label of its tool."""
        return self._narration.name(call_id, tool)

    def lines(self, entries: Iterable[Mapping[str, Any]]) -> list[TimelineLine]:
        """Return the lines of these entries."""
        records = [log_entry.read_record(entry) for entry in entries]
        for record in records:
            if isinstance(record.entry, log_entry.ForkedEntry):
                self._copied = record.n
        return [line for record in records for line in self._entry_lines(record)]

    def full_lines(self, entry: Mapping[str, Any]) -> list[NarrationLine]:
        """Return the lines of an entry in full."""
        record = log_entry.read_record(entry)
        found = self._narration.lines(record) or self._ending_lines(record)
        return [_plain(line) for line in found]

    def _entry_lines(self, record: log_entry.LogRecord) -> Iterator[TimelineLine]:
        links: list[PageLink] = []
        match record.entry:
            case log_entry.ToolStartEntry() | log_entry.ConfirmationRequiredEntry() if (
                record.n < self._copied
            ):
                pass
            case log_entry.ConfirmationRequiredEntry(call_id=call):
                links = [PageLink(address("waiting", self._run_id, call), "Open the request")]
            case log_entry.ToolStartEntry(call_id=call, delegate=str(delegate)):
                where = address("run", names.delegate_id(self._run_id, call))
                agent = text_safety.one_line(delegate, _NAME_CHARS)
                links = [PageLink(where, f"Open the run of {agent}")]
            case log_entry.ForkedEntry(forked_from=source):
                where = f"{address('run', source, 'diff')}?{urlencode({'other': self._run_id})}"
                links = [PageLink(address("run", source), "Open that run")]
                links += [PageLink(where, "Compare both runs")]
            case log_entry.TurnEndEntry(turn=turn) if self._has_forks:
                links = [PageLink(address("run", self._run_id, "fork", str(turn)), "Fork here")]
        number, note = str(record.n), self._note(record)
        files = [*page_files(self._run_id, record)]
        links += [PageLink(one.href, one.text) for one in files if not one.is_picture]
        time, time_text = text_safety.read_time(record.at), ""
        if time is not None:
            is_today = time.date() == datetime.now(UTC).date()
            time_text = time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")
        found = self._narration.lines(record) or self._ending_lines(record)
        lines = [_plain(line) for line in found if links or not line.minor]
        for index, line in enumerate(lines):
            is_last = index == len(lines) - 1
            own = links if is_last else []
            if len(line.body) > BODY_CHARS or line.text.endswith("…"):
                where = address("run", self._run_id, "entry", number)
                own = [PageLink(where, "Show all"), *own]
            body = text_safety.shorten(line.body, BODY_CHARS)
            is_long = len(body) > BRIEF_CHARS or body.count("\n") >= BRIEF_LINES
            yield TimelineLine(
                replace(line, body=body),
                record.at,
                time_text,
                number=record.n if index == 0 else None,
                turn=self._turn,
                note=note if is_last else "",
                head=text_safety.one_line(body, HEAD_CHARS),
                is_folded=is_long and line.tone not in ("said", "bad", "asks"),
                links=own,
                pictures=[one for one in files if one.is_picture] if is_last else (),
            )

    def _note(self, record: log_entry.LogRecord) -> str:
        match record.entry:
            case log_entry.TurnStartEntry(turn=turn):
                self._turn = turn
            case log_entry.ForkedEntry():  # it has used nothing of what is before
                self._used = NO_USAGE
            case log_entry.ConfirmationRequiredEntry(call_id=call, approval=asked):
                self._requested[call] = asked.requested_at
                view = QuestionView.of(asked, is_single_call=self._is_single_call)
                return view.expiry(display_time(asked.expires_at).text)
            case log_entry.DecisionEntry(call_id=call, outcome="decided", ignored=None):
                start, end = (
                    text_safety.read_time(self._requested.get(call)),
                    text_safety.read_time(record.at),
                )
                if start is not None and end is not None:
                    age = text_safety.format_age(datetime.now(UTC) - (end - start))
                    return f"Decided after {age}."
        return ""

    def _ending_lines(self, record: log_entry.LogRecord) -> list[NarrationLine]:
        """Return the lines of entries that the narration leaves out: the use of a turn, the end."""
        at = text_safety.format_clock(record.at)
        match record.entry:
            case log_entry.TurnEndEntry(turn=turn, usage=usage, model=model):
                # An entry has the use of the run so far; earlier entries may not be known here.
                is_next = turn == self._next_turn
                used = [*token_counts(usage.minus(self._used) if is_next else usage)]
                used += [f"by {text_safety.clean(model)}"] if model else []
                used += [] if is_next else ["in all turns so far"]
                self._used, self._next_turn = usage, turn + 1
                return [NarrationLine(at, "used", ", ".join(used), tone="quiet")]
            case log_entry.DoneEntry(status=status):
                return [NarrationLine(at, "ended", text_safety.clean(status), tone="good")]
            case log_entry.ErrorEntry(code=code, message=message):
                return [
                    NarrationLine(
                        at,
                        "failed",
                        text_safety.clean(code),
                        text_safety.clean(message),
                        tone="bad",
                    )
                ]
        return []


def _plain(line: NarrationLine) -> NarrationLine:
    """Return a line of untrusted data without the JSON around its value."""
    if not line.outside:
        return line
    note, _, data = line.body.rpartition("\n")
    try:
        value = json.loads(data)["value"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return line  # the model receives a part of it
    return replace(line, body="\n".join(filter(None, [note, text_safety.as_text(value)])))
