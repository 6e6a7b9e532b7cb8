"""Ask a person about a pending approval, until it is decided or skipped."""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.cli.option_values import as_meant
from holdfast.cli.prompts.answers import AnswerSource, InputEndedError
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import question_text
from holdfast.client.errors import HoldfastError
from holdfast.client.question_text import parse_call_ids, strike_calls
from holdfast.runtime.narration.phrases import QUESTIONS, Choice
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import as_json, clean, one_line
from holdfast.schemas.base import canonical_json
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.validation.lenient_json import exact_json
from holdfast.validation.problems import problems_of, summarize_problems

MAX_TRIES = 100


class _Back(Exception):
    """Back to the options; the message is the reason, empty if the person chose it."""


async def ask_decision(
    waiting: PendingApproval, answers: AnswerSource, screen: PlainScreen
) -> Decision | None:
    """Show the call, ask, and return the decision; `None` where it was skipped.

    Raises:
        InputEndedError: there are no more answers.
    """
    screen.show_approval(waiting, asked=True)
    options = QUESTIONS[waiting.kind].choices
    with screen.pause_for_input():
        for _ in range(MAX_TRIES):
            answers.forget_typed()
            answer = (await _line(question_text.prompt(waiting), answers, screen)).strip().lower()
            option = next((option for option in options if option.means(answer)), None)
            if option is None:
                labels = ", ".join(option.label for option in options)
                screen.print_note(f"Answer with one letter: {labels}.")
            elif option.verdict is None:
                return None
            else:
                try:
                    return await _decision(waiting, option, answers, screen)
                except _Back as back:
                    if reason := str(back):
                        screen.print_note(reason)
    return None


async def _decision(
    waiting: PendingApproval, option: Choice, answers: AnswerSource, screen: PlainScreen
) -> Decision:
    fields: dict[str, Any] = {}
    match verdict := option.verdict:
        case "edit" if option.strikes:
            text = "Strike out which calls, such as t1c2 t1c3 (empty: back): "
            struck = parse_call_ids(await _line(text, answers, screen))
            if not struck:
                raise _Back
            try:
                fields["arguments"] = strike_calls(waiting, struck)
            except HoldfastError as error:
                raise _Back(f"That is not possible: {error}.") from error
        case "edit":
            fields["arguments"] = await _edited(waiting, answers, screen)
        case "deny":
            # The decision itself was given, even if the input ends before the reason.
            with contextlib.suppress(InputEndedError):
                fields["reason"] = (
                    await _line("Reason (the model reads it): ", answers, screen) or None
                )
        case "respond" | "happened":
            text = f"{QUESTIONS[waiting.kind].answer} (JSON or text; empty: back): "
            fields["result"] = _result((await _line(text, answers, screen)).strip())
        case "did_not_happen":
            number = str(len(waiting.attempts) + 1)
            text = (
                f"To run it {QuestionView.of(waiting).next_attempt}, type {number} (empty: back): "
            )
            if (await _line(text, answers, screen)).strip() != number:
                raise _Back("Nothing was decided.")
    fields |= {"callId": waiting.call_id, "digest": waiting.digest, "nonce": waiting.nonce}
    fields["decision"] = verdict
    fields |= {"by": answers.approver.name, "groups": answers.approver.groups}
    try:
        return Decision.model_validate(fields)
    except ValidationError as error:
        problems = summarize_problems(problems_of(error, fields, Decision))
        raise _Back(f"That is not possible: {clean(problems)}") from error


def _result(line: str) -> Any:
    if not line:
        raise _Back
    try:
        return as_meant(line)
    except ArgumentTypeError as error:
        raise _Back(f"That is not possible: {error}.") from error


async def _edited(waiting: PendingApproval, answers: AnswerSource, screen: PlainScreen) -> Any:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if answers.terminal and editor:
        text = _edited_text(editor, answers.draft or as_json(waiting.arguments, indent=2))
    else:
        screen.print_note(f"Arguments now: {as_json(waiting.arguments)}")
        prompt = "All arguments as JSON (empty: back): "
        if answers.terminal and answers.draft:
            text = await answers.edited_line(prompt)
        else:
            text = await _line(prompt, answers, screen)
        if not text.strip():
            raise _Back
    answers.keep_draft(text)
    try:
        arguments = exact_json(text)
        is_same = canonical_json(arguments) == canonical_json(waiting.arguments)
    except (ValueError, RecursionError) as error:
        raise _Back(f"That is no JSON: {error}.") from error
    if is_same:
        raise _Back("Nothing was changed.")
    return arguments


def _edited_text(editor: str, text: str) -> str:
    """Return the text as it is when the person's editor ends.

    The event loop blocks meanwhile: the editor has the terminal. Ctrl-C reaches every program on
    the terminal, and is the editor's.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
            path = Path(folder, "arguments.json")
            path.write_text(f"{text}\n", encoding="utf-8")
            status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
            edited = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        name = one_line(editor, 100)
        raise _Back(f"The editor `{name}` returned no arguments: {error}.") from error
    finally:
        signal.signal(signal.SIGINT, before)
    if status != 0 or not edited.strip():
        raise _Back
    return edited


async def _line(prompt: str, answers: AnswerSource, screen: PlainScreen) -> str:
    screen.prompt(prompt)
    line = await answers.line()
    if not answers.terminal:
        screen.print_note(one_line(line, 200))  # no terminal has shown it
    return line
