"""The page of one run, and what a person does from it: send a message, close, cancel.

The page takes `?before=N`, the number of an entry; its script requests `/news?after=N` and
`/earlier?before=N`, parts of the page. `/changes` is an event stream of the run's progress and of
the text of its model:

    changed   the run has progressed; `answered`: the streamed answer is in the log now
    token     more of an answer: {key, turn, attempt, text, calls}; `gap`: some text is missing
              before it; `whole`: all of it so far
    update    the progress of a running call: {call, text}
    trouble   the run cannot be read now: {text}
    over      no more events: the run has ended

`id` is the run's position; a client that reconnects with it misses nothing.
"""

import base64
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from holdfast.client.errors import (
    UNREACHABLE,
    HasEndedError,
    HoldfastError,
    NoWorkerError,
    RejectedError,
)
from holdfast.client.remote_run import NO_WORKER_SECONDS, Entry
from holdfast.client.run import Run
from holdfast.client.stream.deltas import CallUpdates
from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.client.stream.live_text import answer_text, call_lines, progress_line
from holdfast.runtime.text_safety import as_json, clean
from holdfast.schemas.log_entry import read_record
from holdfast.schemas.message import Delivered
from holdfast.web.auth.permissions import LISTED, access_of
from holdfast.web.auth.sessions import person_of
from holdfast.web.http.requests import NUMBER, RunRoute, read_form
from holdfast.web.http.streaming import StreamLimit, frame, page_stream
from holdfast.web.pages import address, page
from holdfast.web.run.snapshot import EntryRange, place, read_entries, take_snapshot
from holdfast.web.run.timeline import Timeline, pictures
from holdfast.web.run.view import build_run_view, state_sections
from holdfast.web.services import Services

# The texts of the results, by the parameter of the page that shows them.
ACTION_RESULTS: Final = {
    "steer": "Sent: the model reads it before its next step.",
    "followUp": "Sent: the model reads it when the run would end, and continues.",
    "message": "Sent: the answer appears below.",
    "closed": "Closed: the run ends after this turn.",
    "cancelled": "Cancellation requested. Running calls are cancelled; without a worker, the"
    " run ends as soon as one is back.",
    "people": "Sent: it is in the log, and the model never reads it.",
    "withdrawn": "Withdrawn: the model never reads the message.",
    "read": "Not withdrawn: the run has read the message.",
    "over": "The run had already ended: nothing was changed.",
}
_EMPTY: Final = "Not sent: the message is empty."
_ENDED: Final = "Not sent: the run has ended. Start a new run to continue."
_DELIVERIES: Final = ("steer", "followUp")
_PEOPLE: Final = "people"

# A page is sent within this time; a script requests the rest, and waits longer for it.
PAGE_SECONDS: Final = 2.5
NEWS_SECONDS: Final = NO_WORKER_SECONDS + 5
MAX_INSTANCES: Final = 50
MAX_STREAMS: Final = 100
_PICTURE: Final = {"Content-Security-Policy": "default-src 'none'; sandbox"}


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the pages of runs."""
    pages = RunPages(parts)
    at = "/run/{run}"
    return [
        RunRoute(f"{at}/news", pages.news, "read"),
        RunRoute(f"{at}/earlier", pages.earlier, "read"),
        RunRoute(f"{at}/changes", pages.changes, "read"),
        RunRoute(f"{at}/entry/{{n:number}}", pages.entry, "read"),
        RunRoute(f"{at}/picture/{{n:number}}/{{index:number}}", pages.picture, "read"),
        RunRoute(f"{at}/state", pages.state, "read"),
        RunRoute(f"{at}/message", pages.message, "message", methods=["POST"]),
        RunRoute(f"{at}/withdraw", pages.withdraw, "message", methods=["POST"]),
        RunRoute(f"{at}/close", pages.close, "message", methods=["POST"]),
        RunRoute(f"{at}/cancel", pages.before_cancel, "cancel", methods=["GET"]),
        RunRoute(f"{at}/cancel", pages.cancel, "cancel", methods=["POST"]),
        RunRoute(at, pages.page, LISTED),
    ]


@dataclass(frozen=True)
class RunPages:
    """The pages of runs, and the actions on a run."""

    parts: Services
    streams: StreamLimit = field(default_factory=lambda: StreamLimit(MAX_STREAMS))

    async def page(self, request: Request) -> Response:
        """Show a run; to a person who may not read it, its place in the list."""
        if "read" not in access_of(request).rights:
            return RedirectResponse(f"/run?{urlencode({'run': request.path_params['run']})}", 303)
        before = _number(request, "before")
        shown = await self._view(request, EntryRange(before=before), PAGE_SECONDS)
        result = ACTION_RESULTS.get(request.query_params.get("said", ""), "")
        values: dict[str, Any] = {"result": result, "newest": before is None, "after": None}
        return page(request, "run/page.html", run=shown, **values)

    async def news(self, request: Request) -> Response:
        """Return the new entries."""
        after = _number(request, "after")
        view = partial(self._view, request, EntryRange(after=after), NEWS_SECONDS)
        scope = self.parts.permissions.scope(person_of(request))
        shown = await self._run(request).share(("news", after, scope), view)
        return page(request, "run/news.html", run=shown, after=after)

    async def earlier(self, request: Request) -> Response:
        """Return earlier entries."""
        span = EntryRange(before=_number(request, "before") or 1)
        shown = await self._view(request, span, NEWS_SECONDS, must_answer=True)
        return page(request, "run/entries.html", run=shown, after=None)

    async def changes(self, request: Request) -> Response:
        """Return the event stream, or a refusal where too many are open."""
        run = self._run(request)
        await run.share("description", run.describe)  # raises if the run does not exist
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return page_stream(self.streams, person_of(request).name, run_frames(run, seen))

    async def entry(self, request: Request) -> Response:
        """Show one entry in full."""
        run = self._run(request)
        found = await _entry(run, request.path_params["n"])
        lines = Timeline(run.id).full_lines(found)
        return page(
            request,
            "run/entry.html",
            run=run.id,
            n=found["n"],
            lines=lines,
            record=as_json(found, indent=2),
        )

    async def picture(self, request: Request) -> Response:
        """Return a picture of a message."""
        record = read_record(await _entry(self._run(request), request.path_params["n"]))
        part = pictures(record).get(request.path_params["index"])
        if part is None:
            raise HTTPException(404, "This picture does not exist.")
        try:
            data = base64.b64decode(part.data or "")
        except ValueError:
            raise HTTPException(404, "This picture cannot be read.") from None
        return Response(data, media_type=part.media_type, headers=_PICTURE)

    async def state(self, request: Request) -> Response:
        """Show the state that calls read and write."""
        run = self._run(request)
        description = await run.describe()
        try:
            names = (await run.status()).instances
            own = {name: await run.state(name) for name in names[:MAX_INSTANCES]}
            shared, more = await run.state(), len(names) - len(own)
        except NoWorkerError:
            if description.close_time is None:
                raise
            result = (await run.ending(unread="not read here")).result
            shared, instances = (None, {}) if result is None else (result.state, result.instances)
            own = dict(islice(instances.items(), MAX_INSTANCES))
            more = len(instances) - len(own)
        return page(
            request, "run/state.html", run=run.id, states=state_sections(shared, own), more=more
        )

    async def message(self, request: Request) -> Response:
        """Send a message; if that fails, the page keeps its text."""
        form, run = await read_form(request), self._run(request)
        text = str(form.get("text") or "").replace("\r\n", "\n")
        how = str(form.get("delivery"))
        delivery = how if how in _DELIVERIES else "steer"
        try:
            wrong = "" if text.strip() else _EMPTY
            if not wrong and (await run.observe()).closed:
                wrong = _ENDED
            if not wrong:
                audience = _PEOPLE if how == _PEOPLE else "model"
                message = {"content": text, "delivery": delivery, "audience": audience}
                await run.post(Delivered.model_validate(message))
        except HoldfastError as error:
            wrong = f"Not sent: {clean(str(error))}."
        if wrong:
            draft = {"run": run.id, "text": text, "delivery": delivery, "problem": wrong}
            return page(request, "run/message.html", 409, **draft)
        return _back(run, how if how in ("message", _PEOPLE) else delivery)

    async def withdraw(self, request: Request) -> Response:
        """Take back a message that the run has not read."""
        form, run = await read_form(request), self._run(request)
        number = str(form.get("message"))
        if not re.fullmatch(NUMBER, number):
            raise HTTPException(400, "message must be the number of a queued message, such as 3.")
        try:
            return await _done(run, partial(run.withdraw, int(number)), "withdrawn")
        except RejectedError:
            return _back(run, "read")

    async def close(self, request: Request) -> Response:
        """Close a conversation after its last answer."""
        await read_form(request)
        run = self._run(request)
        return await _done(run, run.close, "closed")

    async def before_cancel(self, request: Request) -> Response:
        """Ask to confirm a cancellation."""
        run = self._run(request)
        if (await run.observe()).closed:
            return _back(run, "over")
        return page(request, "run/cancel.html", run=run.id)

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        await read_form(request)
        run = self._run(request)
        return await _done(run, run.cancel, "cancelled")

    def _run(self, request: Request) -> Run:
        return self.parts.client.run(request.path_params["run"])

    async def _view(
        self, request: Request, span: EntryRange, seconds: float, *, must_answer: bool = False
    ) -> dict[str, Any]:
        seen = await take_snapshot(self.parts, request.path_params["run"], span, seconds)
        if must_answer and seen.problem is not None:
            raise seen.problem
        return await build_run_view(self.parts, seen, access_of(request))


async def _entry(run: Run, number: int) -> Entry:
    found = await read_entries(run, number - 1, number) if number > 0 else []
    if not found:
        message = f"The log of {clean(run.id)} has no entry {number}."
        raise HTTPException(404, message)
    return found[0]


def _number(request: Request, name: str) -> int | None:
    value = request.query_params.get(name)
    if not value:
        return None
    if not re.fullmatch(NUMBER, value):
        raise HTTPException(400, f"{name} must be the number of an entry, such as 100.")
    return int(value)


async def _done(run: Run, act: Callable[[], Awaitable[None]], said: str) -> Response:
    """Act on a run that has not ended, and return to its page with the result."""
    with suppress(HasEndedError):
        if not (await run.observe()).closed:
            await act()
            return _back(run, said)
    return _back(run, "over")


def _back(run: Run, said: str) -> Response:
    return RedirectResponse(f"{address('run', run.id)}?said={said}#now", 303)


async def run_frames(run: Run, seen: str) -> AsyncGenerator[str, None]:
    """Yield the frames of a run until it ends; `seen` is the position of the page."""
    answer, updates, is_over, is_troubled = SentAnswer(), CallUpdates(), False, False
    async with aclosing(run.looks()) as looks:
        while not is_over:
            look = await anext(looks)
            if isinstance(look, HoldfastError):
                if not is_troubled:
                    yield _frame("trouble", {"text": clean(str(look))})
                is_over, is_troubled = look.exit_code != UNREACHABLE, True
                continue
            is_over, is_troubled = look.closed, False
            here, is_answered = place(*look.position, look.attempts), answer.is_over(look.streaming)
            found = list[str]()
            if here != seen or is_answered:
                seen = here
                found.append(_frame("changed", {"answered": is_answered}, here))
            if look.streaming is not None and (more := answer.more(look.streaming)):
                found.append(_frame("token", more))
            # All pages load the news at once: new text precedes that, but follows an older answer.
            for each in found if is_answered else reversed(found):
                yield each
            for one in updates.new(look.updates):
                yield _frame("update", {"call": one.call_id, "text": progress_line(one)})
    yield _frame("over", {})


def _frame(event: str, data: dict[str, Any], id_: str = "") -> str:
    return frame(event, json.dumps(data), id_)


class SentAnswer:
    """The part of a streamed answer that was sent."""

    def __init__(self) -> None:
        self._key, self._end, self._has_gap = "", 0, False
        self._calls: list[Any] = []

    def is_over(self, streaming: AnswerProgress | None) -> bool:
        """Report whether the previous answer is complete: there is another one, or none."""
        key = "" if streaming is None else streaming.key
        over = self._key not in ("", key)
        if key != self._key:
            self._key, self._end, self._has_gap, self._calls = key, 0, False, []
        return over

    def more(self, streaming: AnswerProgress) -> dict[str, Any]:
        """Return the new part of an answer, or nothing.

        In composed calling, it is all of it; so it is where text was missing, and is there now.
        """
        start, is_filled = max(self._end, streaming.offset), self._has_gap and not streaming.offset
        text, new = streaming.text[start - streaming.offset :], dict[str, Any]()
        if text or is_filled:
            new = {"text": clean(text), "gap": start > self._end}
            if streaming.composed or is_filled:
                new = {"whole": clean(answer_text(streaming))}
            self._has_gap = not is_filled and (self._has_gap or start > self._end)
            self._end = start + len(text)
        if streaming.calls != self._calls:
            self._calls = streaming.calls
            new["calls"] = call_lines(streaming)
        is_of_turn = streaming.call is None and not streaming.summary
        about = {"key": streaming.key, "turn": streaming.turn if is_of_turn else None}
        return {**about, "attempt": streaming.attempt, **new} if new else {}
