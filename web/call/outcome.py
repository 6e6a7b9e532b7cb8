"""What became of a question that waits no more, in words: who decided what, and what came of it."""

from typing import Any
from urllib.parse import quote

from holdfast.runtime.text_safety import clean, shorten
from holdfast.web.auth.person import Person
from holdfast.web.call import phrases
from holdfast.web.call.history import Before
from holdfast.web.call.loader import Over
from holdfast.web.call.plan_view import differing
from holdfast.web.listing.rows import MAX_BRIEF_CHARS, brief
from holdfast.web.pages import address
from holdfast.web.times import When, when


def outcome(over: Over, person: Person) -> dict[str, Any]:
    """What became of a question, in words."""
    past, asked, verdict = over.past, over.question, over.past.verdict
    here = address("waiting", over.run_id, over.call_id)
    if verdict is not None:
        said, at = phrases.gave(verdict, asked.kind, person.name), when(verdict.at)
    elif past.expired:
        said, at = "Nobody decided in time", when(asked.expires_at)
    elif over.ended:
        said, at = "The run has ended before anybody decided", when("")
    else:
        said, at = "It was withdrawn: the run has gone another way", when("")
    return {
        "over": over,
        "said": said,
        "came": phrases.came(past),
        "at": at,
        "heading": phrases.heading(asked, over.known.agent),
        "was": _was(over),
        "limit": _limit(over),
        "reason": clean(verdict.reason or "") if verdict else "",
        "yours": verdict is not None and verdict.by == person.name,
        "changes": _changes(over),
        "counted": [phrases.gave(one, asked.kind, person.name) for one in past.decisions],
        "before": [asked_before(one, person) for one in past.before],
        "run": address("run", over.run_id),
        "changes_address": f"{here}/changes?seen={quote(over.mark, safe='')}",
    }


def _was(over: Over) -> str:
    """What it was done with at last, in a line, as lists have it; of a plan, each step tells it."""
    asked = over.question
    if asked.kind not in ("call", "reconcile"):
        return ""
    last = asked.model_copy(update={"arguments": over.past.versions[-1].arguments})
    return shorten(brief(last), MAX_BRIEF_CHARS)


def _limit(over: Over) -> str:
    """What became of a limit that was asked about."""
    past, asked = over.past, over.question
    now = (over.status.get("budget") or {}).get(asked.tool) or {}
    if past.verdict is None:
        return ""
    return phrases.settled(asked, past.verdict, past.versions[-1].arguments, now.get("limit"))


def _changes(over: Over) -> Any:
    versions = over.past.versions
    # What a limit was is no wish: what was granted is told in words.
    if len(versions) < 2 or over.question.kind == "budget":
        return []
    return differing(over.question.kind, versions[0].arguments, versions[-1].arguments, {})


def asked_before(one: Before, person: Person) -> tuple[str, When]:
    """A time that it was asked before, in a sentence, and when that was answered."""
    if one.verdict is None:
        return "Nobody answered", when(one.at)
    return phrases.gave(one.verdict, one.kind, person.name), when(one.at)
