"""A worker as a command, with a collector, and with one that is away; and the dashboard's names."""

import asyncio
import json
import logging
import re
import sys
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from temporalio.client import Client
from temporalio.worker import Worker

from holdfast import HoldfastPlugin
from holdfast.hosting.monitoring.worker_telemetry import core_metrics
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.resources import ResourcesError, WorkerResources, load_resources
from holdfast.runtime.telemetry.startup import TelemetrySettings
from tests.support import tools
from tests.support.model_server import Answer, call, serve
from tests.support.traces import Recorder

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "holdfast.json"
# How a collector names what Prometheus reads: by its unit, and what it is.
UNITS = {"s": "_seconds", "By": "_bytes", "ms": "_milliseconds"}
KINDS = {"sum": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}


class WorkerCollector(ThreadingHTTPServer):
    """What it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.sent: list[tuple[str, bytes]] = []

    def spans(self) -> list[str]:
        """The names of the spans."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self._of("/v1/traces")]
        return [
            span.name
            for request in requests
            for of in request.resource_spans
            for scope in of.scope_spans
            for span in scope.spans
        ]

    def series(self) -> set[str]:
        """The metrics, as Prometheus knows them."""
        requests = [ExportMetricsServiceRequest.FromString(b) for b in self._of("/v1/metrics")]
        return {
            name
            for request in requests
            for of in request.resource_metrics
            for scope in of.scope_metrics
            for metric in scope.metrics
            for name in in_prometheus(metric.name, metric.unit, metric.WhichOneof("data"))
        }

    def processes(self) -> set[tuple[str, str]]:
        """The source of it: what each is, and which one of several."""
        spans = [ExportTraceServiceRequest.FromString(body) for body in self._of("/v1/traces")]
        metrics = [ExportMetricsServiceRequest.FromString(b) for b in self._of("/v1/metrics")]
        resources = [of.resource for request in spans for of in request.resource_spans]
        resources += [of.resource for request in metrics for of in request.resource_metrics]
        found = [{one.key: one.value.string_value for one in each.attributes} for each in resources]
        return {(one["service.name"], one["service.instance.id"]) for one in found}

    def _of(self, path: str) -> list[bytes]:
        return [body for at, body in list(self.sent) if at == path]


class _Request(BaseHTTPRequestHandler):
    server: WorkerCollector

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.sent.append((self.path, self.rfile.read(length)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def collector() -> Iterator[WorkerCollector]:
    """A collector on loopback."""
    server = WorkerCollector()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def in_prometheus(name: str, unit: str, kind: str | None) -> list[str]:
    """The series of a metric, behind a collector."""
    base = re.sub(r"[^A-Za-z0-9_]", "_", name) + UNITS.get(unit, "")
    return [base + ending for ending in KINDS[kind or "gauge"]]


async def at_work(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, port: int, *more: str
) -> str:
    """A worker that sends to a collector at this port, from its start over a run to its stop: its
    log."""
    monkeypatch.setenv(tools.LEDGER, str(folder / "ledger"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    endpoints = folder / "endpoints.yaml"
    with serve([Answer(calls=[call("raises")]), Answer("done")]) as model:
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        options = ["--tools", str(ROOT / "tests/support/tools.py"), "--task-queue", queue]
        with (folder / "log").open("w+") as log:
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "worker.py", "--endpoints", str(endpoints), *options, *more),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
            try:
                assert worker.stdout is not None
                assert (await worker.stdout.readline()).startswith(b"holdfast worker ready")
                agent = {"name": "desk", "model": {"endpoint": "fake", "name": "m"}}
                request = {"agent": {**agent, "tools": ["raises"]}, "input": "go"}
                await client.execute_workflow(
                    "AgentWorkflow", request, id=f"told-{queue}", task_queue=queue
                )
                worker.terminate()
                await asyncio.wait_for(worker.wait(), 120)
            finally:
                if worker.returncode is None:
                    worker.kill()
                    await worker.wait()
            return (folder / "log").read_text()


async def test_a_worker_with_the_plugin_sends_until_it_stops_and_leaves_the_log_as_it_was(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: WorkerCollector
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "otlp")
    handlers, queue = [*logging.getLogger().handlers], f"queue-{uuid.uuid4().hex[:8]}"
    with serve([Answer("done")]) as model:
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        address = client.service_client.config.target_host
        theirs = await Client.connect(address, plugins=[HoldfastPlugin(endpoints=endpoints)])
        async with Worker(theirs, task_queue=queue):
            agent = {"name": "desk", "model": {"endpoint": "fake", "name": "m"}}
            request = {"agent": agent, "input": "go"}
            await theirs.execute_workflow("AgentWorkflow", request, id=queue, task_queue=queue)
            logging.getLogger("shop").warning("the shop is closed")
    assert sorted(collector.spans()) == ["chat m", "invoke_agent desk"]
    assert "holdfast_runs_ended_total" in collector.series()
    assert any(b"the shop is closed" in body for path, body in collector.sent if "logs" in path)
    assert logging.getLogger().handlers == handlers


async def test_telemetry_of_a_worker_is_sent_until_it_stops_and_the_log_names_the_collector(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: WorkerCollector
) -> None:
    log = await at_work(client, tmp_path, monkeypatch, collector.server_port)
    assert sorted(collector.spans()) == [
        "RunActivity:raises",
        "RunActivity:raises",
        *("chat m", "chat m", "execute_tool raises", "invoke_agent desk"),
    ]
    [(service, instance)] = collector.processes()
    assert service == "holdfast-worker"
    assert uuid.UUID(instance).version == 4, "Temporal's own measurements are of the same process"
    told = collector.series()
    assert {"gen_ai_client_token_usage_sum", "holdfast_runs_ended_total"} <= told
    known = told | own_series()
    assert series_of_dashboard() <= known, "a panel of the dashboard stays empty"
    line = next(line for line in log.splitlines() if "Completing activity as failed" in line)
    assert re.search(r"\[run=told-\S+ turn=1 call=t1c1 trace_id=[0-9a-f]{32} span_id=", line)


async def test_each_of_several_processes_is_an_instance_of_its_own(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: WorkerCollector
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a,service.instance.id=pod-7,zone=b")
    await at_work(client, tmp_path, monkeypatch, collector.server_port, "--processes", "2")
    service = "holdfast-worker"
    assert collector.processes() == {(service, "pod-7-1"), (service, "pod-7-2")}


def test_a_variable_that_cannot_be_meant_so_keeps_a_worker_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
    with pytest.raises(ResourcesError) as refused:
        load_resources(WorkerSettings())
    [line] = refused.value.lines
    assert "the variable OTEL_EXPORTER_OTLP_ENDPOINT holds no address; write it like" in line


def own_series() -> set[str]:
    """All that this worker measures, whether or not it has happened."""
    recorder = Recorder()
    found = {
        name
        for instrument in vars(recorder.telemetry.metrics).values()
        if hasattr(instrument, "unit")
        for name in in_prometheus(
            instrument.name,
            instrument.unit,
            "histogram" if "Histogram" in type(instrument).__name__ else "sum",
        )
    }
    observed = {"holdfast_approvals_oldest_seconds", "holdfast_activities_outlived"}
    return found | observed | {"holdfast_approvals_waiting"}


def test_metrics_of_the_sdk_are_sent_where_metrics_are_and_nowhere_else() -> None:
    def metrics_with(
        metrics: bool, telemetry: object = SimpleNamespace(identity={"a": "b"})
    ) -> object:
        url = "http://127.0.0.1:4318/v1/metrics"
        telling = TelemetrySettings(traces=True, metrics=metrics, metrics_url=url)
        return core_metrics(
            cast(WorkerResources, SimpleNamespace(telemetry_settings=telling, telemetry=telemetry))
        )

    assert metrics_with(metrics=True) is not None
    assert metrics_with(metrics=False) is None
    assert metrics_with(metrics=True, telemetry=None) is None


def series_of_dashboard() -> set[str]:
    """Every series that a panel of the dashboard asks for."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return set(re.findall(r"\b(?:gen_ai|holdfast|temporal)_\w+(?=[{\[])", " ".join(asked)))


def test_the_dashboard_asks_for_each_of_our_metrics() -> None:
    asked = series_of_dashboard()
    families = {re.sub(r"(_total|_bucket|_count|_sum)$", "", name) for name in own_series()}
    assert families <= {re.sub(r"(_total|_bucket|_count|_sum)$", "", name) for name in asked}
