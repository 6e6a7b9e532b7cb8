"""Describe the log of a run to a person, entry by entry.

A `NarrationLine` is one event. The terminal and the inbox each draw lines in their own way, and
decide nothing else. Every text in a line is clean: see `runtime.text_safety`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast.runtime import text_safety
from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.phrases import NAME_CHARS
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.schemas import log_entry, names
from holdfast.schemas.base import canonical_json, parsed_or_none
from holdfast.schemas.decision import Kind, shown_calls
from holdfast.schemas.message import (
    ChatMessage,
    Content,
    DataPart,
    DocumentPart,
    ImagePart,
    TextPart,
)
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.tool import loop_arguments

Tone = Literal["turn", "plain", "said", "quiet", "good", "bad", "asks"]

# The prefix that a run writes before an untrusted value, possibly below a remark on the arguments.
_UNTRUSTED: Final = re.compile(r'^\{"tool": "(?:[^"\\]|\\.)*", "trusted": false, "value": ', re.M)
_INSTANCE_CHARS = 100
_LIST_CHARS = 200
_SENTENCE_CHARS = 300


@dataclass(frozen=True)
class NarrationLine:
    """One event: the time of day, a keyword, its subject, and the details.

    A `minor` line repeats what the lines around it show, and can be dropped if room is scarce.
    The body of a line from `outside` is untrusted data.
    """

    at: str
    word: str
    text: str = ""
    body: str = ""
    tone: Tone = "plain"
    minor: bool = False
    outside: bool = False


class LogNarration:
    """Describes the entries of one run in order, and remembers its calls to name them later."""

    def __init__(
        self, run_id: str, *, with_all_arguments: bool = False, in_terminal: bool = True
    ) -> None:
        """Start before the first entry.

        Args:
            run_id: the workflow id of the run.
            with_all_arguments: show arguments in full, below the line if they do not fit in it.
            in_terminal: show the `holdfast` command that shows more.
        """
        self._run_id = run_id
        self._with_all_arguments = with_all_arguments
        self._in_terminal = in_terminal
        self._labels: dict[str, str] = {}
        self._instances: dict[str, str] = {}
        self._successes: dict[str, tuple[str, log_entry.ToolEndEntry]] = {}
        self._failed: set[str] = set()
        self._planned: dict[str, dict[str, Any]] = {}
        self._kinds: dict[str, Kind] = {}
        self._quorums: dict[str, int] = {}

    def lines(self, record: log_entry.LogRecord) -> list[NarrationLine]:
        """Return the lines of the next entry; none if it adds nothing for a person."""
        at = text_safety.format_clock(record.at)
        match record.entry:
            case log_entry.MessageEntry(message=message):
                return self._message(at, message)
            case log_entry.ToolEndEntry() as end:
                return self._end(at, end)
            case log_entry.ToolCallEntry() as call:
                return [self._call(at, call)]
            case log_entry.ConfirmationRequiredEntry() as asked:
                return [self._question(at, asked)]
            case log_entry.DecisionEntry() as decision:
                return [self._decision(at, decision)]
            case log_entry.ToolStartEntry() as start:
                return [self._start(at, start)]
            case log_entry.KnowledgeUsedEntry() as used:
                text = f"{self.name(used.call_id, used.name)} (from {used.source})"
                return [NarrationLine(at, "knowledge", text, tone="quiet")]
            case entry:
                line = _plain_line(at, entry)
                return [] if line is None else [line]

    def name(self, call_id: str, tool: str = "") -> str:
        """Return a call's id and label, and its instance: `t2c1 Refund an order of ada`."""
        own = self._labels.get(call_id) or self._labels.get(names.loop_of(call_id))
        label = text_safety.label_in_line(own or tool, NAME_CHARS)
        named = f"{text_safety.one_line(call_id, NAME_CHARS)} {label}".strip()
        return named + self._instances.get(call_id, "")

    def _message(self, at: str, message: ChatMessage) -> list[NarrationLine]:
        # In composed calling, the content is the model's JSON, which includes the calls.
        body = content_text(message.content if message.said is None else message.said)
        if message.imported and message.calls:
            said = [NarrationLine(at, "model", "", body, "said")] if body else []
            how = "before this run: it was not run here"
            for call in message.calls:
                arguments = text_safety.arguments_line(call.arguments)
                text = f"{self.name(call.id, call.tool)}  {arguments}".rstrip()
                said.append(NarrationLine(at, "call", text, how, "quiet"))
            return said
        if message.calls and not body:
            return []  # each call has its own entry
        is_untrusted = is_from_outside(message.content)
        match message.role:
            case "tool":
                call_id = message.call_id or ""
                if call_id in self._failed:
                    return []
                tone: Tone = "bad" if message.is_error else "quiet"
                name = self.name(call_id, message.tool or "")
                result = NarrationLine(at, "result", name, body, tone, outside=is_untrusted)
                if call_id not in self._successes:
                    return [result]
                ended_at, end = self._successes.pop(call_id)
                hidden = None if _contains(message.content, end.value) else end.value
                return [self._success(ended_at, end, hidden, end.details), result]
            case "assistant":
                return [NarrationLine(at, "model", "", body, "said")] if body else []
            case role:
                return [NarrationLine(at, role, "", body, "said", outside=is_untrusted)]

    def _call(self, at: str, call: log_entry.ToolCallEntry) -> NarrationLine:
        self._labels[call.call_id] = call.label or call.tool
        if call.instance:
            self._instances[call.call_id] = _instance(call.instance)
        text, body = self._with_arguments(call)
        waits = text_safety.one_line(", ".join(call.waits_for), _LIST_CHARS)
        reason = text_safety.clean(call.reasoning or "")
        head = [waits and f"waits for {waits}", reason and f"because: {reason}"]
        return NarrationLine(at, "call", text, "\n".join(filter(None, [*head, body])))

    def _with_arguments(
        self, entry: log_entry.ToolCallEntry | log_entry.ToolStartEntry
    ) -> tuple[str, str]:
        """Return the call with its arguments in a line, and the arguments that do not fit in it."""
        name = self.name(entry.call_id, entry.tool)
        if items := self._item_lines(entry.call_id, entry.arguments):
            name += phrases.items_phrase(loop_arguments(entry.arguments))
            return name, "\n".join(items)
        short = text_safety.arguments_line(entry.arguments)
        if self._with_all_arguments and "…" in short:
            return name, text_safety.as_json(entry.arguments, indent=2)
        return f"{name}  {short}".rstrip(), ""

    def _item_lines(self, call_id: str, arguments: Any) -> list[str]:
        """Return a line for each item of a loop: its id, and its arguments."""
        lines = []
        for number, item in enumerate(loop_arguments(arguments) or ()):
            line = phrases.NOT_RUN if item is None else text_safety.arguments_line(item)
            if self._with_all_arguments and "…" in line:
                line = text_safety.as_json(item)
            own = names.item_id(text_safety.one_line(call_id, NAME_CHARS), number)
            lines.append(f"{own}  {line}")
        return lines

    def _question(self, at: str, asked: log_entry.ConfirmationRequiredEntry) -> NarrationLine:
        call_id, approval = asked.call_id, asked.approval
        self._labels.setdefault(call_id, approval.label)
        name = self.name(call_id)
        if asked.forwarded:
            groups = text_safety.one_line(distinct_names(asked.forwarded), _LIST_CHARS)
            return NarrationLine(at, "approval forwarded", f"{name} to {groups}", tone="asks")
        if asked.reminder:
            return NarrationLine(at, "approval reminder", f"{name} ({asked.reminder})", tone="asks")
        self._kinds[call_id], self._quorums[call_id] = approval.kind, approval.quorum
        if approval.kind == "plan":
            # To show what an edit changes.
            calls = shown_calls(approval.arguments)
            self._planned[call_id] = {call["id"]: call.get("arguments") for call in calls}
        what = phrases.QUESTIONS[approval.kind].logged
        rule = QuestionView.of(approval).rule(with_people=True) if approval.rules else ""
        body = f"rule: {rule}" if rule else ""
        return NarrationLine(at, what, name, body, tone="asks", minor=True)

    def _decision(self, at: str, entry: log_entry.DecisionEntry) -> NarrationLine:
        name = self.name(entry.call_id)
        if entry.ignored:
            why = text_safety.one_line(entry.ignored, _SENTENCE_CHARS)
            return NarrationLine(at, "ignored", f"{name}: {why}", tone="bad")
        decided = entry.decided
        if decided is None:
            outcome = text_safety.one_line(entry.outcome or phrases.EXPIRED, _SENTENCE_CHARS)
            return NarrationLine(at, "decided", f"{name}: {outcome}")
        verdict = phrases.decided_phrase(decided, self._kinds.get(entry.call_id, "call"))
        body = [f"reason: {text_safety.clean(decided.reason)}"] if decided.reason else []
        planned = self._planned.get(entry.call_id)
        if planned is not None and isinstance(entry.arguments, Mapping):
            calls = list(shown_calls(entry.arguments))
            bounds = {call["id"]: call["bound"] for call in calls if call.get("bound") is not None}
            edited = {call["id"]: call.get("arguments") for call in calls}
            struck = [text_safety.clean(call_id) for call_id in planned if call_id not in edited]
            body += [f"struck out: {', '.join(struck)}"] if struck else []
            body += (
                f"{text_safety.clean(call_id)}: {text_safety.as_json(arguments)}"
                for call_id, arguments in edited.items()
                if arguments is not None
                and canonical_json(arguments) != canonical_json(planned.get(call_id))
            )
            limits = ((text_safety.clean(one), bounds[one]) for one in bounds)
            body += (f"{one}: within {text_safety.as_json(bound)}" for one, bound in limits)
        elif items := self._item_lines(entry.call_id, entry.arguments):
            body += items
        elif entry.arguments is not None:
            body.append(f"arguments: {text_safety.as_json(entry.arguments)}")
        if decided.remember:
            body.append("and every further call of this tool in this run")
        tone: Tone = "bad" if decided.decision in ("deny", "give_up") else "good"
        word = "decided"
        if entry.outcome is None:
            people = self._quorums.get(entry.call_id, 1)
            # An edit can move the call to a rule with another quorum.
            is_known = people > 1 and decided.decision != "edit"
            must = f"one of {people} people who must" if is_known else "and more people must"
            word, verdict = "counted", f"{verdict}, {must} agree"
        return NarrationLine(at, word, f"{name}: {verdict}", "\n".join(body), tone)

    def _start(self, at: str, start: log_entry.ToolStartEntry) -> NarrationLine:
        text, body = self._with_arguments(start)
        if start.delegate:
            agent = text_safety.one_line(start.delegate, NAME_CHARS)
            watch = text_safety.holdfast_command(
                "watch", names.delegate_id(self._run_id, start.call_id)
            )
            run = f": {watch}" if self._in_terminal else ", in a run of its own"
            body = "\n".join(filter(None, [f"by {agent}{run}", body]))
        # Only arguments that were not shown before are new to the reader.
        minor = start.arguments is None and not start.delegate
        return NarrationLine(at, "started", text, body, "quiet", minor=minor)

    def _end(self, at: str, end: log_entry.ToolEndEntry) -> list[NarrationLine]:
        if end.error is not None:
            self._failed.add(end.call_id)
            code = end.error.code.value
            name = self.name(end.call_id, end.tool)
            body = text_safety.message_after_code(code, end.error.message)
            return [NarrationLine(at, "finished", f"{name}: {code}", body, "bad")]
        if end.value is not None:
            self._successes[end.call_id] = (at, end)
            return []  # the result that the model reads may contain all of it
        return [self._success(at, end, end.details)]

    def _success(self, at: str, end: log_entry.ToolEndEntry, *values: Any) -> NarrationLine:
        body = "\n".join(text_safety.as_text(value) for value in values if value is not None)
        name = self.name(end.call_id, end.tool)
        return NarrationLine(at, "finished", name, body, "good", minor=not body)


def is_from_outside(content: Content) -> bool:
    """Return whether the model reads all or a part of the content as untrusted data."""
    if isinstance(content, str):
        return _UNTRUSTED.search(content) is not None
    return any(_UNTRUSTED.search(part.text) for part in content if isinstance(part, TextPart))


def _plain_line(at: str, entry: log_entry.Entry) -> NarrationLine | None:
    """Return the line of an entry that is about no call."""
    match entry:
        case log_entry.WriteEntry():
            path = f"{text_safety.one_line(entry.path, _LIST_CHARS)}{_instance(entry.instance)}"
            how = "" if entry.method == "set" else f" ({entry.method})"
            value = text_safety.one_line(text_safety.as_json(entry.value), _SENTENCE_CHARS)
            return NarrationLine(at, "wrote", f"{path}{how} = {value}", tone="quiet")
        case log_entry.BudgetThresholdEntry():
            used, limit = map(text_safety.format_argument, (entry.used, entry.limit))
            return NarrationLine(
                at, "budget threshold", f"{entry.budget}: {used} of {limit} used", tone="asks"
            )
        case log_entry.TurnStartEntry():
            return NarrationLine(at, "turn", str(entry.turn), tone="turn")
        case log_entry.SkillEntry():
            sure = "" if entry.confidence is None else f", confidence {entry.confidence:g}"
            by = f" ({phrases.SKILL_CHOSEN[entry.by]}{sure})"
            why = f"because: {text_safety.clean(entry.reason)}" if entry.reason else ""
            return NarrationLine(
                at, "skill", text_safety.one_line(entry.skill, NAME_CHARS) + by, why
            )
        case log_entry.ForkedEntry():
            source = text_safety.one_line(entry.forked_from, NAME_CHARS)
            what = f"from {source} after turn {entry.turn}; the entries above are of that run"
            return NarrationLine(at, "forked", what, tone="asks")
        case log_entry.RemarkEntry():
            return NarrationLine(at, "remark", entry.role, content_text(entry.content), "said")
        case log_entry.SummaryEntry():
            replaced = f"the model reads this in place of entries 1 to {entry.upto}"
            return NarrationLine(at, "summary", replaced, text_safety.clean(entry.text), "quiet")
        case log_entry.NoticeEntry():
            return NarrationLine(at, "notice", text_safety.one_line(entry.text, 1000), tone="asks")
    return None


def _instance(instance: str | None) -> str:
    return f" of {text_safety.name_in_line(instance, _INSTANCE_CHARS)}" if instance else ""


def _contains(content: Content, value: Any) -> bool:
    """Return whether the model reads all of a result.

    The model reads the result unchanged, marked as untrusted, or below a remark on its arguments.
    """
    if not isinstance(content, str):
        return False
    if isinstance(value, str) and content.endswith(value):
        return True
    shown = parsed_or_none(content.rpartition("\n")[2])
    is_untrusted = isinstance(shown, dict) and shown.get("trusted") is False
    return value == shown or (is_untrusted and value == shown.get("value"))


def content_text(content: Content) -> str:
    """Return the content of a message as text, with a name in place of each other part."""
    if isinstance(content, str):
        return text_safety.clean(content)
    texts = []
    for part in content:
        match part:
            case TextPart():
                if part.name is not None:
                    texts.append(f"[{text_safety.one_line(part.name, NAME_CHARS)}]")
                texts.append(text_safety.clean(part.text))
            case DataPart():
                kind = text_safety.one_line(part.kind, NAME_CHARS)
                texts.append(f"{kind}{_instance(part.instance)}: {text_safety.as_json(part.data)}")
            case DocumentPart():
                texts.append(f"[{text_safety.one_line(part.name or part.media_type, NAME_CHARS)}]")
            case ImagePart(url=str(url)):
                texts.append(f"[image {text_safety.one_line(url, _LIST_CHARS)}]")
            case ImagePart():
                name = part.name or part.media_type or "image"
                texts.append(f"[{text_safety.one_line(name, NAME_CHARS)}]")
    return "\n".join(texts)
