"""The settings of telemetry, read from the standard OpenTelemetry variables.

The SDK's exporters read most of these variables themselves. Values that they would ignore silently
(another protocol, an invalid address) are rejected here, with a message that names the fix.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Final
from urllib.parse import unquote, urlsplit

from holdfast.runtime.secrets import address_secrets, header_secrets
from holdfast.runtime.text_safety import extra_command
from holdfast.validation.problems import FixableError

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SIGNALS: Final = ("TRACES", "METRICS", "LOGS")
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
DEFAULT_INTERVAL: Final = timedelta(minutes=1)
_PROTOCOL: Final = "http/protobuf"
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"
_EXPORTER_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-http"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_SAMPLER, _SHARE = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_SAMPLERS: Final = tuple(
    f"{parent}{name}"
    for parent in ("", "parentbased_")
    for name in ("always_on", "always_off", "traceidratio")
)
# A day. A much longer interval exceeds the maximum of the functions that wait for it.
_MAX_INTERVAL_MS: Final = 86_400_000


class TelemetrySettingsError(FixableError):
    """An invalid variable."""


@dataclass(frozen=True)
class TelemetrySettings:
    """The signals to send; the last three fields are for the core of Temporal's SDK."""

    traces: bool = False
    metrics: bool = False
    logs: bool = False
    content: bool = False
    metrics_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    interval: timedelta = DEFAULT_INTERVAL


def read_telemetry(environ: Mapping[str, str]) -> TelemetrySettings:
    """Read the settings from the environment; all are off if it names no collector.

    Raises:
        TelemetrySettingsError: a variable is invalid.
    """
    if _said(environ, "OTEL_SDK_DISABLED").lower() == "true":
        return TelemetrySettings()
    on = {signal: _is_sent(environ, signal) for signal in SIGNALS}
    if any(on.values()):
        try:
            import_module(_EXPORTER)
        except ModuleNotFoundError as error:
            wrong = f"telemetry needs the package {_EXPORTER_PACKAGE}, which is not installed"
            raise TelemetrySettingsError(wrong, extra_command("otlp")) from error
    if on["TRACES"]:
        _check_sampler(environ)
    content = _said(environ, CONTENT).lower()
    if content not in ("", "true", "false"):
        wrong = f"the variable {CONTENT} is unclear"
        raise TelemetrySettingsError(wrong, "set it to `true` or `false`")
    interval = _said(environ, _INTERVAL)
    if interval and not (interval.isdecimal() and 0 < float(interval) <= _MAX_INTERVAL_MS):
        wrong = f"the variable {_INTERVAL} is no number of milliseconds up to {_MAX_INTERVAL_MS}"
        raise TelemetrySettingsError(wrong, "write it like 60000")
    endpoint = (_said(environ, _ENDPOINT) or DEFAULT_ENDPOINT).rstrip("/")
    headers = _said(environ, "OTEL_EXPORTER_OTLP_METRICS_HEADERS") or _said(environ, _HEADERS)
    return TelemetrySettings(
        traces=on["TRACES"],
        metrics=on["METRICS"],
        logs=on["LOGS"],
        content=content == "true",
        metrics_url=_said(environ, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        or f"{endpoint}/v1/metrics",
        headers=dict(_pairs(headers)),
        interval=timedelta(milliseconds=int(interval)) if interval else DEFAULT_INTERVAL,
    )


def telemetry_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in the addresses and headers of the collector."""
    for signal in ("", *SIGNALS):
        between = f"_{signal}" if signal else ""
        for name, value in _pairs(_said(environ, f"OTEL_EXPORTER_OTLP{between}_HEADERS")):
            yield from header_secrets(name, value)
        yield from address_secrets(_said(environ, f"OTEL_EXPORTER_OTLP{between}_ENDPOINT"))


def _said(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _is_sent(environ: Mapping[str, str], signal: str) -> bool:
    """Return whether a signal is sent: logs only on request, others if a collector is named.

    Raises:
        TelemetrySettingsError: it is sent, and a variable of the exporter is invalid.
    """
    name = f"OTEL_{signal}_EXPORTER"
    exporter = _said(environ, name).lower()
    if exporter not in ("", "otlp", "none"):
        wrong = f"the variable {name} names an unknown exporter"
        raise TelemetrySettingsError(wrong, "set it to `otlp` or `none`")
    endpoints = (_ENDPOINT, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    is_named = any(_said(environ, each) for each in endpoints)
    if exporter != "otlp" and (not is_named or exporter or signal == "LOGS"):
        return False
    for name in endpoints:
        value = _said(environ, name)
        try:
            url = urlsplit(value)
            is_address = url.scheme in ("http", "https") and url.hostname and url.port != 0
        except ValueError:
            is_address = False
        if value and not is_address:
            wrong = f"the variable {name} holds no address"
            raise TelemetrySettingsError(wrong, f"write it like {DEFAULT_ENDPOINT}")
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"):
        if _said(environ, name) not in ("", _PROTOCOL):
            wrong = f"the variable {name} names a protocol that is not supported"
            todo = f"set it to `{_PROTOCOL}`, which collectors accept at port 4318"
            raise TelemetrySettingsError(wrong, todo)
    return True


def _check_sampler(environ: Mapping[str, str]) -> None:
    """Check the sampler: the SDK samples every run if it cannot read the value."""
    sampler, share = _said(environ, _SAMPLER).lower(), _said(environ, _SHARE)
    if sampler and sampler not in _SAMPLERS:
        wrong = f"the variable {_SAMPLER} names an unknown sampler"
        raise TelemetrySettingsError(wrong, f"set it to one of {', '.join(_SAMPLERS)}")
    if sampler.endswith("ratio") and share:
        try:
            is_part = 0 <= float(share) <= 1
        except ValueError:
            is_part = False
        if not is_part:
            wrong = f"the variable {_SHARE} is not a number from 0 to 1"
            raise TelemetrySettingsError(wrong, "write it like 0.1")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            yield unquote(name.strip()), unquote(value.strip())
