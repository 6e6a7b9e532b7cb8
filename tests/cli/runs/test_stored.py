"""A result in the worker's store: shown where the store is known, else reported (§12)."""

import io
import sys

import pytest
from temporalio.client import Client

from holdfast.cli.screens.console import unread_output
from holdfast.client.result import RunEnding, with_stored_output
from holdfast.schemas.base import Stored
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunResult

LARGE = 3_000_000


async def test_a_screen_is_shown_how_it_begins_and_how_to_have_all_of_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stored = Stored(sha256="0" * 64, size_bytes=LARGE, beginning="xxx")
    result = RunResult(
        status="completed", output=stored.value(), state={}, turns=0, calls=1, usage=Usage()
    )
    monkeypatch.setattr(sys, "stdout", Terminal())
    ending = await with_stored_output(
        RunEnding("completed", result=result),
        "run-1",
        client.data_converter,
        unread_output("run-1"),
    )
    assert ending.output_error is None
    assert ending.stored_output_note == (
        "3,000,000 bytes, kept outside of Temporal (all of them: holdfast watch run-1 | cat), "
        "begin:\nxxx"
    )
