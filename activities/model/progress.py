"""What a model has said so far, in the heartbeat of the activity that asks it.

Whoever describes the run reads it there, and history does not grow. The heartbeat also says that
the worker is alive, and brings back that the run was cancelled.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

from temporalio import activity

from holdfast.activities.model.retry_budget import DOUBTFUL_ATTEMPTS, WAITED_SECONDS
from holdfast.providers.base import AnswerSink
from holdfast.providers.streamed_answer import well_formed
from holdfast.runtime.secrets import Secrets, StreamRedactor

MAX_TEXT_CHARACTERS = 16_000
MAX_ARGUMENTS_CHARACTERS = 2_000
MAX_SHOWN_CALLS = 20
MIN_PAUSE_SECONDS = 0.2
# How often an activity without a heartbeat timeout tells that it is there.
DEFAULT_PAUSE_SECONDS = 10.0


class Progress:
    """A sink that keeps the end of what was said. `composed`: the text is an answer in composed
    calling, calls and all; `about` says which request it is. `waited_seconds` is how long it took
    until there was leave to ask, and `doubtful_attempts` how many attempts may have been in vain.
    """

    def __init__(
        self, attempt: int, waited_seconds: float = 0.0, doubtful_attempts: int = 0
    ) -> None:
        self._attempt = attempt
        self._waited_seconds = waited_seconds
        self.doubtful_attempts = doubtful_attempts
        self.composed = False
        self.about: Mapping[str, Any] = {}
        self._text = ""
        self._offset = 0
        self._calls: dict[int, tuple[str, str]] = {}
        self.changed = asyncio.Event()

    def text(self, piece: str) -> None:
        """More of the answer's text."""
        text = self._text + piece
        self._text = text[-MAX_TEXT_CHARACTERS:]
        self._offset += len(text) - len(self._text)
        self.changed.set()

    def call(self, index: int, tool: str, piece: str) -> None:
        """More of the arguments of a call."""
        _, arguments = self._calls.get(index, ("", ""))
        self._calls[index] = (tool, (arguments + piece)[-MAX_ARGUMENTS_CHARACTERS:])
        if len(self._calls) > MAX_SHOWN_CALLS:
            del self._calls[min(self._calls)]
        self.changed.set()

    def details(self) -> dict[str, Any]:
        """The heartbeat: the end of the text and the characters before it, the last calls."""
        calls = [
            {"tool": well_formed(tool), "arguments": well_formed(arguments)}
            for _, (tool, arguments) in sorted(self._calls.items())
        ]
        return {
            "text": well_formed(self._text),
            "offset": self._offset,
            "calls": calls,
            "attempt": self._attempt,
            "composed": self.composed,
            **self.about,
            WAITED_SECONDS: round(self._waited_seconds, 3),
            DOUBTFUL_ATTEMPTS: self.doubtful_attempts,
        }


class RedactingSink:
    """A sink before another one, to which it tells nothing that is secret."""

    def __init__(self, sink: AnswerSink, secrets: Secrets) -> None:
        self._sink = sink
        self._secrets = secrets
        self._text = StreamRedactor(secrets)
        self._arguments: dict[int, StreamRedactor] = {}

    def text(self, piece: str) -> None:
        """More of the answer's text."""
        self._sink.text(self._text.redact_next(piece))

    def call(self, index: int, tool: str, piece: str) -> None:
        """More of the arguments of a call."""
        arguments = self._arguments.setdefault(index, StreamRedactor(self._secrets))
        self._sink.call(index, self._secrets.clean(tool), arguments.redact_next(piece))


@contextlib.asynccontextmanager
async def send_heartbeats(progress: Progress, timeout: timedelta | None) -> AsyncIterator[None]:
    """Send heartbeats of the running activity: soon after its begin and after there is news, and
    often enough for its heartbeat `timeout`.

    A model that answers at once is shown by its answer. What fails at once leaves a heartbeat: the
    next attempt reads it.
    """
    pause_seconds = timeout.total_seconds() / 3 if timeout else DEFAULT_PAUSE_SECONDS
    task = asyncio.create_task(_beat(progress, pause_seconds))
    try:
        yield
    except Exception:
        activity.heartbeat(progress.details())
        raise
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _beat(progress: Progress, pause_seconds: float) -> None:
    shortest_seconds = min(MIN_PAUSE_SECONDS, pause_seconds)
    further_seconds = 0.0  # The first does not wait for news.
    while True:
        await asyncio.sleep(shortest_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(further_seconds):
                await progress.changed.wait()
        progress.changed.clear()
        activity.heartbeat(progress.details())
        further_seconds = pause_seconds - shortest_seconds
