"""Whether, and where, a collector is told anything: as the standard variables say."""

import pytest

from activities.secrets import Secrets
from activities.telemetry.settings import (
    TelemetryError,
    TelemetrySettings,
    read_telemetry,
    secrets_of_telemetry,
)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
COLLECTOR = {ENDPOINT: "http://collector:4318"}


def on(**environ: str) -> tuple[bool, bool, bool]:
    """Whether traces, metrics and logs are sent."""
    settings = read_telemetry(environ)
    return settings.traces, settings.metrics, settings.logs


def test_nothing_is_told_where_no_collector_is_named() -> None:
    assert read_telemetry({}) == TelemetrySettings(metrics_url="http://localhost:4318/v1/metrics")
    assert not read_telemetry({"OTEL_SERVICE_NAME": "desk"}).on


def test_a_collector_is_told_spans_and_metrics_and_logs_where_they_are_asked_for() -> None:
    assert on(**COLLECTOR) == (True, True, False)
    assert on(**COLLECTOR, OTEL_LOGS_EXPORTER="otlp") == (True, True, True)
    assert on(**COLLECTOR, OTEL_TRACES_EXPORTER="none") == (False, True, False)
    assert on(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://x/v1/traces") == (True, False, False)
    assert on(OTEL_METRICS_EXPORTER="otlp") == (False, True, False)
    assert on(**COLLECTOR, OTEL_SDK_DISABLED="TRUE") == (False, False, False)


def test_the_core_is_told_where_the_collector_is_and_how_one_is_let_in() -> None:
    settings = read_telemetry(
        {
            ENDPOINT: "http://collector:4318/",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20sk-Sesame-42, x-team=desk",
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        }
    )
    assert settings.metrics_url == "http://collector:4318/v1/metrics"
    assert settings.headers == {"authorization": "Bearer sk-Sesame-42", "x-team": "desk"}
    assert settings.interval.total_seconds() == 5
    assert "Sesame" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        (ENDPOINT, "collector:4318", f"the variable {ENDPOINT} holds no address"),
        (ENDPOINT, "http://[", f"the variable {ENDPOINT} holds no address"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "names a protocol that is not spoken"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "names an exporter that is not there"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1m", "is no number of milliseconds"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "yes", "is unclear"),
    ],
)
def test_what_cannot_be_meant_so_is_refused(name: str, value: str, wrong: str) -> None:
    with pytest.raises(TelemetryError) as refused:
        read_telemetry({**COLLECTOR, name: value})
    assert wrong in refused.value.wrong
    assert name in refused.value.wrong
    assert refused.value.todo.startswith(("write it", "set it"))


def test_what_the_collector_alone_is_sent_is_a_secret() -> None:
    environ = {"OTEL_EXPORTER_OTLP_METRICS_HEADERS": "api-key=sk-Sesame-42"}
    secrets = Secrets(secrets_of_telemetry(environ))
    assert secrets.clean("it said sk-Sesame-42") == "it said [secret]"
