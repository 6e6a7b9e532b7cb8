"""Start the telemetry of a process as the standard OpenTelemetry variables configure it.

The SDK and its exporters read most of these variables themselves. Values that they would ignore
silently (another protocol, an invalid address) are rejected here, with a message that names the
fix.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Final
from urllib.parse import unquote, urlsplit

from opentelemetry._logs import Logger, LogRecord, SeverityNumber, get_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from holdfast.runtime.secrets import Secrets, address_secrets, header_secrets
from holdfast.runtime.telemetry.telemetry import SCOPE, Telemetry
from holdfast.runtime.telemetry.trace_context import TraceContextFilter
from holdfast.runtime.text_safety import extra_command
from holdfast.validation.problems import FixableError

# An export error is logged at most once in this time: while the collector is away, every batch
# fails.
BETWEEN_TROUBLES_SECONDS: Final = 300

_SENDING: Final = "opentelemetry"
_SEVERITIES: Final = {logging.ERROR: "ERROR", logging.WARNING: "WARN", logging.INFO: "INFO"}

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


def _invalid(variable: str, what: str, fix: str) -> TelemetrySettingsError:
    return TelemetrySettingsError(f"the variable {variable} {what}", fix)


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
        raise _invalid(CONTENT, "is unclear", "set it to `true` or `false`")
    interval = _said(environ, _INTERVAL)
    if interval and not (interval.isdecimal() and 0 < float(interval) <= _MAX_INTERVAL_MS):
        raise _invalid(
            _INTERVAL,
            f"is no number of milliseconds up to {_MAX_INTERVAL_MS}",
            "write it like 60000",
        )
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
        raise _invalid(name, "names an unknown exporter", "set it to `otlp` or `none`")
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
            raise _invalid(name, "holds no address", f"write it like {DEFAULT_ENDPOINT}")
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
        raise _invalid(
            _SAMPLER, "names an unknown sampler", f"set it to one of {', '.join(_SAMPLERS)}"
        )
    if sampler.endswith("ratio") and share:
        try:
            is_part = 0 <= float(share) <= 1
        except ValueError:
            is_part = False
        if not is_part:
            raise _invalid(_SHARE, "is not a number from 0 to 1", "write it like 0.1")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            yield unquote(name.strip()), unquote(value.strip())


def start_telemetry(
    settings: TelemetrySettings, service: str, secrets: Secrets
) -> Telemetry | None:
    """Start the telemetry of this process; None if it is off.

    `service` is the name of the process if its environment sets none.
    """
    if not (settings.traces or settings.metrics or settings.logs):
        return None
    # Only the extra `otlp` installs these; `read_telemetry` has checked that they are installed.
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    sending = logging.getLogger(_SENDING)
    sending.addHandler(_TROUBLES)  # it is there once, however often it is added
    sending.propagate = False
    # What the environment names wins.
    about = Resource.create({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
    reader = PeriodicExportingMetricReader(OTLPMetricExporter()) if settings.metrics else None
    telemetry = Telemetry(
        BatchSpanProcessor(OTLPSpanExporter()) if settings.traces else None,
        reader,
        content=settings.content,
        secrets=secrets,
        resource=about,
    )
    # A program that exports its own log has a provider.
    if settings.logs and not isinstance(get_logger_provider(), LoggerProvider):
        provider = LoggerProvider(about, shutdown_on_exit=False)
        provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        handler = OtlpLogHandler(provider.get_logger(SCOPE), secrets)
        logging.getLogger().addHandler(handler)
        telemetry.on_close(lambda: logging.getLogger().removeHandler(handler))
        telemetry.on_close(provider.shutdown)
    return telemetry


class RateLimitedHandler(logging.Handler):
    """Log each message of the exporters at the root logger, at most once in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, unless its message was logged recently; logging calls this."""
        if record.created - self._told.get(str(record.msg), 0.0) >= BETWEEN_TROUBLES_SECONDS:
            self._told[str(record.msg)] = record.created
            logging.getLogger().handle(record)


_TROUBLES = RateLimitedHandler()


class OtlpLogHandler(logging.Handler):
    """Send every log record to the collector, without secrets, with its run."""

    def __init__(self, logger: Logger, secrets: Secrets) -> None:
        super().__init__()
        self._logger = logger
        self._secrets = secrets
        self.addFilter(TraceContextFilter())
        # Sending the records of the exporters would never end.
        self.addFilter(lambda record: not record.name.startswith(_SENDING))

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; logging calls this."""
        severities = (name for level, name in _SEVERITIES.items() if record.levelno >= level)
        severity = next(severities, "DEBUG")
        place = getattr(record, "at", {})
        self._logger.emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                severity_number=SeverityNumber[severity],
                severity_text=severity,
                body=self._secrets.clean_for_operator(self.format(record)),
                attributes={f"holdfast.{name}": each for name, each in place.items()}
                | {"logger": record.name},
            )
        )
