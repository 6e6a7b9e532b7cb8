"""The telemetry of a worker: started before its first run, sent when it stops.

The core of Temporal's SDK measures queues, pollers and latencies itself, and sends them to the same
collector. A missing collector stops no work: the error is logged now and then.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from temporalio.exceptions import ApplicationError
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    OpenTelemetryConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from holdfast.hosting.own_runs import ForeignRunError
from holdfast.hosting.resources import WorkerResources
from holdfast.runtime.storage.store import StoreError
from holdfast.runtime.telemetry.startup import start_telemetry, telemetry_secrets
from holdfast.runtime.telemetry.trace_context import TraceContextFilter
from holdfast.schemas import names

# Cancellations are included: they cut off work when the worker stops.
_ON_PURPOSE = (ApplicationError, StoreError, ForeignRunError, asyncio.CancelledError)
# The field by which the SDK marks the record of a failed attempt.
_FAILED_ATTEMPT = "__temporal_error_identifier"
# The code of the SDK's error for a reference to a stored value in a process without a store.
_NO_STORE = "[TMPRL1105]"

SERVICE: Final = "holdfast-worker"


def with_telemetry(resources: WorkerResources) -> WorkerResources:
    """Start telemetry, and return the resources with it; it is closed when their worker stops."""
    resources.secrets.learn(telemetry_secrets(os.environ))
    telemetry = start_telemetry(resources.telemetry_settings, SERVICE, resources.secrets)
    return replace(resources, telemetry=telemetry)


def core_metrics(resources: WorkerResources) -> TelemetryConfig | None:
    """Return the metrics settings of the SDK's core, or None if metrics are off."""
    settings, telemetry = resources.telemetry_settings, resources.telemetry
    if telemetry is None or not settings.metrics:
        return None
    config = OpenTelemetryConfig(
        url=settings.metrics_url,
        headers=settings.headers,
        metric_periodicity=settings.interval,
        durations_as_seconds=True,
        http=True,
    )
    return TelemetryConfig(
        metrics=config, global_tags=telemetry.identity, attach_service_name=False
    )


def log_to_stderr(clean: Callable[[str], str] = str) -> None:
    """Log warnings of all modules, and information of Holdfast's own, to standard error.

    `clean` removes secrets from a text.
    """
    handler = logging.StreamHandler(sys.stderr)
    for each in (_Brief(), TraceContextFilter()):
        handler.addFilter(each)
    handler.setFormatter(_Discreet(clean))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("holdfast").setLevel(logging.INFO)


def core_runtime(metrics: TelemetryConfig | None = None) -> Runtime:
    """Return the SDK's core with its log in Python's: by default it writes to standard output."""
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    levels = TelemetryFilter(core_level="WARN", other_level="ERROR")
    logging_ = LoggingConfig(levels, forwarding)
    return Runtime(telemetry=replace(metrics or TelemetryConfig(), logging=logging_))


class _Discreet(logging.Formatter):
    def __init__(self, clean: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s%(place)s")
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        return self._clean(super().format(record))


class _Brief(logging.Filter):
    """Log an error that is raised on purpose in one line; only an unplanned error has a stack.

    The error of an activity's attempt has one line, and its stack only at the level DEBUG.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        try:
            text, message = record.getMessage(), str(error)
        except Exception as failed:  # raised, it would fail the call of the tool that logs
            place = f"{record.pathname}:{record.lineno}"
            record.msg, record.args = f"{place} cannot be logged: {type(failed).__name__}", ()
            return True
        if error is not None and getattr(record, _FAILED_ATTEMPT, None) == "ActivityFailure":
            what = " ".join(f"{type(error).__name__}: {message}".split())
            record.msg, record.args = f"{text}: {what}", ()
            if not logging.getLogger("holdfast").isEnabledFor(logging.DEBUG):
                record.exc_info = record.exc_text = None
            return True
        if message.startswith(_NO_STORE):
            message = f"{message} Start this worker with the `--store` of the others"
        elif not (isinstance(error, _ON_PURPOSE) or type(error).__name__ == names.STOP_RUN):
            return True
        if getattr(error, "type", "") == names.AHEAD_OF_HISTORY:  # it is replayed
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = f"{text}: {message}", ()
        record.exc_info = record.exc_text = None
        return True
