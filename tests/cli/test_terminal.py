"""On a terminal a person sees what happens, is asked, and answers there."""

import asyncio
import os
import pty
import sys
import threading
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.cli import project_commands
from holdfast.cli.screens.live import LiveScreen
from holdfast.client.stream.heartbeats import AnswerProgress
from tests.cli.conftest import Holdfast, Start
from tests.cli.program import CURSOR_UP, HIDE_CURSOR, SHOW_CURSOR
from tests.support.backend import Launch
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.support.process import PYTHON


async def test_what_was_typed_before_the_question_is_no_answer_to_it(
    launch: Launch, start: Start
) -> None:
    thinks = threading.Event()
    backend = await launch(
        [Answer("I think.", [call("pay", amount=5)], hold=thinks), Answer("Ok.")]
    )
    run = await backend.start(["pay"])
    terminal = start("watch", run.id, "--by", "anna", terminal=True)

    await terminal.until("the model answers")
    terminal.type("y\r")
    thinks.set()
    await terminal.until("[s]kip  > ")
    terminal.type("d\r")
    await terminal.until("Reason (the model reads it): ")
    terminal.type("too much\r")
    await terminal.until("completed")

    assert "too much" in (await run.results())["t1c1"]


def test_what_moved_before_a_question_does_not_erase_it() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        screen = LiveScreen(terminal, "run-1")
        with screen.live():
            screen.activity.show_answer(AnswerProgress("7/1", 1, "alpha\nbeta\ngamma", 0, []))
            with screen.pause_for_input():
                screen.prompt("What now? > ")
    drawn = b""
    with suppress(OSError):  # the end of a terminal
        while data := os.read(ours, 65536):
            drawn += data
    os.close(ours)

    after = drawn.decode().partition("What now? > ")[2]
    assert "alpha" in after
    assert CURSOR_UP not in after.partition("alpha")[0]


async def test_a_reader_that_has_enough_is_no_error(launch: Launch) -> None:
    backend = await launch([Answer("Done.")])
    run = await backend.start()
    await run.result()
    command = [sys.executable, "-m", "holdfast", "show", run.id]
    reading, writing = os.pipe()
    os.close(reading)

    program = await asyncio.create_subprocess_exec(*command, stdout=writing, stderr=PIPE)
    os.close(writing)
    _, said = await program.communicate()

    assert (program.returncode, said) == (141, b"")


@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        ("<&- >&- 2>&-", 0, b""),
        (
            ">/dev/full",
            1,
            b"holdfast: the output cannot be written: No space left on device\n",
        ),
    ],
    ids=["closed", "full"],
)
async def test_streams_that_are_closed_or_full_break_no_command(
    tmp_path: Path, streams: str, code: int, said: bytes
) -> None:
    command = f"{PYTHON} -m holdfast init {tmp_path}/desk {streams}"
    program = await asyncio.create_subprocess_exec("sh", "-c", command, stderr=PIPE)
    _, errors = await program.communicate()
    assert (program.returncode, errors) == (code, said)
    assert (tmp_path / "desk/agents").is_dir()


@pytest.mark.parametrize(
    "error", [TimeoutError(), OSError("no port"), PermissionError(13, "Permission denied", "x")]
)
async def test_an_error_that_is_not_of_the_output_is_not_reported_as_one(
    error: OSError, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(**_: object) -> int:
        raise error

    monkeypatch.setattr(project_commands, "demo", fails)
    with pytest.raises(type(error)):
        await holdfast("demo")


async def test_a_program_that_is_ended_leaves_the_terminal_as_it_was(
    launch: Launch, start: Start
) -> None:
    thinks = threading.Event()
    backend = await launch([Answer("I think.", hold=thinks)])
    run = await backend.start()
    terminal = start("watch", run.id, terminal=True)

    assert "I th" in await terminal.until("the model answers")
    hides_keys = not terminal.echoes
    terminal.process.terminate()

    assert await terminal.ended() == 130
    assert hides_keys
    assert terminal.seen.rindex(SHOW_CURSOR) > terminal.seen.rfind(HIDE_CURSOR)
    thinks.set()


async def test_ctrl_c_leaves_the_message_with_the_run(launch: Launch, start: Start) -> None:
    thinks = threading.Event()
    backend = await launch([Answer("Hello."), Answer("Fine, thanks.", hold=thinks)])
    run = await backend.start(conversation=True)

    async def listens() -> bool:
        return bool((await run.status())["status"] == "awaiting_message")

    await eventually(listens)
    sending = start("send", run.id, "How are you?")

    async def asked() -> bool:
        return backend.model.asked(2) > 0

    await eventually(asked)
    sending.interrupt()

    assert await sending.ended() == 130
    assert f"holdfast watch {run.id}" in sending.seen
    thinks.set()
    await run.handle.signal("close")
    assert (await run.result())["output"] == "Fine, thanks."
