"""The place of a run in a trace, and the spans of a run.

Between processes it travels in the header that Temporal's own tracing writes in every language: a
JSON map with the W3C's `traceparent`. The ids of a run and of its calls are derived from the
namespace and their Temporal ids, so that every process can compute them, and a retry has the same
ids.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import JsonValue

from holdfast.schemas.base import Lenient, canonical_json, sha256

HEADER: Final = "_tracer-data"
TRACEPARENT: Final = "traceparent"
SAMPLED: Final = "01"
UNSAMPLED: Final = "00"
# Of what a starter sends along, with its vendors' own (`tracestate`) and its `baggage`.
MAX_HEADER_CHARACTERS = 8_192

_TRACE_CHARACTERS, _SPAN_CHARACTERS = 32, 16
_VERSION = "00"
# There is no version `ff`, and no id of zeros. Later versions may have more behind it.
_PARENT = re.compile(
    rf"(?!ff|{_VERSION}.{{53}}-)[0-9a-f]{{2}}-"
    r"(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)


class Tracing(Lenient):
    """The tracing of a run.

    `flags` is whether its spans are recorded, or only counted; with `content`, spans hold
    arguments, results and messages.
    """

    flags: str = SAMPLED
    content: bool = False


@dataclass(frozen=True)
class Place:
    """A place in a trace: a span of it, whether it is wanted, and what else travels with it."""

    trace_id: str
    span_id: str
    flags: str = SAMPLED
    more: dict[str, str] = field(default_factory=dict)

    def header(self) -> dict[str, str]:
        parent = f"{_VERSION}-{self.trace_id}-{self.span_id}-{self.flags}"
        return {**self.more, TRACEPARENT: parent}


def read_header(said: Any) -> Place | None:
    """Return the place that a caller sent; None where it is none."""
    if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
        return None
    found = _PARENT.fullmatch(said.get(TRACEPARENT, ""))
    if found is None or len(json.dumps(said)) > MAX_HEADER_CHARACTERS:
        return None
    trace_id, span_id, flags = found.groups()
    more = {name: text for name, text in said.items() if name != TRACEPARENT}
    return Place(trace_id, span_id, SAMPLED if int(flags, 16) & 1 else UNSAMPLED, more)


@dataclass(frozen=True)
class TraceOrigin:
    """What a run's ids follow from: its chain of runs, which no other in the world is."""

    namespace: str
    workflow_id: str
    first_run_id: str

    def trace_id(self) -> str:
        """Return the trace of a run that no caller started as a part of theirs."""
        return self._derived("trace")[:_TRACE_CHARACTERS]

    def span_id(self, what: str = "") -> str:
        return self._derived("span", what)[:_SPAN_CHARACTERS]

    def place(self, what: str = "", flags: str = SAMPLED) -> Place:
        return Place(self.trace_id(), self.span_id(what), flags)

    def _derived(self, *what: str) -> str:
        return sha256(canonical_json([self.namespace, self.workflow_id, self.first_run_id, *what]))


class SpanRecord(Lenient):
    """Something that was, as a span: with an error's code, where it ended in one."""

    kind: Literal["run", "tool", "approval"]
    name: str
    span_id: str
    parent_id: str | None = None
    start: str
    end: str
    error: str | None = None
    attributes: dict[str, JsonValue] = {}


class SpanBatch(Lenient):
    """The input of `record_spans`: what is new of a run. `endpoint` is where its model is asked."""

    trace_id: str
    flags: str
    endpoint: str | None = None
    spans: list[SpanRecord] = []
