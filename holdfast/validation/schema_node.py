"""The schemas of a document as nodes with their checks, and the bounded work of applying them.

Temporal fails a workflow task that blocks for two seconds. The work on untrusted values is counted
in steps of a tenth of a microsecond, and not timed, so that a replay gets the same result. The
checks of one decision use one `WorkBudget`; those of one workflow task also use one
`SharedWorkBudget`, which the task's shell provides in its `ValidationLimits`. The checks of a
schema are chosen once for each type of a value, so that `type` and the keywords of other types take
no time.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.json_schema import target_of
from holdfast.validation.regex import Pattern, PatternRefused, pattern

# The steps of one decision of a run, of one workflow task, and of the messages and decisions that
# one workflow task receives.
MAX_STEPS = 5_500_000
TASK_STEPS = 6_000_000
INPUT_STEPS = 1_500_000
# What an application of a schema, and an error, takes beside its own steps; a coercion or a search;
# ten microseconds of other work.
APPLICATION_STEPS = 3
SLOW_STEPS = 25
WORK_STEPS = 100
# What takes ten microseconds: compiling so many instructions of a pattern, applying them.
_INSTRUCTIONS_COMPILED = 30
_INSTRUCTIONS_APPLIED = 4_000
# A rejected pattern may have been compiled in part.
_REFUSED_INSTRUCTIONS = 30_000
# Schemas within schemas, for which Python has room on its stack.
MAX_NESTED_CHECKS = 200
ANCHORS = ("$anchor", "$dynamicAnchor")
# The parts of a schema that count as one step.
_PARTS_A_STEP = 4
# To choose the checks takes as long as so many applications of a schema.
_CHOICES = 20
REFERENCES = ("$ref", "$dynamicRef")


class CannotCheck(Exception):
    """A validation without a result; the message is the reason."""


@dataclass
class SharedWorkBudget:
    """The remaining budget of one workflow task."""

    steps: int


class WorkBudget:
    """A remaining budget, and what the checks that use it share.

    `nested` are the schemas around the current one; `verdicts` those so far of schemas in choices,
    by the schema's node and the id of a value; `roots` the nodes of whole schemas by their ids.
    """

    def __init__(self, shared: SharedWorkBudget | None = None) -> None:
        self._shared = SharedWorkBudget(MAX_STEPS) if shared is None else shared
        self._steps = MAX_STEPS
        self._patterns: dict[str, Pattern] = {}
        self.nested = 0
        self.verdicts: dict[tuple[Node, int], bool] = {}
        self.roots: dict[int, Node] = {}

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget.

        Raises:
            CannotCheck: the budget is used up.
        """
        self._steps -= steps
        self._shared.steps -= steps
        if self._steps < 0:
            raise CannotCheck(f"too large to be checked: that takes more than {MAX_STEPS} steps")
        if self._shared.steps < 0:
            raise CannotCheck("too large to be checked beside all else that came with it")

    def work(self, amount: int, in_ten_microseconds: int) -> None:
        """Subtract the steps of work that is not an application of a keyword."""
        self.spend(WORK_STEPS * amount // in_ten_microseconds)

    def matches(self, written: str, text: str) -> bool:
        """Return whether a text contains a match of a pattern, which is compiled once."""
        ready = self._patterns.get(written)
        if ready is None:
            try:
                self._patterns[written] = ready = pattern(written)
            except PatternRefused as refused:
                self.work(_REFUSED_INSTRUCTIONS, _INSTRUCTIONS_COMPILED)
                raise CannotCheck(f"the schema cannot be applied: {refused}") from None
            self.work(ready.steps, _INSTRUCTIONS_COMPILED)
        self.spend(SLOW_STEPS)
        self.work(ready.steps * len(text), _INSTRUCTIONS_APPLIED)
        return ready.is_in(text)


class ValidationLimits:
    """The budgets of the checks in a workflow: one for each decision, and one for each task.

    `task` returns the budget of the current workflow task; outside of workflows there is none.
    """

    def __init__(self, task: Callable[[], SharedWorkBudget] | None = None) -> None:
        self._task = task
        self._decision: WorkBudget | None = None

    def budget(self) -> WorkBudget:
        """Return the budget of the current decision, or one for a single check."""
        return self._decision or WorkBudget(None if self._task is None else self._task())

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Share one budget, about half a second of work, among all checks inside."""
        outer, self._decision = self._decision, self.budget()
        try:
            yield
        finally:
            self._decision = outer


@dataclass(slots=True)
class Fault:
    """What does not fit: a value, and a keyword with its rule in the schema.

    `text` is the message, in which `{value}` and `{rule}` are filled in as JSON, and a rule that is
    a text as `{words}`. `schema_place` is the path of keywords to the rule.
    """

    text: str
    value: Any
    rule: Any
    keyword: str = ""
    place: tuple[str | int, ...] = ()
    schema_place: tuple[str | int, ...] = ()

    @property
    def message(self) -> str:
        """Return the error in one line, which quotes the whole value."""
        value, rule = as_json(self.value), as_json(self.rule)
        return self.text.format(value=value, rule=rule, words=self.rule)


def as_json(value: Any) -> str:
    """Return a value as an error quotes it: as JSON, with half of a surrogate pair escaped."""
    # A form has a value of its own for what is missing.
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text.encode("utf-8", "backslashreplace").decode()


Faults = Iterator[Fault]
# From the keyword's rule, the value, the node of its schema.
Check = Callable[[Any, Any, "Node", WorkBudget], Faults]
# Each schema that a keyword applies, the key or index of its part of the value (None: the value
# itself), and the path of the schema within the rule.
Applied = Iterator[tuple["Node", Any, tuple[str | int, ...]]]
Application = Callable[[Any, Any, "Node", WorkBudget], Applied]


@dataclass(frozen=True)
class Vocabulary:
    """The keywords by their names.

    `checks` have the types of the values that a keyword is about, and its check; `applications`
    the schemas that it applies, of those of a choice the ones that may be chosen.
    """

    checks: dict[str, tuple[tuple[type, ...], Check]]
    applications: dict[str, Application]


def is_of_types(value: Any, types: tuple[type, ...]) -> bool:
    """Return whether a JSON value is of one of the types; `true` is no number."""
    return isinstance(value, types) and (
        not isinstance(value, bool) or bool in types or object in types
    )


class Node:
    """One schema of a document, and its checks by the type of a value."""

    def __init__(self, schema: Any, vocabulary: Vocabulary, root: "Node | None" = None) -> None:
        self.schema = schema
        self._vocabulary = vocabulary
        self.root = root or self
        # By the id of its schema, which the document keeps alive, or a reference to it.
        self.nodes: dict[int | str, Node] = {} if root is None else root.nodes
        # The keys of the values of `enum`, once it was applied.
        self.values: frozenset[Any] | None = None
        self._checks: dict[type, list[tuple[str, Check, Any]]] = {}
        self._rules = schema.items() if isinstance(schema, dict) else ()
        self._cost = sum(
            1 + (len(rule) // _PARTS_A_STEP if isinstance(rule, dict | list) else 0)
            for keyword, rule in self._rules
            if keyword in vocabulary.checks
        )

    def faults(self, value: Any, budget: WorkBudget) -> Iterable[Fault]:
        """Return the errors of the value, found one by one within the budget."""
        budget.spend(self._cost + APPLICATION_STEPS)
        checks = self._checks.get(value.__class__)
        if checks is None:
            budget.spend(_CHOICES * APPLICATION_STEPS)
            checks = self._checks[value.__class__] = list(self._chosen(value))
        return self._found(checks, value, budget) if checks else ()

    def fits(self, value: Any, budget: WorkBudget) -> bool:
        """Return whether the value has no errors.

        Of an object or a list, the verdict is kept: choices within choices would check it again and
        again.
        """
        key = (self, id(value))
        if key in budget.verdicts:
            return budget.verdicts[key]
        budget.spend(4 * APPLICATION_STEPS)
        nested = budget.nested
        fits = next(iter(self.faults(value, budget)), None) is None
        budget.nested = nested
        if isinstance(value, dict | list):
            budget.verdicts[key] = fits
        return fits

    def evaluated(self, value: Any, budget: WorkBudget) -> Iterator[Any]:
        """Yield the keys or indexes of the parts that this schema, or one within it, is about."""
        budget.spend(self._cost + len(value))
        for keyword, rule in self._rules:
            applied = self._vocabulary.applications.get(keyword)
            if applied is None or not isinstance(value, self._vocabulary.checks[keyword][0]):
                continue
            for part, step, _ in applied(rule, value, self, budget):
                budget.spend(1)
                if step is not None:
                    yield step
                elif keyword in REFERENCES or part.fits(value, budget):
                    yield from part.evaluated(value, budget)

    def part(self, schema: Any) -> "Node":
        """Return the node of a schema within the document."""
        found = self.nodes.get(id(schema))
        if found is None:
            found = self.nodes[id(schema)] = Node(schema, self._vocabulary, self.root)
        return found

    def target(self, reference: str) -> "Node":
        """Return the node of a local reference, or raise `CannotCheck`."""
        if reference not in self.nodes:
            found = find_target(reference, self.root.schema)
            if found is None:
                why = f"{reference[:200]} is nowhere in it"
                raise CannotCheck(f"the schema cannot be applied: {why}")
            self.nodes[reference] = self.part(found)
        return self.nodes[reference]

    def _found(
        self, checks: list[tuple[str, Check, Any]], value: Any, budget: WorkBudget
    ) -> Faults:
        budget.nested += 1
        if budget.nested > MAX_NESTED_CHECKS:
            raise CannotCheck("too deep to be checked")
        for keyword, check, rule in checks:
            for fault in check(rule, value, self, budget):
                budget.spend(1 + APPLICATION_STEPS)
                fault.keyword = fault.keyword or keyword
                fault.schema_place = (keyword, *fault.schema_place)
                yield fault
        budget.nested -= 1

    def _chosen(self, value: Any) -> Iterator[tuple[str, Check, Any]]:
        if self.schema is False:
            yield "", _nothing, False
        for keyword, rule in self._rules:
            types, check = self._vocabulary.checks.get(keyword, ((), _nothing))
            # Of a float, the value decides whether it is an integer.
            is_certain = keyword == "type" and not isinstance(value, float)
            if is_of_types(value, types) and not (
                is_certain and not [*check(rule, value, self, WorkBudget())]
            ):
                yield keyword, check, rule


def find_target(reference: str, root: Any) -> Any:
    """Return the schema that a local reference names by its place or an anchor, or None."""
    if reference[:1] != "#" or reference[1:2] in ("", "/"):
        return target_of(reference, root)
    rest = [root]
    while rest:
        each = rest.pop()
        parts = each
        if isinstance(each, dict):
            if reference[1:] in map(each.get, ANCHORS):
                return each
            parts = each.values()
        # A schema with an `$id` has anchors of its own.
        rest += (part for part in parts if isinstance(part, dict | list) and "$id" not in part)
    return None


def _nothing(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    yield Fault("False schema does not allow {value}", value, rule)
