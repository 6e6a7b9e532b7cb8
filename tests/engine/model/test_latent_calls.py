"""§2: a latent call is answered by a request of its own to the model, with `_output` as schema."""

import json
from typing import Any

from holdfast.schemas.internal.model_request import (
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.tool import ApprovalPolicy, ResolvedTool
from holdfast.workflows.engine.call.outcomes import Failed, Outcome, Succeeded
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.model.latent_calls import Latent
from tests.engine.driver import MODEL, Play, call, reply, tool

OUTPUT = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "score": {"type": "number"}},
    "required": ["mood"],
}


class LatentAnswer:
    """A run whose model makes one latent call, at the moment when it is to be answered."""

    def __init__(self, output: Any = OUTPUT, scopes: tuple[str, ...] = (), **request: Any) -> None:
        guess = ResolvedTool(
            name="guess",
            description="Guess the mood.",
            parameters={"type": "object"},
            output=output,
            scopes=list(scopes),
        )
        self.latents: list[Latent] = []
        self.play = Play(
            guess,
            model=[reply("", call("guess", {"text": "hooray"})), reply("done")],
            outcomes={"guess": self._open},
            definition={"instructions": "Be brief."},
            **request,
        )
        self.play.to_end()
        self.latent = self.latents[0]

    def _open(self, one: ToolCall) -> Outcome:
        self.latents.append(Latent(one, self.play.run.agent, self.play.run.state))
        return Succeeded("whatever")

    def asked(self) -> tuple[ConversationPointer, list[tuple[str, Any]], ConversationPage]:
        """The next request: where it points, the messages up to there, and how it is asked."""
        pointer = self.latent.pointer(1, MODEL)
        page = self.latent.page(ConversationPageRequest(upto=pointer.entries, call="t1c1"))
        found = [ChatMessage.read(json.loads(item)["message"]) for item in page.items]
        return pointer, [(message.role, message.content) for message in found], page


def test_the_model_is_asked_for_the_result_of_one_call_and_offered_no_tools() -> None:
    answering = LatentAnswer()
    pointer, messages, page = answering.asked()

    assert messages == [
        ("user", 'Tool: guess\nWhat it does: Guess the mood.\nArguments: {"text": "hooray"}')
    ]
    assert page.ask is not None
    assert (page.ask.tools, page.ask.tool_choice, page.ask.output) == ([], "none", OUTPUT)
    assert page.ask.instructions.startswith("Be brief.\n\nYou answer one call of a tool")
    assert page.ask.instructions.endswith(json.dumps(OUTPUT))
    assert (pointer.call, pointer.entries) == ("t1c1", 1)


def test_it_sees_of_the_run_what_its_scopes_name() -> None:
    hidden = LatentAnswer(state={"secret": 1}, input="secret").asked()[1]
    shown = LatentAnswer(
        scopes=("state", "context"), state={"to": "fr"}, input="translate"
    ).asked()[1]

    assert "secret" not in str(hidden)
    assert shown[0] == ("user", "translate")
    assert shown[1][1].endswith('state: {"to": "fr"}')


def test_without_a_schema_the_text_is_the_result() -> None:
    answering = LatentAnswer(output=None)
    _, _, page = answering.asked()

    assert page.ask is not None
    assert page.ask.instructions.endswith("Answer with the result alone.")
    assert answering.latent.answered(reply(" ")) is None
    assert answering.latent.answered(reply("a good one")) == Succeeded("a good one")


def test_an_answer_that_does_not_fit_is_reported_and_requested_again() -> None:
    answering = LatentAnswer()
    first, _, _ = answering.asked()
    assert answering.latent.answered(reply('{"mood": "so-so"}')) is None
    second, messages, _ = answering.asked()

    assert messages[1] == ("assistant", '{"mood": "so-so"}')
    assert messages[2][1].startswith("invalid_output: mood")
    assert (second.entries, second.call) == (3, first.call)
    assert second.digest != first.digest
    outcome = answering.latent.answered(reply(""))
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "invalid_output"


def test_an_answer_that_the_provider_refused_is_asked_for_again_and_then_has_failed() -> None:
    latent = LatentAnswer(output=None).latent
    refused = reply(refused="the provider ended the answer without one")
    assert (latent.failure(refused), latent.answered(refused)) == (None, None)
    page = latent.page(ConversationPageRequest(upto=9, call="t1c1"))
    assert f"invalid_output: {refused.refused}. Answer with the result." in page.items[-1]
    assert latent.failure(refused) == refused.refused
    assert latent.failure(reply("good")) is None


def test_the_run_has_the_pages_of_a_latent_call_while_it_runs() -> None:
    answering = LatentAnswer()
    run, want = answering.play.run, ConversationPageRequest(upto=1, call="t1c1")
    assert run.settings.page(want) == ConversationPage(items=[])
    run.settings.latents["t1c1"] = answering.latent

    assert run.settings.page(want) == answering.latent.page(want)
    assert run.settings.page(ConversationPageRequest(upto=1)) != answering.latent.page(want)


GUESS = ResolvedTool(name="guess", parameters={"type": "object"})


def test_an_answer_is_not_that_of_a_call_that_a_person_has_changed() -> None:
    asked = GUESS.model_copy(update={"approval": ApprovalPolicy(require="always")})
    play = Play(
        asked,
        model=[reply("", call("guess", {"of": 1, "_output": "of 1"})), reply("done")],
        decisions={"t1c1": [{"decision": "edit", "arguments": {"of": 2}}]},
        outcomes={"guess": lambda one: f"of {one.arguments['of']}"},
    ).to_end()

    assert play.results()["t1c1"].endswith("of 2")


def test_an_answer_is_not_that_of_a_call_that_reads_what_the_model_has_not_seen() -> None:
    play = Play(
        tool("fetch", output_path="†state.text"),
        GUESS,
        model=[
            reply("", call("fetch"), call("guess", {"of": "†state.text", "_output": "a guess"})),
            reply("done"),
        ],
        outcomes={"fetch": "bad", "guess": lambda one: f"of {one.arguments['of']}"},
    ).to_end()

    assert play.results()["t1c2"] == "of bad"


def test_a_result_that_was_cut_off_is_asked_for_again_and_is_no_result() -> None:
    for output, text in ((None, "hoo"), (OUTPUT, '{"mood": "go')):
        latent = LatentAnswer(output).latent
        latent.pointer(1, MODEL)
        assert latent.answered(reply(text, stop_reason="length")) is None
        latent.pointer(1, MODEL)
        outcome = latent.answered(reply(text, stop_reason="length"))
        assert isinstance(outcome, Failed)
        assert "the answer was cut off (`maxOutputTokens`)" in outcome.error.message
