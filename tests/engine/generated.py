"""Generated material: JSON of every kind, schemas and what only looks like one, and runs in which
models, tools and people do anything at all."""

import copy
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from holdfast.schemas.decision import Decision
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.message import Delivered
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.reference import Path
from holdfast.schemas.tool import ApprovalPolicy, CallLimits
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.activities import outcome_of_failure, outcome_of_result
from holdfast.workflows.engine.call.outcomes import Failure, Outcome, Stopped, fail
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.phases import Fail, Finish
from tests.engine.driver import Play, PlayTask, reply, tool

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["†state.a", "†{state.a} x", "†state.no", "†", "5", "true", "[1]", '{"a":1}'])
)
KEYS = st.sampled_from(["a", "b", "amount", "_reasoningForCall", "_outputPath"]) | st.text(
    max_size=5
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)

KEYWORDS = st.sampled_from(
    [
        "type", "properties", "items", "required", "anyOf", "oneOf", "allOf", "$ref", "$defs",
        "additionalProperties", "enum", "const", "minimum", "multipleOf", "pattern", "prefixItems",
        "minItems", "uniqueItems", "not", "if", "then", "$schema", "$id", "format", "contains",
    ]
)  # fmt: skip
RULES = st.sampled_from(
    [
        "string", "integer", "number", "boolean", "object", "array", "null", "#", "#/$defs/a",
        "http://example.com/x.json", "(", "a+", ["string", "null"], ["a"], 0, 0.01, -1, True,
    ]
)  # fmt: skip
NOISE = st.recursive(
    RULES | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | KEYS, inner, max_size=4),
    max_leaves=10,
)
"""What has the shape of a schema and need not be one."""

TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])
SCHEMAS = st.recursive(
    st.booleans() | st.builds(lambda name: {"type": name}, TYPES),
    lambda inner: (
        st.builds(lambda each: {"type": "array", "items": each}, inner)
        | st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(
            lambda each: {"type": "object", "properties": each},
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        )
    ),
    max_leaves=6,
)
"""Schemas as people write them."""

KEPT = ApprovalPolicy(on_timeout="approve")
AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}}
TOOLS = [
    tool("look"),
    tool("typed", AMOUNT | {"required": ["amount"]}, output={"type": "object"}),
    tool("push", output_path="†state.list", output_method="push"),
    tool("either", output_path="†state.a || †state.error", untrusted=True),
    tool("both", output_path="†state.a.b && †state.c", output_method="merge", show="none"),
    tool("free", chosen={"_outputPath": True, "_outputMethod": True, "_scopes": True}),
    tool("pay", AMOUNT, side_effects=True, approval=ApprovalPolicy(quorum=2)),
    tool("once", side_effects=True, idempotent=False, approval=KEPT),
    tool("capped", limits=CallLimits(per_run=1, after=["look"]), requires=["x"]),
]  # fmt: skip
SLOW = tool("slow", sequential=True)
NAMES = st.sampled_from([each.name for each in TOOLS] * 2 + ["slow", "unknown"])

CALLS = st.builds(
    WrittenCall,
    tool=NAMES,
    arguments=st.sampled_from([{}, {"amount": 5}, '{"amount": "5",}', {"a": "†state.list[0]"}])
    | OBJECTS
    | st.text(max_size=20),
    provider_id=st.none() | st.sampled_from(["a", "b", "t1c2", ""]),
    oversize_bytes=st.sampled_from([None] * 19 + [5_000_000]),
)
ANSWERS = st.builds(
    lambda text, calls: reply(text, *calls),
    st.sampled_from(["", "so", '{"a": 1}']),
    st.lists(CALLS, max_size=5),
)

FAILURES = st.builds(
    Failure,
    kind=st.sampled_from(["application", "timeout", "cancelled", "other"]),
    message=st.text(max_size=10),
    type=st.sampled_from(["", "ValueError", "NotFoundError"]),
    started=st.booleans(),
)
RETURNED = (
    JSON
    | st.builds(lambda value: {"_result": value}, JSON)
    | st.builds(lambda value: {"_message": value}, JSON)
    | st.just({"_result": {"content": "bye", "terminate": True}})
    | st.just({"_message": {"content": [{"type": "data", "kind": "state", "data": {"z": 1}}]}})
)
ENDS = RETURNED | FAILURES | st.sampled_from([Stopped("x"), fail(ErrorCode.TOOL_ERROR, "no")])

DECISIONS = st.fixed_dictionaries(
    {
        "decision": st.sampled_from(
            ["approve", "approve", "deny", "edit", "respond", "happened", "did_not_happen"]
        ),
        "arguments": st.builds(lambda n: {"amount": n}, st.integers(0, 2)) | OBJECTS,
        "result": JSON,
        "by": st.none() | st.sampled_from(["ann", "bob", "cat"]),
        "remember": st.booleans(),
    }
)
MESSAGES = st.builds(
    Delivered,
    content=st.just("hello")
    | st.builds(
        lambda kind, data: [{"type": "data", "kind": kind, "data": data}],
        st.sampled_from(["state", "notes", "input"]),
        JSON,
    ),
    delivery=st.sampled_from(["steer", "followUp"]),
)


@dataclass
class Drawn:
    """Everything that a run is played with."""

    answers: list[Solution]
    ends: list[Any]
    decisions: list[dict[str, Any]]
    picks: list[int]
    messages: list[Delivered]
    cancelled_at: int | None
    request: dict[str, Any]


class Cancelled(Exception):
    """The run is cancelled at this point."""


class Anything(Play):
    """A run in which everything is drawn: what is not drawn any more is harmless."""

    def __init__(self, drawn: Drawn) -> None:
        tools = [*TOOLS, SLOW]
        model = [*drawn.answers, *[reply("done")] * 20]
        super().__init__(*tools, model=model, **drawn.request)
        self._drawn = drawn = copy.deepcopy(drawn)
        self._moves = 0
        self.pick = lambda count: drawn.picks.pop() % count if drawn.picks else 0
        for message in drawn.messages:
            self.mailbox.put(message)

    def play(self) -> "Anything":
        """To the end, or until it is cancelled."""
        try:
            while not isinstance(step := self.next(), Finish | Fail):
                self.take(step)
        except Cancelled:
            self.run.cancel()
        return self

    def advance(self, one: PlayTask) -> None:
        self._moves += 1
        if self._moves == self._drawn.cancelled_at:
            raise Cancelled
        super().advance(one)

    def outcome(self, one: ToolCall) -> Outcome:
        assert one.tool is not None
        drawn = self._drawn.ends.pop() if self._drawn.ends else "ok"
        if isinstance(drawn, Failure):
            return outcome_of_failure(one.tool, drawn)
        if isinstance(drawn, Outcome):
            return drawn
        return outcome_of_result(one.tool, drawn, self.run.state.limits.budget())

    def ask(self, question: Question) -> None:
        while question.ruling is None and not self.run.needs_no_decision(question):
            if not self._drawn.decisions:
                self.desk.expire(question)
                return
            said = {"callId": question.call_id, **self._drawn.decisions.pop()}
            self.run.questions.count_or_log(Decision.model_validate(said))


REQUESTS = st.fixed_dictionaries(
    {
        "approvals": st.sampled_from(["ask", "ask", "ask", "deny"]),
        "budget": st.sampled_from([{}, {}, {}, {"maxCalls": 3}, {"maxIterations": 1}]),
        "definition": st.sampled_from(
            [
                {},
                {"output": {"type": "object"}},
                {"plan": "lazy"},
                {"on_limit": {"maxIterations": "ask", "maxCalls": "ask"}},
                {"state": {"type": "object", "properties": {"list": {"maxItems": 1}}}},
            ]
        ),
    }
)
RUNS = st.builds(
    Drawn,
    answers=st.lists(ANSWERS, max_size=4),
    ends=st.lists(ENDS, max_size=12),
    decisions=st.lists(DECISIONS, max_size=8),
    picks=st.lists(st.integers(0, 9), max_size=20),
    messages=st.lists(MESSAGES, max_size=2),
    cancelled_at=st.sampled_from([None, None, None, 1, 2, 3, 5, 8]),
    request=REQUESTS,
)
"""What runs are played with."""


def part_in_a_list(place: Path, other: Path) -> bool:
    """Whether two places of one value are in different items of a list."""
    if (place.kind, place.instance) != (other.kind, other.instance):
        return False
    parts = ((a, b) for a, b in zip(place.steps, other.steps, strict=False) if a != b)
    return any(isinstance(step, int) for step in next(parts, ()))
