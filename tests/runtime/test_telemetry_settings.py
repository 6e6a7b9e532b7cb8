"""Whether, and where, a collector receives anything: by the standard variables."""

import pytest

from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry.startup import (
    TelemetrySettings,
    TelemetrySettingsError,
    read_telemetry,
    telemetry_secrets,
)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
COLLECTOR = {ENDPOINT: "http://collector:4318"}
A_PART = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}


def on(**environ: str) -> tuple[bool, bool, bool]:
    """Whether traces, metrics and logs are sent."""
    settings = read_telemetry(environ)
    return settings.traces, settings.metrics, settings.logs


def test_nothing_is_sent_where_no_collector_is_named() -> None:
    assert read_telemetry({}) == TelemetrySettings(metrics_url="http://localhost:4318/v1/metrics")
    assert on(OTEL_SERVICE_NAME="desk") == (False, False, False)


def test_a_collector_receives_spans_metrics_and_logs_where_they_are_requested() -> None:
    assert on(**COLLECTOR) == (True, True, False)
    assert on(**COLLECTOR, OTEL_LOGS_EXPORTER="otlp") == (True, True, True)
    assert on(**COLLECTOR, OTEL_TRACES_EXPORTER="none") == (False, True, False)
    assert on(**COLLECTOR, **A_PART) == (True, True, False)
    assert on(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://x/v1/traces") == (True, False, False)
    assert on(OTEL_METRICS_EXPORTER="otlp") == (False, True, False)
    assert on(**COLLECTOR, OTEL_SDK_DISABLED="TRUE") == (False, False, False)


def test_the_core_receives_the_collector_s_address_and_headers() -> None:
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
    metrics = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20sk-Sesame-42",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-team=desk",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://metrics:4318/otlp",
    }
    own = read_telemetry(COLLECTOR | metrics)
    assert (own.metrics_url, own.headers) == ("http://metrics:4318/otlp", {"x-team": "desk"})


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        *((ENDPOINT, url, "holds no address") for url in ("c:4318", "http://c:0", "http://[")),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "names a protocol that is not supported"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "names a protocol that is not supported"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "names an unknown exporter"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1m", "is no number of milliseconds"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "9" * 400, "is no number of milliseconds"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "yes", "is unclear"),
        ("OTEL_TRACES_SAMPLER", "ratio", "names an unknown sampler"),
        ("OTEL_TRACES_SAMPLER_ARG", "10%", "is not a number from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "10", "is not a number from 0 to 1"),
    ],
)
def test_what_cannot_be_meant_so_is_refused(name: str, value: str, wrong: str) -> None:
    with pytest.raises(TelemetrySettingsError) as refused:
        read_telemetry({**COLLECTOR, **A_PART, name: value})
    assert wrong in refused.value.reason
    assert name in refused.value.reason
    assert refused.value.fix.startswith(("write it", "set it"))


def test_what_the_collector_alone_is_sent_is_a_secret() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "api-key=sk-Sesame-42",
        ENDPOINT: "http://holdfast:sk-Barley-7@collector:4318",
    }
    secrets = Secrets(telemetry_secrets(environ))
    assert secrets.clean("sk-Sesame-42 or sk-Barley-7") == "[secret] or [secret]"
