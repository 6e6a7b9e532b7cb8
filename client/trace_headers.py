"""Whose trace a run hangs in: what whoever has it started sends along, as the run itself is told.

A program's request says it in headers, the environment of a command by the same names in capitals.
What travels besides a trace (`baggage`) is not handed on: a run's header stands in its history, in
the clear, once for each of its activities.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowHandle,
)
from temporalio.converter import DataConverter

from holdfast.schemas.internal.tracing import HEADER, TRACEPARENT, Place, read_header

TRACESTATE: Final = "tracestate"
FIELDS: Final = (TRACEPARENT, TRACESTATE)
# So much of it is always handed on, as the W3C has it; a longer one need not be.
MAX_STATE_CHARACTERS: Final = 512
_STATE = re.compile(rf"[ -~]{{1,{MAX_STATE_CHARACTERS}}}")


def caller_of(said: Mapping[str, str]) -> Place | None:
    """Where whoever asks is in a trace; None where they do not say, or say it wrongly."""
    sent = {TRACEPARENT: said.get(TRACEPARENT, "")}
    state = said.get(TRACESTATE, "")
    return read_header({**sent, TRACESTATE: state} if _STATE.fullmatch(state) else sent)


def caller_in(environ: Mapping[str, str]) -> Place | None:
    """Where the program is in a trace that has set this environment."""
    return caller_of({name: environ.get(name.upper(), "") for name in FIELDS})


def under(client: Client, caller: Place | None) -> Client:
    """A client that starts what hangs under the caller."""
    if caller is None:
        return client
    config = client.config()
    config["interceptors"] = [*config["interceptors"], _Under(caller)]
    return Client(**config)


class _Under(Interceptor):
    def __init__(self, caller: Place) -> None:
        self._caller = caller

    def intercept_client(self, inner: OutboundInterceptor) -> OutboundInterceptor:
        """Wrap a client; the SDK calls this."""
        return _Starting(inner, self._caller)


class _Starting(OutboundInterceptor):
    def __init__(self, inner: OutboundInterceptor, caller: Place) -> None:
        super().__init__(inner)
        self._caller = caller

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        sent = DataConverter.default.payload_converter.to_payload(self._caller.header())
        input.headers = {**input.headers, HEADER: sent}
        return await super().start_workflow(input)
