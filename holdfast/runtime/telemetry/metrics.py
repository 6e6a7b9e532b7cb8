"""The metrics of a worker: those of OpenTelemetry's conventions, and our own beside them.

No label identifies a run or a person. The number of values is bounded for a label whose values
people can invent, such as the name of an agent in a request; further values are counted together.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.internal.tracing import SpanRecord

MAX_VALUES_OF_LABEL: Final = 100
OTHERS: Final = "other"

TOKENS: Final = "gen_ai.client.token.usage"
DURATION: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
COST: Final = "holdfast.cost"
TURNS: Final = "holdfast.turns"
CALLS: Final = "holdfast.calls"
RUNS: Final = "holdfast.runs.ended"
WAITED: Final = "holdfast.approval.wait"
ERRORS: Final = "holdfast.errors"
OUTLIVED: Final = "holdfast.activities.outlived"
BUDGETS: Final = "holdfast.budgets.used"
# Reported by the inbox alone, which sees all pending approvals, whichever worker runs the calls.
WAITING: Final = "holdfast.approvals.waiting"
OLDEST: Final = "holdfast.approvals.oldest"

# The buckets that the conventions advise.
_TOKEN_BUCKETS = [4**power for power in range(14)]
_SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]
_WAIT_BUCKETS = [1, 10, 60, 600, 3_600, 14_400, 86_400, 259_200, 604_800]

Labels = Mapping[str, Any]


class Metrics:
    """The instruments of a worker."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._values: dict[str, set[str]] = {}
        self._tokens = _histogram(meter, TOKENS, "{token}", "Tokens used.", _TOKEN_BUCKETS)
        self._duration = _histogram(
            meter, DURATION, "s", "How long a request to a model took.", _SECOND_BUCKETS
        )
        self._first = _histogram(
            meter, FIRST_CHUNK, "s", "How long a model took to its first output.", _SECOND_BUCKETS
        )
        self._waited = _histogram(
            meter, WAITED, "s", "How long an approval was pending.", _WAIT_BUCKETS
        )
        self._cost = meter.create_counter(COST, "1", "By the endpoints' prices.")
        self._turns = meter.create_counter(TURNS, "{turn}", "Answers of models to runs.")
        self._calls = meter.create_counter(CALLS, "{call}", "Calls that have ended.")
        self._runs = meter.create_counter(RUNS, "{run}", "Runs that have ended.")
        self._errors = meter.create_counter(ERRORS, "{error}", "Errors by code.")

    def observe_outlived(self, count: Callable[[], int]) -> None:
        """Report, whenever metrics are read, how many activities run on after their attempts."""
        callbacks = [lambda _: [Observation(count())]]
        words = "Activities that still run although Temporal has given up their attempts."
        self._meter.create_observable_gauge(OUTLIVED, callbacks, "{activity}", words)

    def observe_budgets(self, shares: Callable[[], Mapping[tuple[str, str], float]]) -> None:
        """Report, whenever metrics are read, what is used of each shared budget and limit."""

        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(share, {"holdfast.budget": name, "holdfast.limit": limit})
                for (name, limit), share in shares().items()
            ]

        words = "The used part of a budget that runs share, of the scope that uses most."
        self._meter.create_observable_gauge(BUDGETS, [observe], "1", words)

    def record_answer(
        self,
        labels: Labels,
        usage: Usage,
        seconds: float,
        first_seconds: float | None,
        *,
        turn: bool,
    ) -> None:
        """Record a model's answer; `turn` is true if a run continues with it."""
        labels = self._bounded(labels)
        self._duration.record(seconds, labels)
        if first_seconds is not None:
            self._first.record(first_seconds, labels)
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**labels, "gen_ai.token.type": kind})
        if usage.cost is not None:
            self._cost.add(usage.cost, labels)
        if turn:
            self._turns.add(1, labels)

    def record_failure(self, labels: Labels, seconds: float, error: str) -> None:
        labels = self._bounded({**labels, "error.type": error})
        self._duration.record(seconds, labels)
        self._errors.add(1, {"error.type": labels["error.type"], "holdfast.of": "model"})

    def record_span_end(self, span: SpanRecord, seconds: float) -> None:
        """Record the end of a run, a call or an approval."""
        attributes = span.attributes
        error = {} if span.error is None else {"error.type": span.error}
        match span.kind:
            case "tool":
                self._calls.add(1, self._bounded(_of(attributes, "gen_ai.tool.name") | error))
            case "run":
                of = _of(attributes, "gen_ai.agent.name", "gen_ai.workflow.name", "holdfast.status")
                self._runs.add(1, self._bounded(of | error))
            case "approval":
                of = _of(attributes, "holdfast.approval.kind", "holdfast.approval.verdict")
                self._waited.record(seconds, self._bounded(of))
        if error:
            self._errors.add(1, self._bounded({**error, "holdfast.of": span.kind}))

    def _bounded(self, labels: Labels) -> dict[str, Any]:
        """Return the labels, with a common value for a label that has too many values."""
        bounded = dict(labels)
        for name, value in labels.items():
            values = self._values.setdefault(name, set())
            if len(values) < MAX_VALUES_OF_LABEL:
                values.add(str(value))
            elif str(value) not in values:
                bounded[name] = OTHERS
        return bounded


def _histogram(meter: Meter, name: str, unit: str, words: str, buckets: list[Any]) -> Any:
    return meter.create_histogram(name, unit, words, explicit_bucket_boundaries_advisory=buckets)


def _of(attributes: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: attributes[name] for name in names if name in attributes}
