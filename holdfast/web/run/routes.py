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

import asyncio
import json
import re
import uuid
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
    explain_files,
)
from holdfast.client.remote_run import NO_WORKER_SECONDS, Entry
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.client.start import REQUEST_MEMO
from holdfast.client.stream.heartbeats import AnswerProgress, answer_text, call_lines, progress_line
from holdfast.client.stream.run_feed import RunFeed
from holdfast.client.stream.text_reader import TextDelta
from holdfast.runtime.attachments import FileError, file_part, with_files
from holdfast.runtime.storage.run_files import open_files
from holdfast.runtime.text_safety import as_json, clean
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.log_entry import read_record
from holdfast.schemas.message import Delivered
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.models import NewRun
from holdfast.web.api.runs import begin, principal_of
from holdfast.web.auth.permissions import LISTED, access_of
from holdfast.web.auth.sessions import person_of
from holdfast.web.http.problems import NotPermittedError
from holdfast.web.http.requests import NUMBER, RunRoute, read_form
from holdfast.web.http.streaming import StreamLimit, frame, page_stream
from holdfast.web.message_files import file_response, message_files
from holdfast.web.pages import address, page, reader_texts
from holdfast.web.run.comparison import comparison_view
from holdfast.web.run.snapshot import EntryRange, place, take_snapshot
from holdfast.web.run.timeline import Timeline
from holdfast.web.run.view import build_run_view, may_fork, state_sections
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
    "read": "Nothing was changed: the run has read the message, or it was withdrawn before.",
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


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the pages of runs."""
    pages = RunPages(parts)
    at = "/run/{run}"
    return [
        RunRoute(f"{at}/news", pages.news, "read"),
        RunRoute(f"{at}/earlier", pages.earlier, "read"),
        RunRoute(f"{at}/changes", pages.changes, "read"),
        RunRoute(f"{at}/entry/{{n:number}}", pages.entry, "read"),
        RunRoute(f"{at}/file/{{n:number}}/{{index:number}}", pages.file, "read"),
        RunRoute(f"{at}/state", pages.state, "read"),
        RunRoute(f"{at}/diff", pages.diff, "read"),
        RunRoute(f"{at}/message", pages.message, "message", methods=["POST"]),
        RunRoute(f"{at}/withdraw", pages.withdraw, "message", methods=["POST"]),
        RunRoute(f"{at}/close", pages.close, "message", methods=["POST"]),
        RunRoute(f"{at}/cancel", pages.before_cancel, "cancel", methods=["GET"]),
        RunRoute(f"{at}/cancel", pages.cancel, "cancel", methods=["POST"]),
        RunRoute(f"{at}/fork/{{n:number}}", pages.before_fork, "read", methods=["GET"]),
        RunRoute(f"{at}/fork/{{n:number}}", pages.fork, "read", methods=["POST"]),
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

    async def file(self, request: Request) -> Response:
        """Return a file of a message."""
        run, index = self._run(request), request.path_params["index"]
        part = message_files(read_record(await _entry(run, request.path_params["n"]))).get(index)
        if part is None:
            raise HTTPException(404, "This file does not exist.")
        stored = None
        if part.stored is not None:
            converter = self.parts.client.temporal.data_converter
            with explain_files():
                async with open_files(converter) as files:
                    stored = await files.fetch(run.id, part.stored)
        return await asyncio.to_thread(file_response, part, stored)

    async def state(self, request: Request) -> Response:
        """Show the state that calls read and write."""
        run = self._run(request)
        description = await run.describe()
        try:
            listed = (await run.status()).instances
            own = {name: await run.state(name) for name in listed[:MAX_INSTANCES]}
            shared, more = await run.state(), len(listed) - len(own)
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

    async def diff(self, request: Request) -> Response:
        """Show the run beside another one, or the form for its id."""
        run, other = self._run(request), request.query_params.get("other", "").strip()
        values: dict[str, Any] = {"run": run.id, "other": other, "found": None}
        if other:
            found = await self.parts.compare(person_of(request), run.id, other)
            values |= await asyncio.to_thread(comparison_view, found)
        return page(request, "run/diff.html", **values)

    async def message(self, request: Request) -> Response:
        """Send a message; if that fails, the page keeps its text."""
        form, run = await read_form(request), self._run(request)
        text = str(form.get("text") or "").replace("\r\n", "\n")
        how = str(form.get("delivery"))
        delivery = how if how in _DELIVERIES else "steer"
        status, is_posted, may_be_sent = 409, False, False
        try:
            files = [file_part(name, data) for _, name, data in request.state.files]
            text = text if text.strip() else ""
            wrong = "" if text or files else _EMPTY
            if not wrong and (await run.observe()).closed:
                wrong = _ENDED
            if not wrong:
                audience = _PEOPLE if how == _PEOPLE else "model"
                content = with_files(text, files) if files else text
                message = {"content": content, "delivery": delivery, "audience": audience}
                is_posted = True
                await run.post(Delivered.model_validate(message))
        except FileError as error:
            wrong = f"Not sent: {clean(str(error))}."
        except HoldfastError as error:
            status = 503 if error.exit_code == UNREACHABLE else 409
            may_be_sent = is_posted and error.exit_code == UNREACHABLE
            wrong = f"{'' if may_be_sent else 'Not sent. '}{reader_texts(error)[0]}"
        if wrong:
            # As it was selected: a remark must not reach the model.
            again = how if how in ("message", _PEOPLE) else delivery
            draft = {"run": run.id, "text": text, "delivery": again, "problem": wrong}
            return page(request, "run/message.html", status, may_be_sent=may_be_sent, **draft)
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

    async def before_fork(self, request: Request) -> Response:
        """Ask for the message of a fork."""
        run = self._run(request)
        values = {"turn": request.path_params["n"], "agent": (await self._forked(request)).agent}
        return page(request, "run/fork.html", run=run.id, **values, key=uuid.uuid4().hex)

    async def fork(self, request: Request) -> Response:
        """Start a run that begins with this one; a form that is sent again starts no other."""
        form, run, person = await read_form(request), self._run(request), person_of(request)
        found = await self._forked(request)
        said: dict[str, Any] = {
            "agent": found.agent,
            "taskQueue": found.task_queue,
            "fork": {"run": run.id, "turn": request.path_params["n"]},
        }
        if (text := str(form.get("text") or "").replace("\r\n", "\n")).strip():
            said["input"] = text
        mark = sha256(canonical_json(["fork", person.name, str(form.get("key")), said]))
        id = names.derived_id("http", mark)
        own = principal_of(None, person, any_principal=False)
        asked, new = ApiRequest(request, self.parts, run.id), NewRun.model_validate(said)
        sent = await begin(asked, new, said, own, id, {REQUEST_MEMO: mark})
        return RedirectResponse(address("run", sent), 303)

    async def _forked(self, request: Request) -> RunListing:
        found = RunListing.of(await self._run(request).describe())
        if not may_fork(self.parts.permissions, person_of(request), found):
            raise NotPermittedError("your permissions do not include to fork this run")
        return found

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
    if number > 0:
        async for entry in run.entries(names.CONTEXT, number - 1, number):
            return entry
    raise HTTPException(404, f"The log of {clean(run.id)} has no entry {number}.")


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
    feed, is_over, is_troubled = RunFeed(run), False, False
    async with aclosing(run.looks()) as looks:
        while not is_over:
            look = await anext(looks)
            if isinstance(look, HoldfastError):
                if not is_troubled:
                    yield _frame("trouble", {"text": reader_texts(look)[0]})
                is_over, is_troubled = look.exit_code != UNREACHABLE, True
                continue
            if is_troubled:
                yield _frame("trouble", {"text": ""})
            is_over, is_troubled = look.closed, False
            is_answered = feed.answer.is_over(look.streaming)
            here, found = place(*look.position, look.attempts), list[str]()
            if here != seen or is_answered:
                seen = here
                found.append(_frame("changed", {"answered": is_answered}, here))
            if look.streaming is not None and (
                part := feed.answer.read(look.streaming, skips=True)
            ):
                found.append(_frame("token", token(look.streaming, part)))
            # All pages load the news at once: new text precedes that, but follows an older answer.
            for each in found if is_answered else reversed(found):
                yield each
            for one in feed.new_updates(look):
                yield _frame("update", {"call": one.call_id, "text": progress_line(one)})
    yield _frame("over", {})


def _frame(event: str, data: dict[str, Any], id_: str = "") -> str:
    return frame(event, json.dumps(data), id_)


def token(answer: AnswerProgress, part: TextDelta) -> dict[str, Any]:
    """Return the new part of an answer for the page.

    In composed calling, it is all of it; so it is where text was missing, and is there now.
    """
    turn = answer.turn if answer.is_of_turn(answer.turn) else None
    new: dict[str, Any] = {"key": answer.key, "turn": turn, "attempt": answer.attempt}
    if part.fills_gap or (part.text and answer.composed):
        new["whole"] = clean(answer_text(answer))
    elif part.text:
        new |= {"text": clean(part.text), "gap": part.has_gap}
    if part.calls is not None:
        new["calls"] = call_lines(answer)
    return new
