"""The codec endpoint: shows the content of encrypted payloads to authorized users.

Temporal's UI and its command line query it; the server of Temporal never does. The content is
secret, so no response may be cached, and every request is checked:

    name of the endpoint ─► page of origin ─► session, or secret ─► work

Programs send the secret as `Authorization: Bearer`. A user enters it once on the endpoint's own
page, which sets a session cookie: random, known to this process only, and of limited life.
"""

import asyncio
import base64
import hashlib
import json
import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import Final
from urllib.parse import parse_qsl

from google.protobuf.json_format import MessageToJson, Parse, ParseDict, ParseError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import PayloadCodec

from holdfast.runtime.encryption.codec import DecryptError
from holdfast.runtime.storage import locations
from holdfast.runtime.storage.store import Store, StoreError
from holdfast.schemas import names
from holdfast.web.auth.sessions import delete_cookie, read_cookie, set_cookie
from holdfast.web.http import serving
from holdfast.web.http.origins import hosts_of, own_origins
from holdfast.web.http.problems import RefusedRequest, forbidden, unauthorized
from holdfast.web.http.requests import read_body
from holdfast.web.http.shared_secret import Secret, digest, keep_newest
from holdfast.web.pages import ENVIRONMENT

MAX_PAYLOADS = 1_000
# Payloads that are decompressed or read from a store are larger than the request.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_TOLD_REASONS = 100
_TYPE = ExternalStorageReference.DESCRIPTOR.full_name.encode()

logger = logging.getLogger("holdfast")


class StoredReferences(PayloadCodec):
    """Replaces references to a store by their content."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Leave them as they are: only workers put anything into the store."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Replace the references among the payloads by their content.

        Raises:
            DecryptError: the store does not have it.
        """
        return [
            await self._fetch(payload) if payload.metadata.get("messageType") == _TYPE else payload
            for payload in payloads
        ]

    async def _fetch(self, payload: Payload) -> Payload:
        try:
            reference = Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
        except (ParseError, UnicodeDecodeError):
            raise DecryptError("this is no reference to a store", "see who has sent it") from None
        if reference.driver_name != names.STORE:
            wrong = f"this is in another store, {reference.driver_name!r}"
            raise DecryptError(wrong, "request it from the endpoint of that store")
        try:
            return await self._store.fetch_payload(reference.claim_data.get("sha256", ""))
        except StoreError as error:
            raise DecryptError(error.reason, error.fix) from None


class Protocol:
    """A codec, and a codec that replaces references to a store by their content.

    `stored` raises `DecryptError` for what the store does not have.
    """

    def __init__(self, codec: PayloadCodec, stored: PayloadCodec | None = None) -> None:
        self._codec, self._stored = codec, stored
        self._told: set[str] = set()

    async def answer(self, verb: str, body: bytes, *, keeps_references: bool) -> str:
        """Return the response of the endpoint to `verb`.

        Raises:
            RefusedRequest: the verb does not exist, or it fails.
        """
        payloads = await asyncio.to_thread(_read, body)
        match verb:
            case "encode":
                found = await self._codec.encode(payloads)
            case "decode":
                found = await self._opened(payloads, None if keeps_references else self._stored)
            case "download" if self._stored is not None:
                found = await self._opened(payloads, self._stored, all_or_none=True)
            case "download":
                raise RefusedRequest(
                    404, "this endpoint has no store; start it with `--store PLACE`"
                )
            case _:
                raise RefusedRequest(404, "this endpoint has only decode, encode and download")
        return await asyncio.to_thread(MessageToJson, Payloads(payloads=found), indent=None)

    async def _opened(
        self, payloads: Sequence[Payload], stored: PayloadCodec | None, *, all_or_none: bool = False
    ) -> list[Payload]:
        found: list[Payload] = []
        for payload in payloads:
            try:
                opened = [payload] if stored is None else await stored.decode([payload])
                found += await self._codec.decode(opened)
            except DecryptError as error:
                # Once for each reason: a page of the UI requests a hundred payloads of one key.
                reason = str(error)
                if reason not in self._told and len(self._told) < MAX_TOLD_REASONS:
                    self._told.add(reason)
                    logger.warning("a payload could not be read: %s", reason)
                if all_or_none:
                    sentence = "that cannot be read; see the log of this endpoint"
                    raise RefusedRequest(502, sentence) from None
                found.append(payload)
            if sum(len(each.data) for each in found) > MAX_ANSWER_BYTES:
                raise RefusedRequest(
                    413, "these payloads are too large for one answer; request fewer"
                )
        return found


def _read(body: bytes) -> list[Payload]:
    # The response never quotes the invalid body, which may be secret.
    misread = RefusedRequest(400, 'write {"payloads": […]}, as JSON of Protobuf')
    try:
        value = json.loads(body)
        if len(value.get("payloads", [])) > MAX_PAYLOADS:
            raise RefusedRequest(413, f"send at most {MAX_PAYLOADS} payloads at a time")
        # A newer UI may send fields that are unknown here.
        return [*ParseDict(value, Payloads(), ignore_unknown_fields=True).payloads]
    except (ValueError, ParseError, RecursionError, AttributeError, TypeError):
        raise misread from None


_PAGE: Final = ENVIRONMENT.get_template("codec/page.html")
_STYLE_HASH = base64.b64encode(
    hashlib.sha256(ENVIRONMENT.get_template("codec/style.css").render().encode()).digest()
).decode()
# The browser must send the origin of the form, so the referrer policy is not `no-referrer`.
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}

# Temporal accepts at most 4 MB at once, which are 5.4 MB in base64.
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_FORM_BYTES = 4 * 1024
PREFLIGHT_SECONDS = 600
SESSION_SECONDS = 8 * 3600
MAX_SESSIONS = 1_000

_COOKIE = "codec"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type, x-namespace, authorization",
    "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
}
_EVERY_ANSWER = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

Handler = Callable[[Request], Awaitable[Response]]


class CodecSessions:
    """The sessions of users who entered the secret. Only digests are kept, in memory."""

    def __init__(self) -> None:
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def open(self) -> str:
        """Return the secret of a new session; the oldest sessions end if there are too many."""
        session = secrets.token_urlsafe(32)
        self._ends[digest(session)] = monotonic() + SESSION_SECONDS
        keep_newest(self._ends, MAX_SESSIONS)
        return session

    def left_seconds(self, session: str) -> int:
        """Return the seconds until the session ends; 0 for none."""
        return max(0, math.floor(self._ends.get(digest(session), 0.0) - monotonic()))

    def close(self, session: str) -> None:
        self._ends.pop(digest(session), None)


class CodecEndpoint:
    """The endpoint: the handlers of its addresses.

    `origins` are those of allowed pages, `own` those of the endpoint.
    """

    def __init__(
        self, protocol: Protocol, secret: str, origins: frozenset[str], own: frozenset[str]
    ) -> None:
        self._protocol, self._origins, self._own = protocol, origins, own
        self._hosts = hosts_of(own)
        self._secret = Secret(secret, "the secret of this codec endpoint")
        self._sessions = CodecSessions()

    def app(self) -> Starlette:
        """Return the endpoint as an ASGI application."""
        return Starlette(
            routes=[
                Route("/", self._guarded(self._page)),
                Route("/sign-in", self._guarded(self._sign_in), methods=["POST"]),
                Route("/sign-out", self._guarded(self._sign_out), methods=["POST"]),
                # Only the end of the path matters: a namespace may precede it.
                Route("/{path:path}", self._guarded(self._work), methods=["POST", "OPTIONS"]),
            ],
            exception_handlers={HTTPException: _unknown},
        )

    def _guarded(self, handler: Handler) -> Handler:
        """Wrap the handler to check the name of the endpoint and the page of origin."""
        pages = self._origins

        async def answer(request: Request) -> Response:
            origin = request.headers.get("origin")
            answered: Response
            try:
                request.state.origin = self._hosts.get(request.headers.get("host", "").lower())
                if request.state.origin is None:
                    raise RefusedRequest(
                        421, "this endpoint has another name; name this one with `--url`"
                    )
                if origin not in {None, *pages, *self._own}:
                    raise forbidden(
                        "pages of that origin are not allowed; name them with `--origin`"
                    )
                answered = await handler(request)
            except RefusedRequest as refused:
                answered = JSONResponse(
                    {"error": refused.sentence}, refused.status, refused.headers
                )
            answered.headers.update(_EVERY_ANSWER)
            answered.headers["Vary"] = "Origin"
            if origin is not None and origin in pages:
                # These let an allowed page read the response.
                answered.headers["Access-Control-Allow-Origin"] = origin
                answered.headers["Access-Control-Allow-Credentials"] = "true"
            return answered

        return answer

    async def _work(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=_PREFLIGHT)
        # A browser sends the cookie from any page: it is accepted only with an allowed origin.
        by_page = request.headers.get("origin") in self._origins
        if not (by_page and self._sessions.left_seconds(read_cookie(request, _COOKIE))):
            kind, _, shown = request.headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer":
                raise unauthorized("sign in on the page of this endpoint, or send its secret")
            self._secret.check(shown, request)
        body = await read_body(request, ["application/json"], MAX_BODY_BYTES)
        verb = request.url.path.rpartition("/")[2]
        keeps = request.query_params.get("preserveStorageRefs", "").lower() == "true"
        answer = await self._protocol.answer(verb, body, keeps_references=keeps)
        return Response(answer, media_type="application/json")

    async def _page(self, request: Request) -> Response:
        left_seconds = self._sessions.left_seconds(read_cookie(request, _COOKIE))
        shown = _PAGE.render(
            minutes_left=math.ceil(left_seconds / 60),
            wrong="",
            address=request.state.origin,
            origins=sorted(self._origins),
        )
        return HTMLResponse(shown, headers=HEADERS)

    async def _sign_in(self, request: Request) -> Response:
        body = await read_body(request, ["application/x-www-form-urlencoded"], MAX_FORM_BYTES)
        form_secrets = dict(parse_qsl(body.decode("utf-8", "replace")))
        try:
            self._check_own_page(request)
            self._secret.check(form_secrets.get("secret", ""), request)
        except RefusedRequest as refused:
            page = _PAGE.render(minutes_left=0, wrong=refused.sentence)
            return HTMLResponse(page, refused.status, HEADERS | refused.headers)
        answer = RedirectResponse("/", 303)
        set_cookie(answer, request, _COOKIE, self._sessions.open(), SESSION_SECONDS, "strict")
        return answer

    async def _sign_out(self, request: Request) -> Response:
        self._check_own_page(request)
        self._sessions.close(read_cookie(request, _COOKIE))
        answer = RedirectResponse("/", 303)
        delete_cookie(answer, request, _COOKIE)
        return answer

    def _check_own_page(self, request: Request) -> None:
        if request.headers.get("origin") not in self._own:
            raise forbidden("only the page of this endpoint may send this; open it, and try again")


async def _unknown(request: Request, error: Exception) -> Response:
    """Report the only addresses: those that accept a POST, and the page."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = "use POST …/decode, …/encode or …/download, or open the page at /"
    return JSONResponse({"error": sentence}, status, _EVERY_ANSWER)


async def serve_codec(
    codec: PayloadCodec,
    secret: str,
    origins: frozenset[str],
    store: locations.StoreLocation | None,
    host: str,
    port: int,
    url: str | None,
) -> None:
    """Serve the endpoint for the pages of these origins, until it is stopped."""
    async with AsyncExitStack() as stack:
        references = None
        if store is not None:
            opened = await stack.enter_async_context(locations.open_store_at(store, writing=False))
            references = StoredReferences(opened)
        socket = stack.enter_context(serving.open_listener(host, port))
        own = own_origins(host, socket.getsockname()[1], url)
        endpoint = CodecEndpoint(Protocol(codec, references), secret, origins, own)
        shown = f"{serving.public_origin(own)} for {', '.join(sorted(origins))}; sign in there"
        await serving.serve(endpoint.app(), socket, f"codec endpoint ready: {shown}")
