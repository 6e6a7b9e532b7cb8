"""Record a worker's spans and metrics, and check the invariants of each trace."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client, Interceptor

from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry.telemetry import Telemetry


@dataclass(frozen=True)
class Seen:
    """A span as a collector has it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    start: int
    end: int
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it was."""
        return (self.end - self.start) / 1e9


class Recorder:
    """Spans and metrics of one worker."""

    def __init__(self, *, content: bool = False, secrets: Sequence[str] = ()) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        processor = SimpleSpanProcessor(self.exporter)
        self.telemetry = Telemetry(
            processor, self.reader, content=content, secrets=Secrets(secrets)
        )

    def seen(self, run: str = "") -> list[Seen]:
        """The spans so far, by their beginning; those of one run and its delegates."""
        spans = [seen(one) for one in self.exporter.get_finished_spans()]
        return sorted(
            (one for one in spans if run in str(sorted(one.attributes.items()))),
            key=lambda one: one.start,
        )

    def measured(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Each metric, by its labels: a number, or of a histogram the count and the sum."""
        return measured(self.reader)


def measured(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """What a reader has of each metric, by its labels."""
    data = reader.get_metrics_data()
    scopes = (
        [] if data is None else [each for of in data.resource_metrics for each in of.scope_metrics]
    )
    return {
        one.name: [(dict(point.attributes or {}), _amount(point)) for point in one.data.data_points]
        for scope in scopes
        for one in scope.metrics
    }


def traced(client: Client, tracing: Interceptor) -> Client:
    """The client of a program that traces what it starts."""
    config = client.config()
    config["interceptors"] = [tracing]
    return Client(**config)


def seen(span: ReadableSpan) -> Seen:
    """A span as a collector would have it."""
    context = span.get_span_context()
    assert context is not None
    return Seen(
        name=span.name,
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=None if span.parent is None else f"{span.parent.span_id:016x}",
        start=span.start_time or 0,
        end=span.end_time or 0,
        attributes=dict(span.attributes or {}),
    )


def tree(spans: Iterable[Seen], *roots: str) -> list[str]:
    """Each span, and what it hangs under, in order of their names; one trace, no orphan, no two
    spans with one id. `roots` are the ids of spans that are not among them.

    A span that arrives twice (docs/operating/telemetry.md) is one: as a collector shows it.
    """
    told = list(spans)
    by_id = {one.span_id: one for one in told}
    assert len({(one.span_id, one.name, one.parent_id) for one in told}) == len(by_id), (
        "two spans have one id"
    )
    assert len({one.trace_id for one in told}) == 1, "it is more than one trace"
    for one in told:
        assert one.parent_id in {None, *by_id, *roots}, f"{one.name} is an orphan"
    return sorted(
        f"{_name(one)} < {_name(by_id[one.parent_id])}" if one.parent_id in by_id else _name(one)
        for one in by_id.values()
    )


def _name(span: Seen) -> str:
    """What it is; which attempt, where it is not the first; and what it ended in."""
    said = span.attributes
    again = f" again ({said['holdfast.attempt']})" if said.get("holdfast.attempt", 1) > 1 else ""
    error = f" {said['error.type']}!" if "error.type" in said else ""
    return span.name + again + error


def _amount(point: Any) -> Any:
    return point.value if hasattr(point, "value") else (point.count, point.sum)
