"""A run whose model takes in so many tokens and no more, and what it reads in each request."""

import json
from typing import Any

from holdfast.activities.model.conversation_cache import CachedConversation, fragments
from holdfast.providers.base import EncodedMessage
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.tool import ResolvedTool
from holdfast.workflows.engine.conversation.summaries import BYTES_PER_TOKEN
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import Play, reply

Message = dict[str, Any]


class Windowed(Play):
    """A run, played to its end with a model of this `window`, a token for every four bytes.

    `says_window`: the window is sent with every answer; `counted`: so are the tokens. `pointers`
    are those of all requests, `read` the messages of each; `refused` counts those that were too
    long.
    """

    def __init__(
        self,
        window: int,
        *tools: ResolvedTool,
        says_window: bool = True,
        counted: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(*tools, **more)
        self.window = window
        self.says_window = says_window
        self.counted = counted
        self.pointers: list[ConversationPointer] = []
        self.read: list[list[Message]] = []
        self.refused = 0

    def to_end(self, steps: int = 500) -> "Windowed":
        super().to_end(steps)
        return self

    def take(self, step: Any) -> None:
        if not isinstance(step, AskModel):
            super().take(step)
            return
        tell = (
            self.run.requests.summary_answered if step.pointer.summary else self.run.model_answered
        )
        tell(self.answer(step.pointer))

    def answer(self, pointer: ConversationPointer) -> Solution:
        """What the model answers, if it can take in what it is asked."""
        messages, ask = conversation(self, pointer)
        self.pointers.append(pointer)
        self.read.append(messages)
        tokens = tokens_of(messages, ask)
        if tokens > self.window:
            self.refused += 1
            return Solution(too_long=True, window=self.window if self.says_window else None)
        usage = Usage(input_tokens=tokens, output_tokens=0) if self.counted else Usage()
        said = self._summary() if pointer.summary else self.model.pop(0)
        window = self.window if self.says_window else None
        return said.model_copy(update={"usage": usage, "window": window})

    def _summary(self) -> Solution:
        if self.summaries:
            return self.summaries.pop(0)
        return reply(f"summary {len(self.records('summary')) + 1}")


def conversation(play: Play, pointer: ConversationPointer) -> tuple[list[Message], Ask]:
    """What a model reads, as the activity composes it, and how it is asked; the digest fits."""
    held = CachedConversation(pointer.since, pointer.origin)
    want = ConversationPageRequest(
        after=pointer.since, upto=pointer.entries, summary=pointer.summary
    )
    page = play.run.settings.page(want)
    assert page.ask is not None
    assert not page.cut
    assert len(page.items) == pointer.entries - pointer.since, "one page has it all"
    for item in page.items:
        held.append(item, _encoded)
    assert held.digest == pointer.digest
    return [json.loads(each) for each in fragments(held.messages(pointer.upto or None))], page.ask


def tokens_of(messages: list[Message], ask: Ask) -> int:
    """What a request takes."""
    offers = [offer.to_json() for offer in ask.tools]
    whole = json.dumps([messages, ask.instructions, offers, ask.tail], ensure_ascii=False)
    return len(whole.encode()) // BYTES_PER_TOKEN


def check_calls(messages: list[Message]) -> None:
    """Check that each call precedes its result, and has one."""
    open_: dict[str, None] = {}
    for message in messages:
        if message["role"] == "tool":
            assert message["callId"] in open_, "a result without its call"
            del open_[message["callId"]]
            continue
        assert not open_, "a call without its result"
        open_ = {call["id"]: None for call in message.get("calls", ())}
    assert not open_, "a call without its result"


def _encoded(message: ChatMessage) -> EncodedMessage:
    return EncodedMessage((json.dumps(message.to_json(), ensure_ascii=False).encode(),))
