"""Start the telemetry of a process as its environment configures it."""

import logging
from typing import Final

from opentelemetry._logs import Logger, LogRecord, SeverityNumber, get_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry.telemetry import SCOPE, Telemetry
from holdfast.runtime.telemetry.telemetry_settings import TelemetrySettings
from holdfast.runtime.telemetry.trace_context import TraceContextFilter

# An export error is logged at most once in this time: while the collector is away, every batch
# fails.
BETWEEN_TROUBLES_SECONDS: Final = 300

_SENDING: Final = "opentelemetry"
_SEVERITIES: Final = {logging.ERROR: "ERROR", logging.WARNING: "WARN", logging.INFO: "INFO"}


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
    if not any(isinstance(each, RateLimitedHandler) for each in sending.handlers):
        sending.addHandler(RateLimitedHandler())
        sending.propagate = False
    # What the environment names wins.
    about = Resource.create({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
    reader = None
    if settings.metrics:
        interval_ms = settings.interval.total_seconds() * 1_000
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(), interval_ms)
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
