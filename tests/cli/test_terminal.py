"""On a terminal a person sees what happens, is asked, and answers there."""

import asyncio
import os
import pty
import stat
import sys
import threading
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path

from holdfast.cli.screens.live import LiveScreen
from holdfast.client.stream.heartbeats import AnswerProgress
from tests.cli.conftest import Start
from tests.cli.program import COLUMNS, CURSOR_UP, HIDE_CURSOR, SHOW_CURSOR
from tests.support.backend import Launch
from tests.support.model_server import Answer, call

PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


async def test_a_person_is_asked_and_approves_there_and_then(launch: Launch, start: Start) -> None:
    backend = await launch(PAYS)
    run = await backend.start(["pay"])
    terminal = start("watch", run.id, "--by", "anna", terminal=True)

    panel = await terminal.until("[s]kip  > ")
    terminal.type("y\r")
    after = await terminal.until("completed  2 turns")

    assert "Approval needed: Pay (t1c1)" in panel
    assert "amount  5" in panel
    assert "t1c1 Pay: approved by anna" in after
    assert await terminal.ended() == 0


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


async def test_arguments_are_edited_in_the_persons_editor(
    launch: Launch, start: Start, tmp_path: Path
) -> None:
    backend = await launch(PAYS)
    run = await backend.start(["pay"])
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho 'editing…'\nsed -i 's/5/4/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    terminal = start("watch", run.id, terminal=True, EDITOR=str(editor), VISUAL="")

    await terminal.until("[s]kip  > ")
    terminal.type("e\r")
    await terminal.until("editing…")

    assert await terminal.ended() == 0
    assert '{"paid": 4' in (await run.results())["t1c1"]


async def test_a_refused_edit_is_edited_further_before_another_call_is_asked_about(
    launch: Launch, start: Start
) -> None:
    backend = await launch(
        [Answer("I pay.", [call("pay", amount=5), call("pay", amount=6)]), Answer("Paid.")]
    )
    run = await backend.start(["pay"])
    terminal = start("watch", run.id, terminal=True, EDITOR="", VISUAL="")

    await terminal.until("[s]kip  > ")
    terminal.type("e\r")
    await terminal.until("(empty: back): ")
    terminal.type('{"amount": "much"}\r')
    await terminal.until("Rejected: the edited arguments do not fit")
    asked = await terminal.until("[s]kip  > ")
    terminal.type("e\r")
    await terminal.until('(empty: back): {"amount": "much"}')
    terminal.type("\x7f" * len('"much"}') + "4}\r")
    next_one = await terminal.until("[s]kip  > ")
    terminal.type("s\r")
    await terminal.until("Skipped.")

    assert "(t1c1)" in asked
    assert "(t1c2)" in next_one
    await terminal.until("approved with changes")


async def test_nothing_is_wider_than_80_columns(launch: Launch, start: Start) -> None:
    text = "A long answer. " * 20
    backend = await launch([Answer(text, [call("echo", text="word " * 60)]), Answer("Done.")])
    run = await backend.start(["echo"])
    await run.result()
    terminal = start("watch", run.id, terminal=True)

    assert await terminal.ended() == 0
    lines = terminal.lines
    assert len(lines) > 10
    assert max(map(len, lines)) <= COLUMNS


async def test_ctrl_c_leaves_the_run_alone_and_shows_how_to_return(
    launch: Launch, start: Start
) -> None:
    backend = await launch(PAYS)
    run = await backend.start(["pay"])
    terminal = start("watch", run.id, terminal=True)

    await terminal.until("[s]kip  > ")
    terminal.type("\x03")
    told = await terminal.until(f"holdfast watch {run.id}")

    assert "The run continues" in told
    assert await terminal.ended() == 130
    assert len(await run.waiting()) == 1
    assert "Traceback" not in terminal.seen


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
