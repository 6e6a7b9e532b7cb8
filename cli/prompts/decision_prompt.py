"""Ask a person about a pending approval, until it is decided or skipped."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.cli.option_values import as_meant
from holdfast.cli.prompts.answers import AnswerSource, InputEndedError
from holdfast.cli.screens.screen import Screen
from holdfast.client import question_text
from holdfast.client.question_text import (
    CannotStrikeError,
    DecisionOption,
    parse_call_ids,
    strike_calls,
)
from holdfast.runtime.text_safety import as_json, clean, one_line
from holdfast.schemas.decision import Decision, PendingApproval, Verdict
from holdfast.validation.problems import problems_of, summarize_problems

_MAX_TRIES = 20


async def ask_decision(
    waiting: PendingApproval, answers: AnswerSource, screen: Screen
) -> Decision | None:
    """Show the call, ask, and return the decision; `None` where it was skipped.

    Raises:
        InputEndedError: there are no more answers.
    """
    screen.show_approval(waiting, asked=True)
    with screen.pause_for_input():
        for _ in range(_MAX_TRIES):
            choice = await _choose(waiting, answers, screen)
            if choice.verdict is None:
                return None
            if (decision := await _complete(waiting, choice, answers, screen)) is not None:
                return decision
    return None


async def _choose(
    waiting: PendingApproval, answers: AnswerSource, screen: Screen
) -> DecisionOption:
    choices = question_text.OPTIONS[waiting.kind]
    for _ in range(_MAX_TRIES):
        answers.forget_typed()
        answer = (await _line(question_text.prompt(waiting), answers, screen)).strip().lower()
        for choice in choices:
            if choice.means(answer):
                return choice
        screen.print_note(
            f"Answer with one letter: {', '.join(choice.label for choice in choices)}."
        )
    return choices[-1]


async def _complete(
    waiting: PendingApproval, choice: DecisionOption, answers: AnswerSource, screen: Screen
) -> Decision | None:
    """The decision with what belongs to it; `None` to go back to the choice."""
    said: dict[str, Any] = {}
    match verdict := choice.verdict:
        case "edit" if choice.strikes:
            said["arguments"] = await _struck(waiting, answers, screen)
        case "deny":
            said["reason"] = await _reason(answers, screen)
        case "edit":
            said["arguments"] = await _edited(waiting, answers, screen)
        case "respond" | "happened":
            said["result"] = await _result(verdict, answers, screen)
    if any(value is _BACK for value in said.values()):
        return None
    said |= {"callId": waiting.call_id, "decision": verdict, "digest": waiting.digest}
    said |= {"by": answers.by, "groups": answers.groups}
    try:
        return Decision.model_validate(said)
    except ValidationError as error:
        screen.print_note(
            f"That is not possible: {clean(summarize_problems(problems_of(error, said, Decision)))}"
        )
        return None


# Back to the choice: a result may well be null, so None cannot say it.
_BACK = object()


async def _result(verdict: Verdict, answers: AnswerSource, screen: Screen) -> Any:
    what = "What it returned" if verdict == "happened" else "Your answer in place of the result"
    text = (await _line(f"{what} (JSON or text; empty: back): ", answers, screen)).strip()
    return as_meant(text) if text else _BACK


async def _edited(waiting: PendingApproval, answers: AnswerSource, screen: Screen) -> Any:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if answers.terminal and editor:
        text = _in_editor(editor, as_json(waiting.arguments, indent=2), screen)
    else:
        screen.print_note(f"Arguments now: {as_json(waiting.arguments)}")
        text = await _line("All arguments as JSON (empty: back): ", answers, screen)
    return _changed(text, waiting, screen)


async def _struck(waiting: PendingApproval, answers: AnswerSource, screen: Screen) -> Any:
    said = await _line("Strike out which calls, such as t1c2 t1c3 (empty: back): ", answers, screen)
    struck = parse_call_ids(said)
    if not struck:
        return _BACK
    try:
        return strike_calls(waiting, struck)
    except CannotStrikeError as error:
        screen.print_note(f"That is not possible: {error}.")
        return _BACK


def _changed(text: str, waiting: PendingApproval, screen: Screen) -> Any:
    if not text.strip():
        return _BACK
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        screen.print_note(f"That is no JSON: {error}.")
        return _BACK
    if arguments == waiting.arguments:
        screen.print_note("Nothing was changed.")
        return _BACK
    return arguments


def _in_editor(editor: str, text: str, screen: Screen) -> str:
    """What a person makes of the text; empty where the editor could not be used.

    Everything stands still until the editor is closed: it has the terminal.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder, "arguments.json")
        path.write_text(f"{text}\n", encoding="utf-8")
        try:
            with _interrupts_left_to_it():
                status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
        except (OSError, ValueError) as error:
            screen.print_note(f"The editor `{one_line(editor, 100)}` cannot be started: {error}.")
            return ""
        return path.read_text(encoding="utf-8", errors="replace") if status == 0 else ""


@contextlib.contextmanager
def _interrupts_left_to_it() -> Iterator[None]:
    """Ctrl-C goes to every program on the terminal; while an editor is open it is the editor's."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def _reason(answers: AnswerSource, screen: Screen) -> str | None:
    try:
        return await _line("Reason (it is passed on): ", answers, screen) or None
    except InputEndedError:
        return None  # the decision itself was given


async def _line(prompt: str, answers: AnswerSource, screen: Screen) -> str:
    screen.prompt(prompt)
    line = await answers.line()
    if not answers.terminal:
        screen.print_note(one_line(line, 200))  # no terminal has shown it
    return line
