"""The provider `script`: answers from a file, for tests and demonstrations. It uses no network.

The next answer depends only on the number of answers in the conversation, so it is the same on
every worker and after every crash. A delegate's run is a conversation of its own, and so is a
latent call.
"""

import asyncio
import json
import re
from typing import Annotated, Any

from pydantic import Field, RootModel, field_validator

from holdfast.providers import base
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.contents import text_of
from holdfast.schemas.base import Duration, Strict
from holdfast.schemas.internal.solution import Solution, StopReason, Usage
from holdfast.schemas.message import ChatMessage

MAX_PIECES = 10_000
_TOO_LONG = "the conversation is too long, by the script"
_ANSWER = b"a"
_USER = b"u"


class ScriptedCall(Strict):
    """A call; its arguments may be a text, as a model's may."""

    tool: str
    arguments: dict[str, Any] | str = ""
    id: str | None = None


class ScriptedUsage(Strict):
    """The reported usage of an answer."""

    input_tokens: Annotated[int, Field(ge=0)] | None = None
    output_tokens: Annotated[int, Field(ge=0)] | None = None
    cached_tokens: Annotated[int, Field(ge=0)] | None = None


class ScriptedAnswer(Strict):
    """One answer, or the same one `times` over. `pace` is the pause between two words.

    With `too_long` there is no answer: the conversation is too long for a model of so many tokens.
    """

    text: str = ""
    calls: list[ScriptedCall] = []
    usage: ScriptedUsage = ScriptedUsage()
    stop_reason: StopReason | None = None
    pace: Duration | None = None
    times: Annotated[int, Field(ge=1)] = 1
    too_long: Annotated[int, Field(ge=1)] | None = None


class Scenario(Strict):
    """The answers of the conversations whose first user message matches `match`.

    Messages of a run's context come before its input; data in a message is tried as JSON.
    """

    match: str = ""
    answers: list[ScriptedAnswer]

    @field_validator("match")
    @classmethod
    def _is_pattern(cls, match: str) -> str:
        try:
            re.compile(match)
        except re.error as error:
            raise ValueError(f"`{match}` is no regular expression: {error}; fix it") from None
        return match


class Scenarios(Strict):
    """A file with several scenarios, of which the first match is used."""

    scenarios: list[Scenario]


class ScriptedAnswers(RootModel[list[ScriptedAnswer]]):
    """A file with one list of answers, for every run."""


class ScriptProvider:
    """Answers with the answers of a file."""

    kind = "script"
    carries: tuple[str, ...] = ("image", "document")

    def __init__(self, script: Scenarios | ScriptedAnswers) -> None:
        if isinstance(script, ScriptedAnswers):
            script = Scenarios(scenarios=[Scenario(answers=script.root)])
        self._scenarios = script.scenarios

    def encode(self, message: ChatMessage, names: base.ToolNames) -> base.EncodedMessage:
        """Encode the parts of a message that the choice of an answer depends on."""
        match message.role:
            case "assistant":
                return base.EncodedMessage((_ANSWER,))
            case "user":
                text = text_of(message.content, lambda _: "")
                return base.EncodedMessage((_USER + text.encode("utf-8", "replace"),))
            case _:
                return base.EncodedMessage()

    async def solve(self, request: base.ProviderRequest, sink: base.AnswerSink) -> Solution:
        """Return the next answer, streamed word by word.

        Raises:
            UnanswerableRequest: the script has none.
            ContextOverflow: the script has an overflow in its place.
        """
        users = (each for each in request.fragments if each.startswith(_USER))
        first = next((each[1:].decode() for each in users), "")
        scenario = next((one for one in self._scenarios if re.search(one.match, first)), None)
        if scenario is None:
            raise base.UnanswerableRequest(
                f"no scenario of the script matches `{first[:200]}`; add one"
            )
        number = answers = request.fragments.count(_ANSWER)
        for scripted in scenario.answers:
            number -= scripted.times
            if number < 0:
                break
        else:
            raise base.UnanswerableRequest(
                f"the script has no answer left: {answers} were given; add another to its file"
            )
        if scripted.too_long is not None:
            raise base.ContextOverflow(400, _TOO_LONG, scripted.too_long)
        answer = StreamedAnswer(sink, request.tool_names)
        answer.usage = Usage(**dict(scripted.usage))
        pause = scripted.pace.total_seconds() if scripted.pace else 0.0
        words = re.split(r"(?<=\s)(?=\S)", scripted.text)
        for word in (*words[: MAX_PIECES - 1], "".join(words[MAX_PIECES - 1 :])):
            answer.add_text(word)
            await asyncio.sleep(pause)
        for call in scripted.calls:
            draft = answer.add_call(call.tool, call.id)
            arguments = call.arguments
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            answer.add_arguments(draft, text)
        return answer.solution(scripted.stop_reason)
