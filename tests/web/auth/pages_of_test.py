"""Pages behind the gate that show what they were given: who asks, and what was sent."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast.web.auth.sessions import person_of
from holdfast.web.http.requests import read_form
from holdfast.web.http.streaming import EventStream, StreamLimit, frame
from holdfast.web.pages import STATIC, ErrorMiddleware


def pages() -> Starlette:
    return Starlette(
        routes=[
            Route("/", _who),
            Route("/run/{run:path}", _who),
            Route("/decide", _page, methods=["GET"]),
            Route("/decide", _form, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/runs", _json, methods=["POST"]),
            Route("/events", _events),
        ],
        middleware=[Middleware(ErrorMiddleware)],
    )


async def _who(request: Request) -> Response:
    person = person_of(request)
    said = {"name": person.name, "groups": person.groups, "scopes": person.scopes}
    return JSONResponse({**said, "form_token": person.form_token})


async def _page(request: Request) -> Response:
    token = person_of(request).form_token
    return HTMLResponse(
        "<!doctype html><html lang=en><title>Decide</title><form method=post>"
        f"<input type=hidden name=form_token value='{token}'>"
        "<label>Reason <textarea name=reason></textarea></label><button>Deny</button></form>"
    )


async def _form(request: Request) -> Response:
    items = (await read_form(request)).multi_items()
    return JSONResponse({"by": person_of(request).name, "fields": [list(each) for each in items]})


async def _json(request: Request) -> Response:
    return JSONResponse({"by": person_of(request).name, "body": await request.json()})


async def _events(request: Request) -> Response:
    async def events() -> AsyncGenerator[str, None]:
        yield frame("started", "")
        await asyncio.Event().wait()

    return EventStream(StreamLimit(1), person_of(request).name, events())
