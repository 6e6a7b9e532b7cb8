"""Suites of cases that an agent is tested with: the files of `evals/`."""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.base import SettingsFile, Strict
from holdfast.schemas.phrases import NAME_PATTERN
from holdfast.schemas.run import RunStatus
from holdfast.schemas.tool import Schema

MAX_CASES = 1_000
MAX_REPEATS = 100


class ExpectedCall(Strict, use_attribute_docstrings=True):
    """A call of a tool, with the arguments that it has among others."""

    tool: Annotated[str, Field(min_length=1)]
    """The tool."""
    arguments: dict[str, JsonValue] = {}
    """The arguments that it has at least, with equal values."""


Calls = Annotated[list[str | ExpectedCall], Field(max_length=200)]


class ExpectedCalls(Strict, use_attribute_docstrings=True):
    """The calls of a run. A name is a call of that tool with any arguments."""

    exactly: Calls | None = None
    """These calls and no other, in any order."""
    at_least: Calls = []
    """These calls, among others."""
    never: Calls = []
    """No such call."""
    in_order: Calls = []
    """These calls one after the other, with others between them."""


class ExpectedOutput(Strict, use_attribute_docstrings=True):
    """The output of a run."""

    equals: JsonValue = None
    """The output itself; null: any."""
    contains: list[str] = []
    """Texts in it; in a structured output, in its JSON. Upper and lower case are equal."""
    schema_: Annotated[Schema | bool, Field(alias="schema")] = True
    """A JSON Schema that it fits."""
    judge: str | None = None
    """A rubric by which a model decides whether it is right."""


class NamedEvaluator(Strict, use_attribute_docstrings=True):
    """An evaluator of pydantic-evals, which is run in the command's process if that is allowed."""

    evaluator: Annotated[str, Field(pattern=r"^[^:]+:[^:]+$")]
    """Its class: `module:Class`, or `file.py:Class`."""
    arguments: dict[str, JsonValue] = {}
    """What it is made with."""


class Expectation(Strict, use_attribute_docstrings=True):
    """What a run of a case has to be like."""

    status: RunStatus = "completed"
    """How it ends."""
    output: ExpectedOutput = ExpectedOutput()
    """Its output."""
    calls: ExpectedCalls = ExpectedCalls()
    """Its calls."""
    state: dict[str, JsonValue] = {}
    """What its final state has at least, with equal values."""
    approvals: list[str] | None = None
    """The tools for whose calls it asks, in any order, each as often as it does."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """The most that it costs, by the endpoints' prices; an unknown cost is more."""
    max_turns: Annotated[int, Field(ge=1)] | None = None
    """The most requests to the model."""
    evaluators: list[NamedEvaluator] = []
    """What else decides, in Python."""


class CaseAnswer(Strict, use_attribute_docstrings=True):
    """What answers a call with these arguments, in place of its tool."""

    tool: str
    """The tool."""
    arguments: dict[str, JsonValue] = {}
    """The arguments, whole."""
    result: JsonValue = None
    """What the tool returns."""
    error: str | None = None
    """In place of a result, why it fails."""

    @model_validator(mode="after")
    def _one_end(self) -> "CaseAnswer":
        if self.error is not None and self.result is not None:
            raise ValueError("it has a `result` and an `error`; leave one of them out")
        return self


class CaseHook(Strict, use_attribute_docstrings=True):
    """What answers a hook of a call in place of its activity; a use without one changes nothing."""

    hook: str
    """The hook, without its `_`."""
    arguments: list[JsonValue] = []
    """What it receives, without ids, turns and reasons."""
    result: JsonValue = None
    """What it returns."""
    error: str | None = None
    """In place of a result, why it fails."""


class CaseDecision(Strict, use_attribute_docstrings=True):
    """The decision on a call with these arguments; without one, it is approved."""

    tool: str
    """The tool."""
    arguments: dict[str, JsonValue] = {}
    """The arguments, whole."""
    decision: Literal["deny", "edit", "respond"]
    """The decision."""
    edit: dict[str, JsonValue] | None = None
    """The arguments in place of these, with `decision: edit`."""
    result: JsonValue = None
    """The answer of a person, with `decision: respond`."""
    reason: str | None = None
    """Why."""

    @model_validator(mode="after")
    def _whole(self) -> "CaseDecision":
        if (self.edit is not None) != (self.decision == "edit"):
            raise ValueError("`edit` belongs to `decision: edit`; write both, or neither")
        return self


class EvalCase(Strict, use_attribute_docstrings=True):
    """One run: what it is given, what answers its calls, and what it has to be like."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    """Its name, in tables and baselines."""
    request: dict[str, Any] = {}
    """The fields of the run's request besides the agent: `input`, `state`, `context` and others."""
    messages: list[JsonValue] = []
    """The messages that a conversation is sent, after each answer the next."""
    answers: list[CaseAnswer] = []
    """What answers its calls: of equal ones, the first use has the first answer."""
    hooks: list[CaseHook] = []
    """What answers the hooks of its calls."""
    decisions: list[CaseDecision] = []
    """The decisions on its calls, besides approvals."""
    expect: Expectation = Expectation()
    """What it has to be like."""


class EvalSuite(SettingsFile):
    """A file of `evals/`: cases for one agent."""

    agent: Annotated[str, Field(min_length=1)]
    """The agent of the catalog that is tested, unless another is named."""
    repeat: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 1
    """How often each case is run."""
    pass_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The part of the runs of a case that have to pass."""
    judge: ModelSettings | None = None
    """The model that decides by rubrics (default: that of the agent)."""
    cases: Annotated[list[EvalCase], Field(min_length=1, max_length=MAX_CASES)]
    """The cases."""

    @model_validator(mode="after")
    def _distinct(self) -> "EvalSuite":
        known = set[str]()
        for each in self.cases:
            if each.name in known:
                raise ValueError(f"two cases have the name `{each.name}`; rename one of them")
            known.add(each.name)
        return self
