"""`python -m tests.browser.trace`: one trace, by a real collector, as `docs/images/trace.png`.

A run that a program of others has started: its model is busy at first, a delegate works for it, a
external worker executes a tool in its second attempt, and a person approves after a day. No one
waits for that: the clock by which spans are sent is set on by a day while the call waits. That is
all that is not as it is at work.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from playwright.async_api import async_playwright
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from holdfast.hosting.dev_server import CONFIG_OPTIONS, temporal_binary
from holdfast.hosting.process_exit import exit_process
from holdfast.hosting.temporal import usable_search_attributes
from holdfast.runtime.data_converter import data_converter
from holdfast.runtime.telemetry.telemetry import Telemetry
from tests.browser.collector import collecting
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.support.traces import Seen, traced, tree
from tests.workflows.commands.test_child_workflows import agents, by_agent

NAMES, BARS, LENGTHS = 430, 640, 130
ROW, HEAD, PAD, INDENT = 30, 56, 20, 20
BREAK_SECONDS, BREAK_WIDTH = 60.0, 90
_FIRST_WORDS = {
    "invoke_agent": "#8250df",
    "chat": "#0969da",
    "execute_tool": "#1a7f37",
    "approval": "#bc4c00",
}
_OTHERS = "#6e7781"
_ERROR = "#cf222e"

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "trace.png"
DAY_NANOSECONDS = 24 * 3600 * 10**9
QUEUE = "warehouse"
TRANSLATE = {
    "_tool": "translate",
    "description": "Have a text translated.",
    "properties": {"text": {"type": "string"}},
    "_delegate": "translator",
}
SHIP = {
    "_tool": "ship",
    "properties": {"to": {"type": "string"}},
    "_activity": {"type": "Ship", "taskQueue": QUEUE, "retry": {"initialInterval": "200ms"}},
}
DESK = [
    Answer(calls=[call("translate", text="Es kam kaputt an."), call("look_up", id=7)]),
    Answer(calls=[call("refund", amount=250)]),
    Answer(calls=[call("ship", to="Ada")]),
    Answer("Refunded, and on its way."),
]


class SpanClock:
    """The time by which spans are sent: set on once, by a day."""

    def __init__(self) -> None:
        self.set_at: int | None = None

    def at(self, nanoseconds: int | None) -> int:
        """The time that is sent in its place."""
        assert nanoseconds is not None
        later = self.set_at is not None and nanoseconds >= self.set_at
        return nanoseconds + DAY_NANOSECONDS if later else nanoseconds


class Sending(SpanExporter):
    """Sends spans with the times of such a clock."""

    def __init__(self, url: str, clock: SpanClock) -> None:
        self._clock, self._inner = clock, OTLPSpanExporter(f"{url}/v1/traces")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them; the SDK calls this."""
        return self._inner.export([self._shifted(one) for one in spans])

    def shutdown(self) -> None:
        """Send no more; the SDK calls this."""
        self._inner.force_flush()

    def _shifted(self, span: ReadableSpan) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=span.attributes,
            kind=span.kind,
            instrumentation_scope=span.instrumentation_scope,
            status=span.status,
            start_time=self._clock.at(span.start_time),
            end_time=self._clock.at(span.end_time),
        )


@activity.defn(name="Ship")
async def ship(arguments: dict[str, Any]) -> str:
    """Fails at first, as the others' worker does."""
    if activity.info().attempt == 1:
        raise ConnectionError("the carrier does not answer")
    return f"shipped to {arguments['to']}"


def busy_at_first(answers: Any) -> Any:
    """A model whose first answer is that it is busy."""
    asked: list[int] = []

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        asked.append(turn)
        found: Answer = answers(turn, body)
        busy = Answer(status=503, body={"error": {"message": "busy"}})
        return busy if len(asked) == 1 else found

    return answer


async def run(client: Client, url: str, clock: SpanClock, folder: Path) -> None:
    """The run, from its start to its end, and all of it sent."""
    others = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    others.add_span_processor(BatchSpanProcessor(Sending(url, clock)))
    tracing = TracingInterceptor(others.get_tracer("shop"))
    telemetry = Telemetry(BatchSpanProcessor(Sending(url, clock)))
    asked = by_agent(
        Test=DESK, Translate=[Answer(calls=[call("echo", text="x")]), Answer("It came broken.")]
    )
    translator = {"instructions": "Translate", "tools": ["echo"]}
    catalog = agents(folder / "catalog", translator=translator)
    told = {"telemetry": telemetry, "catalog": catalog, **SIDE_BY_SIDE}
    theirs = Worker(client, task_queue=QUEUE, activities=[ship], interceptors=[tracing])
    async with backend(client, folder, busy_at_first(asked), **told) as ours, theirs:
        shop = traced(client, tracing)
        started = await Backend(shop, ours.task_queue, ours.model).start(
            [TRANSLATE, "look_up", "refund", SHIP], agent={"name": "desk"}
        )
        # Viewers and approvers have traces of their own.
        started = Run(client.get_workflow_handle(started.id), client)
        await started.waiting()
        clock.set_at = time.time_ns()
        await started.decide("t2c1", "approve", by="ada")
        await started.result()
    telemetry.close()
    others.shutdown()


async def picture(spans: Sequence[Seen]) -> None:
    """Draw it."""
    title = "One run, one trace: a retry, a delegate, an approval of a day, an external worker"
    below = f"{len(spans)} spans, as a collector handed them on; trace {spans[0].trace_id}"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = await browser.new_page(device_scale_factor=1.5)
        await page.set_content(f"<body style='margin:0'>{drawn(spans, title, below)}")
        await page.locator("svg").screenshot(path=IMAGE)
        await browser.close()


async def main() -> None:
    """Run, check, draw."""
    clock = SpanClock()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[tools.LEDGER] = str(folder / "ledger")
        async with await WorkflowEnvironment.start_local(
            dev_server_existing_path=str(temporal_binary()),
            dev_server_extra_args=CONFIG_OPTIONS,
            data_converter=data_converter,
        ) as environment:
            await usable_search_attributes(environment.client)
            async with collecting() as (url, behind):
                await run(environment.client, url, clock, folder)

                async def ended() -> bool:
                    return any(one.parent_id is None for one in behind.spans)

                await eventually(ended)
            spans = sorted(behind.spans, key=lambda one: one.start)
    assert len({one.span_id for one in spans}) == len(spans), "a span was sent twice"
    print("\n".join(tree(spans)))
    await picture(spans)


if __name__ == "__main__":
    asyncio.run(main())
    exit_process(0)


@dataclass(frozen=True)
class _Piece:
    """A piece of the axis; one that is broken has its length."""

    start: float
    end: float
    left: float
    width: float
    broken: bool


def drawn(spans: Sequence[Seen], title: str, below: str) -> str:
    """The trace as SVG, on white."""
    rows = list(_rows(spans, None, 0))
    pieces = _pieces(spans)
    height = HEAD + ROW * len(rows) + 2 * PAD
    width = NAMES + BARS + LENGTHS + 2 * PAD
    marks = [_mark(piece, height) for piece in pieces if piece.broken]
    bars = [_row(span, depth, n, pieces) for n, (span, depth) in enumerate(rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="14"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{PAD}" y="28" font-size="17" font-weight="bold">{escape(title)}</text>'
        f"{''.join(marks)}{''.join(bars)}"
        f'<text x="{PAD}" y="{height - 12}" fill="#57606a" font-size="12">{escape(below)}</text>'
        "</svg>"
    )


def _rows(spans: Sequence[Seen], parent: str | None, depth: int) -> Iterator[tuple[Seen, int]]:
    known = {one.span_id for one in spans}
    under = [
        one
        for one in spans
        if one.parent_id == parent or (parent is None and one.parent_id not in known)
    ]
    for one in sorted(under, key=lambda each: (each.start, each.end)):
        yield one, depth
        yield from _rows(spans, one.span_id, depth + 1)


def _pieces(spans: Sequence[Seen]) -> list[_Piece]:
    moments = sorted({moment / 1e9 for one in spans for moment in (one.start, one.end)})
    gaps = list(pairwise(moments))
    broken = [each for each in gaps if each[1] - each[0] > BREAK_SECONDS]
    whole = sum(end - start for start, end in gaps) - sum(end - start for start, end in broken)
    scale = (BARS - BREAK_WIDTH * len(broken)) / whole
    left, pieces = float(NAMES + PAD), []
    for start, end in gaps:
        is_broken = (start, end) in broken
        width = BREAK_WIDTH if is_broken else (end - start) * scale
        pieces.append(_Piece(start, end, left, width, is_broken))
        left += width
    return pieces


def _x(moment: float, pieces: Sequence[_Piece]) -> float:
    for piece in pieces:
        if moment <= piece.end:
            return piece.left + piece.width * (moment - piece.start) / (piece.end - piece.start)
    return pieces[-1].left + pieces[-1].width


def _mark(piece: _Piece, height: int) -> str:
    middle = piece.left + piece.width / 2
    return (
        f'<rect x="{piece.left:.1f}" y="{HEAD - 8}" width="{piece.width:.1f}"'
        f' height="{height - HEAD - PAD - 8}" fill="#f6f8fa"/>'
        f'<text x="{middle:.1f}" y="{HEAD - 14}" text-anchor="middle" fill="#57606a"'
        ' font-size="12">'
        f"{_length(piece.end - piece.start)}; cut short</text>"
    )


def _row(span: Seen, depth: int, n: int, pieces: Sequence[_Piece]) -> str:
    top, error = HEAD + ROW * n, span.attributes.get("error.type")
    left, right = (_x(moment / 1e9, pieces) for moment in (span.start, span.end))
    width = max(right - left, 3)
    again = span.attributes.get("holdfast.attempt", 1)
    name = f"{span.name}{f' · attempt {again}' if again > 1 else ''}"
    colour = _FIRST_WORDS.get(span.name.split()[0], _OTHERS)
    border = f' stroke="{_ERROR}" stroke-width="2"' if error else ""
    told = f' <tspan fill="{_ERROR}">{escape(str(error))}</tspan>' if error else ""
    return (
        f'<text x="{PAD + INDENT * depth}" y="{top + 20}">{escape(name)}{told}</text>'
        f'<rect x="{left:.1f}" y="{top + 7}" width="{width:.1f}" height="16" rx="3"'
        f' fill="{colour}"{border}/>'
        f'<text x="{NAMES + BARS + PAD + 14}" y="{top + 20}" fill="#57606a">'
        f"{_length(span.seconds)}</text>"
    )


def _length(seconds: float) -> str:
    if seconds >= 3600:
        hours = seconds / 3600
        return f"{hours:.0f} h" if hours >= 10 else f"{hours:.1f} h"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
