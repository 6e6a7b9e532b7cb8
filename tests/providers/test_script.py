"""A script gives the same answer to the same conversation, and otherwise behaves like a model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog.endpoints import load_script
from holdfast.providers.base import ContextOverflow, ProviderRequest, ToolNames, UnanswerableRequest
from holdfast.providers.script import ScriptProvider
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.message import ChatMessage, DataPart
from tests.providers.fakes import ReceivedText, ask, chat_message
from tests.support.eventually import eventually


def script(folder: Path, text: str) -> ScriptProvider:
    file = folder / "script.yaml"
    file.write_text(text)
    return load_script(file)


async def play(
    script: ScriptProvider, *messages: ChatMessage, heard: ReceivedText | None = None
) -> Solution:
    fragments = [
        part for message in messages for part in script.encode(message, ToolNames([])).fragments
    ]
    return await script.solve(ProviderRequest(ask(), tuple(fragments)), heard or ReceivedText())


HI, HELLO = chat_message("user", "Hi"), chat_message("assistant", "Hello")


async def test_the_answer_is_chosen_by_how_many_were_given(tmp_path: Path) -> None:
    made = script(tmp_path, "- {text: one}\n- {text: two, times: 2}\n- {text: four}\n")
    answers = [(await play(made, HI, *[HELLO] * given)).text for given in range(4)]
    assert answers == ["one", "two", "two", "four"]
    assert (await play(made, HI, HELLO, chat_message("tool", "x"), HI)).text == "two"


async def test_an_answer_may_have_everything_that_a_model_s_has(tmp_path: Path) -> None:
    text = """
    - text: One moment.
      calls:
        - {tool: rag.query, arguments: {q: †state.x}, id: call_1}
        - {tool: refund, arguments: '{"n": '}
        - {tool: mail}
      usage: {inputTokens: 10, outputTokens: 5}
      stopReason: length
    """
    solution = await play(script(tmp_path, text), HI)
    assert solution.text == "One moment."
    assert [(call.provider_id, call.tool, call.arguments) for call in solution.calls] == [
        ("call_1", "rag.query", {"q": "†state.x"}),
        (None, "refund", '{"n": '),
        (None, "mail", None),  # the answer is cut off
    ]
    assert solution.usage == Usage(input_tokens=10, output_tokens=5)
    assert solution.stop_reason == "length"


async def test_why_it_stopped_follows_from_the_calls(tmp_path: Path) -> None:
    made = script(tmp_path, "- {text: a}\n- {calls: [{tool: mail}]}\n")
    assert (await play(made, HI)).stop_reason == "stop"
    assert (await play(made, HI, HELLO)).stop_reason == "calls"


async def test_the_first_scenario_that_matches_is_played(tmp_path: Path) -> None:
    text = """
    scenarios:
      - {match: '(?i)refund', answers: [{text: about money}]}
      - {match: '^Hi', answers: [{text: a greeting}]}
    """
    made = script(tmp_path, text)
    assert (await play(made, chat_message("user", "A REFUND, please"))).text == "about money"
    parts: Any = [{"type": "text", "text": "Hi"}, {"type": "image", "url": "https://x"}]
    assert (
        await play(made, chat_message("user", parts), chat_message("user", "refund"))
    ).text == "a greeting"
    data = DataPart(kind="input", data={"about": "a refund"})
    assert (await play(made, chat_message("user", [data]))).text == "about money"
    with pytest.raises(UnanswerableRequest, match="no scenario of the script matches `Bye`"):
        await play(made, chat_message("user", "Bye"))


async def test_a_script_that_is_over_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnanswerableRequest, match="no answer left: 1 were given"):
        await play(script(tmp_path, "- {text: one}"), HI, HELLO)


async def test_a_conversation_is_too_long_where_the_script_is_set_so(tmp_path: Path) -> None:
    made = script(tmp_path, "- {text: one}\n- {tooLong: 8000}\n- {text: three}\n")
    assert (await play(made, HI)).text == "one"
    with pytest.raises(ContextOverflow) as refused:
        await play(made, HI, HELLO)
    assert refused.value.window == 8_000


async def test_the_text_is_sent_word_by_word(tmp_path: Path) -> None:
    heard = ReceivedText()
    solution = await play(script(tmp_path, '- text: "Guten  Tag,\\n Welt "'), HI, heard=heard)
    assert heard.texts == ["Guten  ", "Tag,\n ", "Welt "]
    assert solution.text == "Guten  Tag,\n Welt "


async def test_words_come_at_their_pace(tmp_path: Path) -> None:
    made = script(tmp_path, "- {text: one two three, pace: 1h}")
    heard = ReceivedText()
    playing = asyncio.ensure_future(play(made, HI, heard=heard))

    async def has_started() -> bool:
        return bool(heard.texts)

    await eventually(has_started)
    playing.cancel()
    assert heard.texts == ["one "]


async def test_a_long_text_is_sent_in_a_bounded_number_of_pieces(tmp_path: Path) -> None:
    heard = ReceivedText()
    text = "a " * 12_000
    solution = await play(script(tmp_path, f'- text: "{text}"'), HI, heard=heard)
    assert solution.text == text
    assert len(heard.texts) == 10_000


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("- text: a\n- calls:\n    - arguments: {}\n", 3, "`tool` is missing"),
        ("scenarios:\n  - match: '('\n    answers: []\n", 2, "no regular expression"),
        ("- text: a\n  times: 0\n", 2, "write 1 or more"),
        ("- text: a\n  stopReason: bored\n", 2, "`length`"),
        ("answers: []\n", 1, "`scenarios`"),
        ("text", 1, "does not fit"),
    ],
)
def test_what_does_not_load_is_reported_with_its_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    with pytest.raises(LoadError) as error:
        script(tmp_path, text)
    assert f"script.yaml:{line}: " in str(error.value)
    assert reason in str(error.value)
