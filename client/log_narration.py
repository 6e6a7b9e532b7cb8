"""A run's log told to a person: each entry in the words of somebody who was there.

A `NarrationLine` is one thing that happened. The screens draw lines in their own ways and decide on
nothing else. Every text in a line is clean: see `runtime.text_safety`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast.runtime.text_safety import (
    arguments_line,
    as_json,
    as_text,
    clean,
    format_clock,
    holdfast_command,
    message_after_code,
    one_line,
)
from holdfast.schemas import names
from holdfast.schemas.plan import calls_shown

Tone = Literal["turn", "plain", "said", "quiet", "good", "bad", "asks"]
Entry = Mapping[str, Any]

_NAME_CHARS = 80
_WAITS_CHARS = 200
IN_LINE: Final = "for its turn at the model (maxRequestsPerMinute)"
# As a run writes it before a value, below a remark on the arguments perhaps.
_OUTSIDE: Final = re.compile(r'^\{"tool": "(?:[^"\\]|\\.)*", "trusted": false, "value": ', re.M)
DECIDED: Final = {
    "approve": "approved",
    "deny": "denied",
    "edit": "approved with other arguments",
    "respond": "answered",
    "happened": "said to have happened",
    "did_not_happen": "said not to have happened",
    "give_up": "given up",
}
# How a run keeps what people say to its other questions.
_DECIDED_OF: Final[dict[str, dict[str, str]]] = {
    "reconcile": {
        "approve": DECIDED["did_not_happen"],
        "respond": DECIDED["happened"],
        "deny": DECIDED["give_up"],
    },
    "plan": {"edit": "approved with changes"},
    "budget": {"approve": "extended", "edit": "given another limit", "deny": "not extended"},
}


def decided_as(decision: str, kind: str) -> str:
    """A decision on a question of a kind, in the words of whoever was asked it."""
    said = _DECIDED_OF.get(kind, {}).get(decision) or DECIDED.get(decision)
    return said or clean(decision)


@dataclass(frozen=True)
class NarrationLine:
    """One thing that happened: when, what in a word, on what, and at length.

    What is `minor` shows in the lines around it too, and can be left out where room is scarce. What
    comes from `outside` is data of somebody whom nobody vouches for.
    """

    at: str
    word: str
    text: str = ""
    body: str = ""
    tone: Tone = "plain"
    minor: bool = False
    outside: bool = False


class LogNarration:
    """Tells the entries of one run, in order. It remembers the calls, to name them later.

    `whole` tells all arguments of every call, however long they are; `commands` tells what to type
    to see more.
    """

    def __init__(self, run_id: str, *, whole: bool = False, commands: bool = True) -> None:
        self._run_id = run_id
        self._whole = whole
        self._commands = commands
        self._labels: dict[str, str] = {}
        self._whose: dict[str, str] = {}
        self._ended: dict[str, Entry] = {}
        self._failed: dict[str, None] = {}
        self._plans: dict[str, dict[str, Any]] = {}
        self._kinds: dict[str, str] = {}

    def tell(self, entry: Entry) -> list[NarrationLine]:
        """The lines of an entry; none for one that tells a person nothing new."""
        telling = _TELLINGS.get(str(entry.get("type")))
        return telling(self, format_clock(entry.get("at")), entry) if telling else []

    def name(self, entry: Entry) -> str:
        """A call by its id and the name that people know its tool by: `t2c1 Refund an order`; in a
        run with instances, with the one that it is of."""
        call_id = str(entry.get("callId", ""))
        label = self._labels.get(call_id) or str(entry.get("tool") or "")
        return one_line(f"{call_id} {label}", _NAME_CHARS) + self._whose.get(call_id, "")

    def _message(self, at: str, entry: Entry) -> list[NarrationLine]:
        message = entry["message"]
        # In composed calling, the content is the model's JSON, calls and all.
        body = _content(message.get("said", message.get("content", "")))
        if message.get("calls") and not body:
            return []  # each has an entry of its own
        match message["role"]:
            case "tool" if message.get("callId") in self._failed:
                return []
            case "tool":
                tone: Tone = "bad" if message.get("isError") else "quiet"
                outside = is_from_outside(message.get("content"))
                result = NarrationLine(
                    at, "result", self.name(message), body, tone, outside=outside
                )
                return [*self._held(message), result]
            case "assistant":
                return [NarrationLine(at, "model", "", body, "said")] if body else []
            case role:
                outside = is_from_outside(message.get("content"))
                return [NarrationLine(at, clean(role), "", body, "said", outside=outside)]

    def _turn(self, at: str, entry: Entry) -> list[NarrationLine]:
        return [NarrationLine(at, "turn", str(entry["turn"]), tone="turn")]

    def _skill(self, at: str, entry: Entry) -> list[NarrationLine]:
        return [NarrationLine(at, "skill", one_line(str(entry["skill"]), _NAME_CHARS))]

    def _summary(self, at: str, entry: Entry) -> list[NarrationLine]:
        text = f"the model reads this in place of entries 1 to {entry['upto']}"
        return [NarrationLine(at, "summary", text, clean(str(entry["text"])), "quiet")]

    def _call(self, at: str, entry: Entry) -> list[NarrationLine]:
        self._labels[entry["callId"]] = entry.get("label") or entry.get("tool") or ""
        if whose := _whose(entry):
            self._whose[entry["callId"]] = whose
        why = filter(None, [_waits(entry.get("waitsFor")), _because(entry.get("reasoning"))])
        text, arguments = self._given(entry)
        return [NarrationLine(at, "call", text, "\n".join([*why, *arguments]))]

    def _given(self, entry: Entry) -> tuple[str, list[str]]:
        """A call and its arguments in a line; apart from it, those that have no room there."""
        name, short = self.name(entry), arguments_line(entry.get("arguments"))
        if self._whole and "…" in short:
            return name, [as_json(entry["arguments"], indent=2)]
        return f"{name}  {short}".rstrip(), []

    def _asked(self, at: str, entry: Entry) -> list[NarrationLine]:
        self._labels.setdefault(entry["callId"], entry["approval"].get("label", ""))
        if reminder := entry.get("reminder"):
            return [NarrationLine(at, "reminds", f"{self.name(entry)} ({reminder})", tone="asks")]
        self._kinds[entry["callId"]] = str(entry["approval"].get("kind", "call"))
        self._plan(entry["callId"], entry["approval"])
        return [NarrationLine(at, "asks", self.name(entry), tone="asks", minor=True)]

    def _plan(self, plan_id: str, approval: Mapping[str, Any]) -> None:
        """Remember the calls of a plan, to tell later what was changed."""
        if approval.get("kind") == "plan":
            calls = calls_shown(approval.get("arguments") or {})
            self._plans[plan_id] = {call["id"]: call.get("arguments") for call in calls}

    def _decision(self, at: str, entry: Entry) -> list[NarrationLine]:
        name = self.name(entry)
        if ignored := entry.get("ignored"):
            return [NarrationLine(at, "ignored", f"{name}: {one_line(ignored, 300)}", tone="bad")]
        if (decided := entry.get("decided")) is None:
            outcome = one_line(str(entry.get("outcome") or "the wait is over"), 300)
            return [NarrationLine(at, "decided", f"{name}: {outcome}")]
        verdict = decided_as(decided["decision"], self._kinds.get(entry["callId"], "call"))
        planned = self._plans.get(entry["callId"])
        by = f" by {one_line(decided['by'], _NAME_CHARS)}" if decided.get("by") else ""
        by += " (signed)" if decided.get("signed") else ""
        tone: Tone = "bad" if decided["decision"] in ("deny", "give_up") else "good"
        changed = _changed(entry, decided, planned)
        return [NarrationLine(at, "decided", f"{name}: {verdict}{by}", changed, tone)]

    def _start(self, at: str, entry: Entry) -> list[NarrationLine]:
        text, arguments = self._given(entry)
        where = [self._delegate(entry)] if entry.get("delegate") else []
        # Arguments are told where it waited, and they are known only now.
        minor = entry.get("arguments") is None and not where
        return [
            NarrationLine(at, "starts", text, "\n".join([*where, *arguments]), "quiet", minor=minor)
        ]

    def _delegate(self, entry: Entry) -> str:
        """Who carries a call out in a run of its own, and how to see that."""
        agent = one_line(str(entry["delegate"]), _NAME_CHARS)
        if not self._commands:
            return f"by {agent}, in a run of its own"
        run_id = names.delegate_id(self._run_id, str(entry.get("callId")))
        return f"by {agent}: {holdfast_command('watch', run_id)}"

    def _end(self, at: str, entry: Entry) -> list[NarrationLine]:
        if (error := entry.get("error")) is None:
            if entry.get("value") is not None:
                self._ended[entry["callId"]] = entry
                return []  # until the model's form of it is there, which may hold all of it
            return [self._good_end(at, entry, entry.get("details"))]
        self._failed[entry["callId"]] = None
        code = one_line(str(error.get("code")), _NAME_CHARS)
        message = message_after_code(code, str(error.get("message", "")))
        return [NarrationLine(at, "ends", f"{self.name(entry)}: {code}", message, "bad")]

    def _held(self, message: Entry) -> list[NarrationLine]:
        """The end of a call whose value was held back: told where its result does not show it."""
        if (entry := self._ended.pop(str(message.get("callId")), None)) is None:
            return []
        hidden = not _shows(message.get("content"), entry["value"])
        value = entry["value"] if hidden else None
        return [self._good_end(format_clock(entry.get("at")), entry, value, entry.get("details"))]

    def _good_end(self, at: str, entry: Entry, *values: Any) -> NarrationLine:
        shown = [as_text(value) for value in values if value is not None]
        return NarrationLine(
            at, "ends", self.name(entry), "\n".join(shown), "good", minor=not shown
        )

    def _write(self, at: str, entry: Entry) -> list[NarrationLine]:
        how = "" if entry.get("method", "set") == "set" else f" ({clean(entry['method'])})"
        value = one_line(as_json(entry.get("value")), 300)
        text = f"{one_line(entry['path'], 200)}{_whose(entry)}{how} = {value}"
        return [NarrationLine(at, "writes", text, tone="quiet")]

    def _notice(self, at: str, entry: Entry) -> list[NarrationLine]:
        return [NarrationLine(at, "notice", one_line(entry["text"], 1000), tone="asks")]


_TELLINGS: Final[dict[str, Callable[[LogNarration, str, Entry], list[NarrationLine]]]] = {
    "message": LogNarration._message,
    "write": LogNarration._write,
    "decision": LogNarration._decision,
    "notice": LogNarration._notice,
    "skill": LogNarration._skill,
    "summary": LogNarration._summary,
    "turn_start": LogNarration._turn,
    "tool_call": LogNarration._call,
    "confirmation_required": LogNarration._asked,
    "tool_start": LogNarration._start,
    "tool_end": LogNarration._end,
}


def is_from_outside(content: Any) -> bool:
    """Whether what a message says is told the model as data from outside: all of it or a part."""
    if isinstance(content, str):
        return _OUTSIDE.search(content) is not None
    texts = (part.get("text") for part in content or [] if isinstance(part, Mapping))
    return any(isinstance(text, str) and _OUTSIDE.search(text) is not None for text in texts)


def _waits(calls: Any) -> str:
    if not (isinstance(calls, list) and calls):
        return ""
    return f"waits for {one_line(', '.join(map(str, calls)), _WAITS_CHARS)}"


def _whose(entry: Entry) -> str:
    """The instance that it is about, in a run with instances."""
    return f" of {one_line(str(entry['instance']), 100)}" if entry.get("instance") else ""


def _shows(content: Any, value: Any) -> bool:
    """Whether what the model reads of a result holds all of it, though in another form: said to be
    from outside, or below a remark on its arguments."""
    if not isinstance(content, str):
        return False
    if isinstance(value, str) and content.endswith(value):
        return True
    try:
        shown = json.loads(content.rpartition("\n")[2])
    except (ValueError, RecursionError):
        return False
    from_outside = isinstance(shown, dict) and shown.get("trusted") is False
    return value == shown or (from_outside and value == shown.get("value"))


def _because(reasoning: Any) -> str:
    return f"because: {clean(reasoning)}" if isinstance(reasoning, str) and reasoning else ""


def _changed(
    entry: Entry, decided: Mapping[str, Any], planned: Mapping[str, Any] | None = None
) -> str:
    parts = [f"reason: {clean(decided['reason'])}"] if decided.get("reason") else []
    if planned is not None and isinstance(entry.get("arguments"), Mapping):
        parts += _changed_in(planned, entry["arguments"])
    elif entry.get("arguments") is not None:
        parts.append(f"arguments: {as_json(entry['arguments'])}")
    if decided.get("remember"):
        parts.append("and every further call of this tool in this run")
    return "\n".join(parts)


def _changed_in(planned: Mapping[str, Any], edit: Mapping[str, Any]) -> list[str]:
    """What an edit changes in a plan."""
    given = {call["id"]: call.get("arguments") for call in calls_shown(edit)}
    struck = [clean(one) for one in planned if one not in given]
    others = [
        f"{clean(one)}: {as_json(arguments)}"
        for one, arguments in given.items()
        if arguments is not None and arguments != planned.get(one)
    ]
    return [*([f"struck out: {', '.join(struck)}"] if struck else []), *others]


def _content(content: Any) -> str:
    """The content of a message as text; what is no text is named."""
    if isinstance(content, str):
        return clean(content)
    return "\n".join(_part(part) for part in content or [])


def _part(part: Mapping[str, Any]) -> str:
    match part:
        case {"kind": kind, "data": data}:
            whose = _whose({"instance": part.get("_instance")})
            return f"{one_line(str(kind), _NAME_CHARS)}{whose}: {as_json(data)}"
        case {"text": text}:
            return clean(str(text))
        case {"url": url}:
            return f"[image {one_line(str(url), 200)}]"
        case _:
            return f"[{one_line(str(part.get('mediaType', 'image')), _NAME_CHARS)}]"
