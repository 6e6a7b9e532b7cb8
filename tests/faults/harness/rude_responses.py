"""How a server of models misbehaves: a table of rows, and what the worker is to make of each.

A row is what goes over the connection in the place of a good answer, byte by byte, so that any
server can send it.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import repeat

from tests.faults.harness.responses import (
    Act,
    Again,
    Final,
    Polite,
    Read,
    Row,
    Speech,
    answers,
    fixed,
    half,
    head,
    in_chunks,
    whole,
)

WORDS = "the kitchen is closed"
MANY_BYTES = 1024 * 1024
LONGEST_SECONDS = 3600.0
_PIECE_BYTES = 64 * 1024
_SLOW_PIECE_BYTES = 40
_SLOW_SECONDS = 0.002
# At the end of a gzip: of what was packed, and its length.
_CHECKSUM_BYTES = 8
_DAYS_SECONDS = 3 * 86_400


def _error(status: int, words: str = WORDS, **more: object) -> bytes:
    return json.dumps({"error": {"message": words, "code": status, **more}}).encode()


# Refusals.


def _refusal(status: int, *headers: str, body: bytes | None = None) -> bytes:
    return whole(f"{status} No", _error(status) if body is None else body, *headers)


def _date(seconds: float, form: str | None = None) -> str:
    """A moment so far from now, in the form of HTTP or an older one."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.strftime(form) if form else format_datetime(moment, usegmt=True)


def refusing_until(status: int, value: Callable[[], str]) -> Callable[[Polite], Speech]:
    """A refusal with this value of `Retry-After`."""
    return lambda _: iter((_refusal(status, f"retry-after: {value()}"),))


_RFC_850, _ASCTIME = "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"
_SOON = (80.0, 90.0)
_DAYS = (LONGEST_SECONDS, LONGEST_SECONDS)
# Each form of `Retry-After`, and after how long the request is made again; None: it is absent.
RETRY_AFTER: dict[str, tuple[Callable[[], str], tuple[float, float] | None]] = {
    "seconds": (lambda: "7", (7, 7)),
    "a fraction": (lambda: "0.4", (0.4, 0.4)),
    "a date to come": (lambda: _date(90), _SOON),
    "a date to come, as in RFC 850": (lambda: _date(90, _RFC_850), _SOON),
    "a date to come, as of asctime": (lambda: _date(90, _ASCTIME), _SOON),
    "a date that is past": (lambda: _date(-90), None),
    "a date in days": (lambda: _date(_DAYS_SECONDS), _DAYS),
    "a date in no calendar": (lambda: f"1 Jan 2026 9:09:09 +{'9' * 30}", None),
    "days in seconds": (lambda: str(_DAYS_SECONDS), _DAYS),
    "an hour and more zeros than there are": (lambda: "1e400", None),
    "zero": (lambda: "0", None),
    "less than zero": (lambda: "-5", None),
    "not a number": (lambda: "nan", None),
    "nonsense": (lambda: "when it pleases us", None),
    "nothing": (lambda: "", None),
    "two of them": (lambda: "3, 5", None),
}


def _refusals() -> Iterator[Row]:
    for status in (408, 409, 425, 429, 500, 502, 503, 504, 529):
        told = f"answered {status}: {WORDS}"
        yield Row(f"{status}", fixed(_refusal(status)), Again(told))
    for name, (value, seconds) in RETRY_AFTER.items():
        told = f"answered 429: {WORDS}"
        yield Row(f"429, retry-after: {name}", refusing_until(429, value), Again(told, seconds))
    for status in (408, 503):
        again = Again(f"answered {status}", (7, 7))
        yield Row(f"{status}, retry-after: seconds", refusing_until(status, lambda: "7"), again)
    in_ms = "retry-after-ms: 250"
    for name, headers in (("", (in_ms,)), (" and seconds", (in_ms, "retry-after: 7"))):
        row = fixed(_refusal(429, *headers))
        yield Row(f"429, retry-after-ms{name}", row, Again("answered 429", (0.25, 0.25)))
    told_within = _error(429, details=[{"@type": "google.rpc.RetryInfo", "retryDelay": "37s"}])
    row = fixed(_refusal(429, body=told_within))
    yield Row("429, told within", row, Again("answered 429", (37, 37)))
    for status in (400, 401, 403, 404, 422):
        yield Row(f"{status}", fixed(_refusal(status)), Final(f"answered {status}: {WORDS}"))
    for status in (301, 302, 303, 307, 308):
        row = fixed(_refusal(status, "location: /elsewhere", body=b""))
        yield Row(f"{status} to elsewhere", row, Final("redirects are not followed"))


def _bodies_of_refusals() -> Iterator[Row]:
    page = b"<html><body>" + WORDS.encode() + b"</body></html>"
    for status in (500, 502, 503, 504, 529):
        row = fixed(_refusal(status, body=b""))
        yield Row(f"{status} without a body", row, Again(f"answered {status}: nothing"))
        row = fixed(_refusal(status, body=page))
        yield Row(f"{status} with a page", row, Again(f"answered {status}: a web page"))
    waits = ("content-length: 900", "retry-after: 7")
    row = fixed(head("429 No", *waits), Act.SILENCE)
    yield Row("429 whose body does not come", row, Again("answered 429: nothing", (7, 7)))
    row = fixed(head("401 No", *waits) + b"no", Act.SILENCE)
    yield Row("401 whose body does not end", row, Final("answered 401: no."))
    row = fixed(head("429 No", *waits) + WORDS.encode(), Act.RESET)
    yield Row("429 that is broken off", row, Again("answered 429", (7, 7)))
    lie = ("content-encoding: gzip", "retry-after: 7")
    yield Row(
        "429 with a gzip that lies", fixed(_refusal(429, *lie)), Again("answered 429", (7, 7))
    )
    yield Row("401 with a gzip that lies", fixed(_refusal(401, *lie)), Final("answered 401"))
    endless = (head("503 No"), *repeat(b"x" * _PIECE_BYTES, 100))
    yield Row("503 with a body of megabytes", fixed(*endless), Again("answered 503: xxx"))


# Half an answer.


def _halves() -> Iterator[Row]:
    cut, broke = Again("the answer is incomplete"), Again("had a connection error")
    silence = Again("sent nothing for")
    yield Row("cut before the headers", fixed(Act.CLOSE), broke)
    yield Row("reset before the headers", fixed(Act.RESET), broke)
    yield Row("cut within the headers", fixed(head()[:20], Act.CLOSE), broke)
    yield Row("cut after the headers", fixed(head(), Act.CLOSE), cut)
    long = "content-length: 9999"
    yield Row("cut after the headers and a length", fixed(head("200 OK", long), Act.CLOSE), broke)
    for name, ending in (("cut", Act.CLOSE), ("reset", Act.RESET)):
        row = answers(lambda polite: in_chunks(half(polite), b""), ending)
        yield Row(f"{name} within an event of chunks", row, broke)
        row = answers(lambda polite: head("200 OK", long) + half(polite), ending)
        yield Row(f"{name} within an event of a known length", row, broke)
    yield Row("half, in chunks that end", answers(lambda polite: in_chunks(half(polite))), cut)
    yield Row("half, of its own length", answers(lambda polite: whole("200 OK", half(polite))), cut)
    yield Row("half, of no length", answers(lambda polite: head() + half(polite), Act.CLOSE), cut)
    yield Row("silence from the beginning", fixed(Act.SILENCE), silence, silent=True)
    yield Row("silence after the headers", fixed(head(), Act.SILENCE), silence, silent=True)
    row = answers(lambda polite: in_chunks(half(polite), b""), Act.SILENCE)
    yield Row("silence within an event", row, silence, silent=True)
    told = f"answered 429: {WORDS}"
    yield Row("an error within the stream", answers(_failing_with(429)), Again(told))
    told = f"answered 400: {WORDS}"
    yield Row("a final error within the stream", answers(_failing_with(400)), Final(told))


def _failing_with(status: int) -> Callable[[Polite], bytes]:
    return lambda polite: head() + polite.piece + polite.error(status, _error(status))


# Garbage.


def _garbage() -> Iterator[Row]:
    nothing, foreign = Again("the answer is incomplete"), Again("it begins: ", doubtful=True)
    binary = bytes(range(256)) * 4
    yield Row("an empty answer", fixed(whole("200 OK", b"")), nothing)
    yield Row("204", fixed(head("204 No Content"), Act.CLOSE), nothing)
    for name, body in {
        "bytes": binary,
        "a page": b"<html><body>Welcome</body></html>",
        "a word": b"welcome\n",
        "JSON of something else": b'{"status": "ok"}',
        "broken JSON": b'{"status": \n',
        "JSON that is too deep": b'{"a":' * 100_000,
        "another encoding": "Größe: 12\n".encode("utf-16"),
    }.items():
        yield Row(f"{name} for an answer", fixed(whole("200 OK", body)), foreign)
    row = answers(lambda polite: head() + polite.event("{broken"))
    yield Row("an event of broken JSON", row, foreign)
    no_gzip = Again("not compressed as", doubtful=True)
    row = answers(lambda polite: whole("200 OK", polite.good, "content-encoding: gzip"))
    yield Row("a gzip that lies", row, no_gzip)
    too_large = Again("larger than", doubtful=True)
    for name, body in {"bytes": binary, "lines": b"Welcome\n", "a document": b'{"a": "'}.items():
        piece = body * (_PIECE_BYTES // len(body))
        started = head() + (body if name == "a document" else piece)
        yield Row(f"{name} without end", _without_end(started, piece), too_large)
    broke = Again("had a connection error")
    for name, started in {
        "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
        "headers of megabytes": head("200 OK", f"x-very: {'long' * 300_000}"),
        "a length that is none": head("200 OK", "content-length: soon"),
        "chunks that are none": head("200 OK", "transfer-encoding: chunked") + b"welcome\r\n",
    }.items():
        yield Row(name, fixed(started, Act.CLOSE), broke)


def _without_end(started: bytes, piece: bytes) -> Callable[[Polite], Speech]:
    def speech(_: Polite) -> Speech:
        yield started
        yield from repeat(piece)

    return speech


# What is an answer all the same.


def _answers() -> Iterator[Row]:
    good = Read()
    for kind in ("text/html", "application/octet-stream", "image/png", ""):
        yield Row(f"an answer called {kind or 'nothing'}", _called(kind), good)
    yield Row("slowly, a few bytes at a time", _slowly, good)
    row = answers(lambda polite: _zipped(polite.good))
    yield Row("a gzip that was not requested", row, good)
    yield Row("a gzip whose end is spoilt", _ending_badly, good)
    row = answers(lambda polite: in_chunks(polite.good, b""), Act.RESET)
    yield Row("the connection breaks behind it", row, good)
    hints = b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50
    row = answers(lambda polite: hints + whole("200 OK", polite.good))
    yield Row("words of the protocol before it", row, good)
    row = answers(lambda polite: whole("200 OK", _many(polite.piece) + polite.good))
    yield Row("absurdly many events before it", row, Read(more=True))
    yield Row("an answer without end", _endlessly, Read(cut=True))


def _many(piece: bytes) -> bytes:
    return piece * (MANY_BYTES // len(piece))


def _zipped(body: bytes) -> bytes:
    return whole("200 OK", gzip.compress(body), "content-encoding: gzip")


def _ending_badly(polite: Polite) -> Speech:
    zipped = _zipped(polite.good)
    yield zipped[:-_CHECKSUM_BYTES]
    yield _SLOW_SECONDS  # The answer is there, and its checksum is not.
    yield b"\xff" * _CHECKSUM_BYTES


def _called(kind: str) -> Callable[[Polite], Speech]:
    header = (f"content-type: {kind}",) if kind else ()
    return lambda polite: iter((whole("200 OK", polite.good, *header),))


def _slowly(polite: Polite) -> Speech:
    said = in_chunks(polite.good)
    for start in range(0, len(said), _SLOW_PIECE_BYTES):
        yield said[start : start + _SLOW_PIECE_BYTES]
        yield _SLOW_SECONDS


def _endlessly(polite: Polite) -> Speech:
    yield head()
    yield from repeat(polite.piece * (_PIECE_BYTES // len(polite.piece)))


# A short good answer in each format. What is good in one is garbage in the others.
FOREIGN: dict[str, bytes] = {
    "openai": b'data: {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": '
    b'[{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n",
    "anthropic": b'data: {"type": "message_start", "message": {"id": "1", "type": "message", '
    b'"role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 1}}}\n\n'
    b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", '
    b'"text": "Hello"}}\n\n'
    b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
    b'data: {"type": "message_stop"}\n\n',
    "gemini": b'data: {"candidates": [{"content": {"role": "model", "parts": '
    b'[{"text": "Hello"}]}, "finishReason": "STOP", "index": 0}]}\n\n',
    "ollama": b'{"model": "m", "message": {"role": "assistant", "content": "Hello"}, '
    b'"done": true, "done_reason": "stop"}\n',
}

REFUSALS = (*_refusals(), *_bodies_of_refusals())
ROWS = (*REFUSALS, *_halves(), *_garbage(), *_answers())


def rows_for(kind: str) -> tuple[Row, ...]:
    """How a server of one format misbehaves: the others' formats are garbage to it."""
    others = [
        Row(f"as {other} answers", fixed(whole("200 OK", body)), Again("no ", doubtful=True))
        for other, body in FOREIGN.items()
        if other != kind
    ]
    return (*ROWS, *others)
