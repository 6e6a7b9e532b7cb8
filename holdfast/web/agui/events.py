"""The log of a run as AG-UI events, and as the messages of its thread.

Ids derive from the log: `turn-3` is the model's message of a turn, `t3c1` a call, `t3c1.result` its
result, `n7` any other message; a client's own message keeps its id. So all streams have the same.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.client import question_text
from holdfast.runtime.text_safety import as_json
from holdfast.schemas import log_entry as log
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.message import ChatMessage, TextPart

OWN_ID: Final = re.compile(r"n[0-9]+|turn-[0-9]+")
_REASONS: Final = {"call": "tool_call", "input": "input_required"}
Event = dict[str, Any]


class Thread:
    """The messages up to entry `position` of a log, and how much of its turn's text was sent.

    `events` counts its events, which are numbered apart. `own` are the messages of the user that
    the client has, `new` the ids of those that are sent to the run.
    """

    def __init__(self, own: list[Event]) -> None:
        self.position = self.events = 0
        # A message that the client sent twice is sent to the run once.
        self._own = [*{(each["id"], each["content"]): each for each in own}.values()]
        self.new = set[str]()
        self.has_new_state = True
        self._messages: dict[str, Event] = {}
        self._turn, self._in_turn, self._is_answered = 0, False, False
        self._sent = self._tokens = ""

    def snapshot(self) -> Event:
        """Return all messages, in place of those that the client has."""
        messages = [each for each in self._messages.values() if each.keys() > {"id", "role"}]
        unread = [each for each in self._own if each["id"] in self.new]
        return {"type": "MESSAGES_SNAPSHOT", "messages": messages + unread}

    def step(self, change: str) -> list[Event]:
        """Return the change of a turn that is not over."""
        return [{"type": f"STEP_{change}", "stepName": f"turn {self._turn}"}] * self._in_turn

    def token(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """Yield more of the model's text, if a frame has it. JSON is sent whole, by `read`."""
        is_of_turn = data.get("type") == "token" and data["turn"] == self._turn
        if is_of_turn and not self._is_answered:
            self._tokens = self._tokens[: data["offset"]] + data["text"]
            if not self._tokens.lstrip().startswith("{"):
                yield from self._send(self._tokens)

    def read(self, record: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the events of the next entry of the log."""
        self.position = record["n"]
        self.events += record["type"] in log.EVENTS
        match log.read_record(record).entry:
            case log.TurnStartEntry(turn=turn):
                self._turn, self._in_turn, self._is_answered, self._sent = turn, True, False, ""
                yield from self.step("STARTED")
            case log.TurnEndEntry():
                yield from self.step("FINISHED")
                self._in_turn = False
            case log.MessageEntry(message=message):
                yield from self._read_message(message)
            case log.ToolCallEntry(call_id=id, tool=tool, arguments=arguments):
                answer, function = self._answer(), {"name": tool, "arguments": as_json(arguments)}
                call = {"id": id, "type": "function", "function": function}
                answer.setdefault("toolCalls", []).append(call)
                made = {"toolCallId": id, "toolCallName": tool, "parentMessageId": answer["id"]}
                yield {"type": "TOOL_CALL_CHUNK", **made, "delta": function["arguments"]}
            case log.WriteEntry():
                self.has_new_state = True
            case log.NoticeEntry(text=text):
                yield {"type": "CUSTOM", "name": "holdfast:notice", "value": {"text": text}}

    def _read_message(self, message: ChatMessage) -> Iterator[Event]:
        said = message.content if message.said is None else message.said
        parts = [TextPart(text=said)] if isinstance(said, str) else said
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        if message.role == "assistant" and self._in_turn:
            self._is_answered, answer = True, self._answer()
            answer.pop("content", None)  # of several answers in a turn, the last one is it
            yield from self._send(text)
            answer |= {"content": text} if text else {}
        elif message.role == "tool" and not message.imported:
            id, result = f"{message.call_id}.result", {"toolCallId": message.call_id}
            result |= {"role": "tool", "content": text}
            self._messages[id] = {"id": id, **result}
            yield {"type": "TOOL_CALL_RESULT", "messageId": id, **result}
        elif message.role != "tool" and text:
            new = {"role": message.role, "content": text}
            added = {"id": f"n{self.position}", **new}
            known = next((each for each in self._own if each | new == each), added)
            self._own = [each for each in self._own if each is not known]
            self._messages[known["id"]] = known

    def _answer(self) -> Event:
        """Return the model's message of this turn, which is added if there is none."""
        new = {"id": f"turn-{self._turn}", "role": "assistant"}
        return self._messages.setdefault(new["id"], new)

    def _send(self, text: str) -> Iterator[Event]:
        """Yield what is new in the text of the turn; all of it, if it replaces another attempt."""
        if not text.startswith(self._sent):
            self._sent = ""
            yield self.snapshot()  # without the attempt before
        if delta := text[len(self._sent) :]:
            chunk = {"messageId": f"turn-{self._turn}", "role": "assistant", "delta": delta}
            yield {"type": "TEXT_MESSAGE_CHUNK", **chunk}
        self._sent = text


def interrupt_of(run_id: str, waiting: PendingApproval) -> Event:
    """Return the interrupt for a pending approval. Its id has the digest that it is bound to."""
    verdicts = [one.verdict for one in question_text.OPTIONS[waiting.kind] if one.verdict]
    fields: Event = {"decision": {"enum": verdicts}, "reason": {"type": "string"}}
    if "approve" in verdicts:
        fields["approved"] = {"type": "boolean"}
    if "edit" in verdicts:
        fields["editedArgs"] = {"type": "object", "description": "All arguments, as they run."}
    if not {"respond", "happened"}.isdisjoint(verdicts):
        fields["result"] = {"description": "The result, without a call.", **waiting.form}
    return {
        "id": str(SelectedCall.of(run_id, waiting)),
        "reason": _REASONS.get(waiting.kind, f"holdfast:{waiting.kind}"),
        "message": "\n".join(question_text.summary(waiting, 2_000)),
        **({"toolCallId": waiting.call_id} if waiting.kind in _REASONS else {}),
        "responseSchema": {"type": "object", "properties": fields},
        "expiresAt": waiting.expires_at,
        "metadata": {"holdfast": waiting.to_json()},
    }
