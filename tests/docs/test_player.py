"""The player, given pages that lie: if one of them passed, those of `docs/` would prove nothing."""

from pathlib import Path

import pytest
from jsonschema import ValidationError
from temporalio.client import Client

from tests.docs import terminal
from tests.docs.page import steps
from tests.docs.stage import prints, stage
from tests.support.command import CommandOutput


async def play(source: str, client: Client, folder: Path) -> None:
    """Play a page of this source."""
    page = folder / "page.md"
    page.write_text(source, encoding="utf-8")
    with stage(folder, client) as played:
        for step in steps(page):
            await played.play(step)


def block(fence: str, text: str) -> str:
    """A block of a page."""
    return f"```{fence}\n{text}\n```\n\n"


def aborts(state: str) -> str:
    """A command that prints `tea`, and is aborted by Python in this state."""
    said = f"tea\\nFatal Python error: no\\nPython runtime state: {state}\\n"
    return block("sh", f"printf '{said}'; exit 134") + block("text", "tea")


HONEST = [
    aborts("finalizing (tstate=0x1)"),
    block("sh", "echo tea") + block("text", "tea"),
    block("sh", "false  # exit 1") + block("sh", "echo tea"),
    block("sh", "echo tea > cup") + block("sh", "cat cup") + block("text", "tea"),
    block("yaml", "# cups/tea.yaml\nhot: true") + block("sh", "cat cups/*.yaml"),
    block("json cup.json", "{}") + block("sh", "cat cup.json") + block("text", "{}"),
    block("json decision", '{"callId": "t1c1", "decision": "approve"}'),
]


@pytest.mark.parametrize("source", HONEST)
async def test_a_correct_page_is_played(source: str, client: Client, tmp_path: Path) -> None:
    await play(source, client, tmp_path)


WRONG = {
    "an abort before all is done": aborts("initialized"),
    "other words": block("sh", "echo tea") + block("text", "coffee"),
    "less than all": block("sh", "echo tea; echo milk") + block("text", "tea"),
    "part of a line": block("sh", "echo green tea") + block("text", "tea"),
    "a failure that it does not tell": block("sh", "false"),
    "a failure that does not happen": block("sh", "true  # exit 1"),
    "another exit code": block("sh", "sh -c 'exit 3'  # exit 2"),
    "an unknown schema": block("json teapot", "{}"),
    "an excerpt that is none": block("python", "# worker.py\nteapot = True"),
    "the real command's failure": block("sh", "holdfast brew"),
    "the command's failure later": block("sh", "holdfast brew  # exit 2\nholdfast brew"),
}


@pytest.mark.parametrize("lie", WRONG)
async def test_a_page_that_lies_fails(lie: str, client: Client, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await play(WRONG[lie], client, tmp_path)


UNFIT = {
    "an example": block("json decision", '{"callId": "t1c1", "decision": "maybe"}'),
    "a file with its schema": block(
        "yaml", "# tea.yaml\n# yaml-language-server: $schema=schemas/tool.schema.json\n_brew: hot"
    ),
}


@pytest.mark.parametrize("what", UNFIT)
async def test_what_does_not_fit_its_schema_fails(
    what: str, client: Client, tmp_path: Path
) -> None:
    with pytest.raises(ValidationError):
        await play(UNFIT[what], client, tmp_path)


UNKNOWN = {
    "yaml of no file": block("yaml", "hot: true"),
    "json of no schema": block("json", "{}"),
    "another language": block("js", "brew()"),
    "no language": block("", "tea"),
    "output of no command": block("text", "tea"),
    "output of a file": block("yaml", "# tea.yaml\nhot: true") + block("text", "tea"),
    "a fence that is not closed": "```sh\necho tea\n",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_block_of_no_known_kind_fails(what: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(UNKNOWN[what], encoding="utf-8")
    with pytest.raises(ValueError, match=r"^page\.md"):
        steps(page)


async def test_a_command_for_a_shell_is_given_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def here(*words: str) -> CommandOutput:
        return CommandOutput(0, "here", "")

    monkeypatch.setattr(terminal, "holdfast", here)
    typed = terminal.Terminal(tmp_path)
    assert await typed.type("holdfast --help") == "here"
    assert "COMMAND" in await typed.type("holdfast --help | cat")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a b", "a     b\n", True),
        ("a … c", "a b c", True),
        ("a … c", "a b\nc", False),
        ("…\nc", "a\nb\nc", True),
        ("a\n…", "a", True),
        ("a\n…\nc", "a\nb", False),
        ("a.c", "abc", False),
    ],
)
def test_what_is_left_out_is_marked(expected: str, printed: str, same: bool) -> None:
    assert prints(expected, printed) is same
