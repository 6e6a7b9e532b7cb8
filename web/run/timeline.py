"""The log of a run, told for a page: the lines of `client.log_narration`, and what each leads to.

What is long is shown in part, and leads to the whole of it; a page has a bound whatever was said.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.client.result import token_counts
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.text_safety import as_text, clean, format_clock, local_time, one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import Kind
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.log_entry import read_record
from holdfast.web.pages import address

BODY_CHARS: Final = 4_000
# More than that of what is no person's or model's own word has to be unfolded.
BRIEF_CHARS: Final = 400
BRIEF_LINES: Final = 6
HEAD_CHARS: Final = 100
MAX_PICTURE_CHARS: Final = 350_000
MAX_PICTURES: Final = 8
PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_NAME_CHARS: Final = 100
_WAITS: Final[dict[Kind, str]] = {
    "call": "Look at the call",
    "plan": "Look at the plan",
    "reconcile": "Say what happened",
    "budget": "Look at the budget",
}


@dataclass(frozen=True)
class Link:
    """Where something leads: an address of this site, in words."""

    href: str
    text: str


@dataclass(frozen=True)
class Told:
    """A line of the page. `number` is its entry's, where it is the first of that; `at` the time as
    programs read it, `when` as people do. A body that is `folded` shows its `head` at first."""

    line: NarrationLine
    at: str
    when: str
    number: int | None = None
    head: str = ""
    folded: bool = False
    links: tuple[Link, ...] = ()
    pictures: tuple[Link, ...] = ()


class Teller:
    """Tells the entries of one run, in order. `lead` are those before the first that is told."""

    def __init__(self, run_id: str, lead: Iterable[Mapping[str, Any]] = ()) -> None:
        self._run_id = run_id
        self._story = LogNarration(run_id, with_all_arguments=True, with_commands=False)
        for entry in lead:
            self._story.lines(read_record(entry))

    def name(self, call_id: str, tool: str) -> str:
        """A call by its id and the name that people know its tool by."""
        return self._story.name(call_id, tool)

    def tell(self, entries: Iterable[Mapping[str, Any]]) -> list[Told]:
        """The lines of these entries."""
        return [told for entry in entries for told in self._tell(entry)]

    def whole(self, entry: Mapping[str, Any]) -> list[NarrationLine]:
        """The lines of an entry, however long they are."""
        return [_plainly(line) for line in self._story.lines(read_record(entry)) or _besides(entry)]

    def _tell(self, entry: Mapping[str, Any]) -> Iterator[Told]:
        links = tuple(self._links(entry))
        lines = [
            line
            for line in self._story.lines(read_record(entry)) or _besides(entry)
            if links or not line.minor
        ]
        for index, line in enumerate(lines):
            last = index == len(lines) - 1
            shown = self._shown(_plainly(line), entry)
            yield replace(
                shown,
                number=entry["n"] if index == 0 else None,
                links=(*shown.links, *(links if last else ())),
                pictures=tuple(self._pictures(entry)) if last else (),
            )

    def _shown(self, line: NarrationLine, entry: Mapping[str, Any]) -> Told:
        at = str(entry.get("at", ""))
        links: list[Link] = []
        if len(line.body) > BODY_CHARS or line.text.endswith("…"):
            where = address("run", self._run_id, "entry", str(entry["n"]))
            links.append(Link(where, "See all of it"))
            line = replace(line, body=shorten(line.body, BODY_CHARS))
        folded, head = _is_folded(line), one_line(line.body, HEAD_CHARS)
        return Told(line, at, _when(at), head=head, folded=folded, links=tuple(links))

    def _links(self, entry: Mapping[str, Any]) -> Iterator[Link]:
        call = str(entry.get("callId"))
        if entry["type"] == "confirmation_required":
            kind = entry["approval"].get("kind", "call")
            yield Link(address("waiting", self._run_id, call), _WAITS[kind])
        if entry["type"] == "tool_start" and entry.get("delegate"):
            delegate = names.delegate_id(self._run_id, call)
            agent = one_line(str(entry["delegate"]), _NAME_CHARS)
            yield Link(address("run", delegate), f"Look at the run of {agent}")

    def _pictures(self, entry: Mapping[str, Any]) -> Iterator[Link]:
        for index in pictures_of(entry)[:MAX_PICTURES]:
            where = address("run", self._run_id, "picture", str(entry["n"]), str(index))
            yield Link(where, f"Picture {index + 1} of entry {entry['n']}")


def _when(at: str) -> str:
    """A time in UTC, as all times of a page are; its date only where that is not today's."""
    time = local_time(at)
    if time is None:
        return ""
    utc = time.astimezone(UTC)
    is_today = utc.date() == datetime.now(UTC).date()
    return utc.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")


def pictures_of(entry: Mapping[str, Any]) -> list[int]:
    """Which parts of a message are pictures that can be shown: data of the log, small, of a form
    that every browser knows and that holds no script."""
    content = entry["message"].get("content") if entry["type"] == "message" else None
    parts = content if isinstance(content, list) else []
    return [index for index, part in enumerate(parts) if _is_picture(part)]


def _is_picture(part: Mapping[str, Any]) -> bool:
    data = part.get("data")
    fits = isinstance(data, str) and len(data) <= MAX_PICTURE_CHARS
    return part.get("type") == "image" and fits and part.get("mediaType") in PICTURES


def _besides(entry: Mapping[str, Any]) -> list[NarrationLine]:
    """What the story leaves to others: what a turn cost, and that the run is over."""
    at = format_clock(entry.get("at"))
    match entry["type"]:
        case "turn_end":
            used = ", ".join(token_counts(Usage.read(entry.get("usage", {}))))
            return [NarrationLine(at, "used", used, tone="quiet")]
        case "done":
            return [NarrationLine(at, "ended", clean(str(entry["status"])), tone="good")]
        case "error":
            message = clean(str(entry.get("message", "")))
            return [NarrationLine(at, "failed", clean(str(entry["code"])), message, tone="bad")]
    return []


def _plainly(line: NarrationLine) -> NarrationLine:
    """A line whose body is no more than what came from outside, without what stands around it."""
    if not line.outside:
        return line
    note, _, told = line.body.rpartition("\n")
    try:
        value = json.loads(told)["value"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return line  # the model is shown a part of it
    return replace(line, body="\n".join(filter(None, [note, as_text(value)])))


def _is_folded(line: NarrationLine) -> bool:
    """Whether its body is more than one wants to read of it: people and models are heard out."""
    if line.tone in ("said", "bad", "asks"):
        return False
    return len(line.body) > BRIEF_CHARS or line.body.count("\n") >= BRIEF_LINES
