"""What a process sends: by the conventions' names, within bounds, and never in the way of work."""

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from holdfast.activities.model.chat_telemetry import SpanRecorder
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry import startup
from holdfast.runtime.telemetry.metrics import MAX_VALUES_OF_LABEL, OTHERS
from holdfast.runtime.telemetry.startup import (
    BETWEEN_TROUBLES_SECONDS,
    RateLimitedHandler,
    read_telemetry,
    start_telemetry,
)
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.runtime.telemetry.trace_context import context_below
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.internal.tracing import Place, SpanBatch, SpanRecord, TraceOrigin, read_header
from tests.support.traces import Recorder

LABELS = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PLACE = Place("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")


@pytest.mark.parametrize(
    ("traceparent", "flags"),
    [
        (PARENT, "01"),
        (f"{PARENT[:-2]}03", "01"),
        (f"{PARENT[:-2]}02", "00"),
        (f"{PARENT[:-2]}ff", "01"),
        (f"01{PARENT[2:]}-more", "01"),  # a later version may have more fields
    ],
)
def test_a_place_is_read_and_written_as_a_w3c_trace_context(traceparent: str, flags: str) -> None:
    place = read_header({"traceparent": traceparent, "tracestate": "a=1", "baggage": "team=desk"})
    assert place is not None
    written = {"traceparent": f"{PARENT[:-2]}{flags}", "tracestate": "a=1", "baggage": "team=desk"}
    assert place.header() == written


def test_the_state_of_a_trace_is_handed_on() -> None:
    place = Place("a" * 32, "1" * 16, more={"tracestate": "a=1"})
    context = trace.get_current_span(context_below(place)).get_span_context()
    assert context.trace_state["a"] == "1"


async def test_a_worker_without_a_collector_accepts_the_spans_of_a_run() -> None:
    models: Any = None
    batch = SpanBatch(trace_id="a" * 32, flags="01")
    await SpanRecorder(None, models).record_spans(batch.to_json())


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"traceparent": "00-xyz"},
        {"traceparent": PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32)},
        {"traceparent": PARENT.replace("00f067aa0ba902b7", "0" * 16)},
        {"traceparent": f"ff{PARENT[2:]}"},
        {"traceparent": f"{PARENT}-more"},
        {"traceparent": PARENT, "baggage": 7},
        {"traceparent": PARENT, "baggage": "x" * 9_000},
    ],
)
def test_what_is_no_place_is_none(said: Any) -> None:
    assert read_header(said) is None


def test_ids_follow_from_what_they_name_and_from_nothing_else() -> None:
    run = TraceOrigin("default", "run-1", "first")
    assert run == TraceOrigin("default", "run-1", "first")
    others = [TraceOrigin("default", "run-1", "second"), TraceOrigin("other", "run-1", "first")]
    ids = [run.span_id(), run.span_id("t1c1"), run.span_id("t1c2")]
    ids += [other.span_id("t1c1") for other in others]
    assert len({*ids, *(each.span_id("t1c1") for each in others)}) == len(ids)
    assert (len(run.trace_id()), len(run.span_id())) == (32, 16)


def span(**more: Any) -> SpanRecord:
    """A tool's span of a minute."""
    times = {"start": "2026-01-01T00:00:00.000Z", "end": "2026-01-01T00:01:00.000Z"}
    said = {"kind": "tool", "name": "…", "span_id": "1" * 16, **times, **more}
    return SpanRecord.model_validate(said)


def test_no_span_has_a_secret_in_its_name_or_beside_it() -> None:
    recorder = Recorder(secrets=["sk-Sesame-42"])
    recorder.telemetry.start_span("chat sk-Sesame-42", PLACE, {"model": "sk-Sesame-42"}).end()
    tool = span(name="execute_tool sk-Sesame-42", attributes={"gen_ai.tool.name": "sk-Sesame-42"})
    recorder.telemetry.record_span(tool, SpanBatch(trace_id="a" * 32, flags="01"))
    names = sorted(each.name for each in recorder.seen())
    assert names == ["chat [secret]", "execute_tool [secret]"]
    assert "sk-Sesame-42" not in str(recorder.seen())


@pytest.mark.parametrize(
    ("kind", "error", "said", "measured"),
    [
        (
            "run",
            None,
            {"gen_ai.agent.name": "desk", "holdfast.status": "done"},
            {"holdfast.runs.ended": 1},
        ),
        (
            "approval",
            None,
            {"holdfast.approval.kind": "call", "holdfast.approval.verdict": "deny"},
            {"holdfast.approval.wait": (1, 60.0)},
        ),
        ("tool", "denied", {"gen_ai.tool.name": "pay"}, {"holdfast.calls": 1}),
    ],
)
def test_what_is_over_is_counted_under_no_run_and_no_person_and_unwanted_spans_are_not_made(
    kind: str, error: str | None, said: dict[str, Any], measured: dict[str, Any]
) -> None:
    recorder = Recorder()
    attributes = {**said, "gen_ai.conversation.id": "run-1", "holdfast.approval.by": ["ada"]}
    ended = span(kind=kind, error=error, attributes=attributes)
    recorder.telemetry.record_span(ended, SpanBatch(trace_id="a" * 32, flags="00"))
    labels = said if error is None else {**said, "error.type": error}
    expected = {metric: [(labels, amount)] for metric, amount in measured.items()}
    if error is not None:
        expected["holdfast.errors"] = [({"error.type": error, "holdfast.of": kind}, 1)]
    assert recorder.measured() == expected
    assert recorder.seen() == []


def test_the_sampler_decides_by_the_trace_or_as_the_starter_has() -> None:
    telemetry = Recorder().telemetry
    telemetry.spans.sampler = TraceIdRatioBased(0.5)
    low, high = f"{1:032x}", "f" * 32
    assert telemetry.flags(low, None) == "01"
    assert telemetry.flags(high, None) == "00"
    assert telemetry.flags(high, Place(low, "1" * 16, "01")) == "01"
    assert telemetry.flags(low, Place(high, "1" * 16, "01")) == "00"
    theirs = Recorder().telemetry
    assert theirs.flags(high, Place(low, "1" * 16, "00")) == "00"
    assert theirs.flags(high, Place(low, "1" * 16, "01")) == "01"
    assert Telemetry().flags(low, None) == "00", "there is nowhere to send spans to"


def test_labels_that_people_can_make_up_take_so_many_values_and_no_more() -> None:
    recorder = Recorder()
    for number in range(MAX_VALUES_OF_LABEL + 5):
        labels = {**LABELS, "gen_ai.request.model": f"model {number}"}
        recorder.telemetry.metrics.record_answer(labels, Usage(cost=1), 1.0, None, turn=True)
    amounts = {
        labels["gen_ai.request.model"]: amount
        for labels, amount in recorder.measured()["holdfast.cost"]
    }
    assert len(amounts) == MAX_VALUES_OF_LABEL + 1
    assert amounts[OTHERS] == 5


def test_an_answer_is_measured_by_the_names_of_the_conventions() -> None:
    recorder = Recorder()
    usage = Usage(input_tokens=10, output_tokens=5, cost=0.25)
    recorder.telemetry.metrics.record_answer(LABELS, usage, 2.0, 0.5, turn=True)
    recorder.telemetry.metrics.record_failure(LABELS, 3.0, "503")
    measured = recorder.measured()
    failed = {**LABELS, "error.type": "503"}
    assert measured["gen_ai.client.operation.duration"] == [(LABELS, (1, 2.0)), (failed, (1, 3.0))]
    assert measured["gen_ai.client.operation.time_to_first_chunk"] == [(LABELS, (1, 0.5))]
    assert measured["gen_ai.client.token.usage"] == [
        ({**LABELS, "gen_ai.token.type": "input"}, (1, 10)),
        ({**LABELS, "gen_ai.token.type": "output"}, (1, 5)),
    ]
    assert measured["holdfast.cost"] == [(LABELS, 0.25)]
    assert measured["holdfast.turns"] == [(LABELS, 1)]
    assert measured["holdfast.errors"] == [({"error.type": "503", "holdfast.of": "model"}, 1)]


def test_an_answer_that_is_no_turn_and_costs_nothing_is_measured_without_a_turn() -> None:
    recorder = Recorder()
    usage = Usage(output_tokens=0, cost=0.0)
    recorder.telemetry.metrics.record_answer(LABELS, usage, 1.0, None, turn=False)
    assert recorder.measured() == {
        "gen_ai.client.operation.duration": [(LABELS, (1, 1.0))],
        "gen_ai.client.token.usage": [({**LABELS, "gen_ai.token.type": "output"}, (1, 0))],
        "holdfast.cost": [(LABELS, 0.0)],
    }


class Collector(ThreadingHTTPServer):
    """What it was sent, by path; it answers while its gate is open."""

    # What it is in the middle of is let go with it.
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.gate = threading.Event()
        self.gate.set()
        self.sent: dict[str, list[bytes]] = {}


class _Request(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.sent.setdefault(self.path, []).append(body)
        self.server.gate.wait()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.gate.set()
        server.shutdown()


def started(monkeypatch: pytest.MonkeyPatch, collector: Collector, **more: str) -> Telemetry:
    """A process that sends to this collector."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}", **more}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    telemetry = start_telemetry(read_telemetry(environ), "desk", Secrets(["sk-Sesame-42"]))
    assert telemetry is not None
    return telemetry


def test_a_line_is_sent_with_its_place_and_without_secrets(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    before = list(logging.getLogger().handlers)
    telemetry = started(monkeypatch, collector, OTEL_LOGS_EXPORTER="otlp")
    span = telemetry.start_span("chat m", PLACE, {})
    with trace.use_span(span, end_on_exit=True):
        logging.getLogger("holdfast").warning("the key is %s", "sk-Sesame-42")
        for _ in range(2):  # of the sending itself: reported here, once, and not sent
            logging.getLogger("opentelemetry.sdk").warning("no room for a line")
    telemetry.close()
    assert logging.getLogger().handlers == before
    assert set(collector.sent) >= {"/v1/logs", "/v1/traces"}
    sent = ExportLogsServiceRequest.FromString(collector.sent["/v1/logs"][0])
    [line] = sent.resource_logs[0].scope_logs[0].log_records
    assert line.body.string_value == "the key is [secret]"
    assert line.severity_text == "WARN"
    assert caplog.messages.count("no room for a line") == 1
    assert line.trace_id.hex() == PLACE.trace_id
    about = {one.key: one.value.string_value for one in sent.resource_logs[0].resource.attributes}
    assert about["service.name"] == "desk"
    assert UUID(about["service.instance.id"]).version == 4, "one process of several"


@pytest.mark.parametrize(
    "said", [{"OTEL_SERVICE_NAME": "ours"}, {"OTEL_RESOURCE_ATTRIBUTES": "a=b, service.name=ours"}]
)
def test_a_process_is_named_by_its_environment(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, said: dict[str, str]
) -> None:
    telemetry = started(monkeypatch, collector, **said)
    telemetry.close()
    assert telemetry.identity["service.name"] == "ours"


def test_a_failure_to_send_is_reported_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    telling = RateLimitedHandler()
    for number, seconds in enumerate((0, 1, BETWEEN_TROUBLES_SECONDS)):
        said = {"msg": "no answer, try %s", "args": (number,), "levelno": logging.WARNING}
        record = logging.makeLogRecord(said)
        record.created = 1_000_000_000.0 + seconds
        telling.handle(record)
    assert caplog.messages == ["no answer, try 0", "no answer, try 2"]


def test_a_program_that_exports_its_own_log_continues_to(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setattr(startup, "get_logger_provider", LoggerProvider)
    before = list(logging.getLogger().handlers)
    telemetry = started(monkeypatch, collector, OTEL_LOGS_EXPORTER="otlp")
    assert logging.getLogger().handlers == before
    telemetry.close()


def test_what_cannot_stop_keeps_nothing_from_stopping() -> None:
    stopped: list[str] = []

    def broken() -> None:
        stopped.append("broken")
        raise RuntimeError

    telemetry = Recorder().telemetry
    telemetry.on_close(broken)
    telemetry.close()
    assert stopped == ["broken"]


def test_a_collector_that_never_answers_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    collector.gate.clear()
    others = set(threading.enumerate())
    telemetry = started(monkeypatch, collector, OTEL_BSP_SCHEDULE_DELAY="10")
    for _ in range(5_000):  # more than the queue holds
        telemetry.start_span("chat m", PLACE, {}).end()
    telemetry.close()
    assert not collector.gate.is_set()
    collector.gate.set()  # what is still being sent is not to continue beside other tests
    for thread in set(threading.enumerate()) - others:
        assert thread.daemon, "it would keep the process from ending"
        thread.join()
