"""Whatever models write, tools return and people decide: what always holds."""

import json
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.schemas.base import canonical_json, link, sha256
from holdfast.schemas.decision import Decision
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.log_entry import digested
from holdfast.schemas.reference import parse_reference
from holdfast.validation.arguments import InvalidArguments, coerce, fit, read_arguments
from holdfast.validation.schema_node import CannotCheck
from holdfast.validation.validator import errors, fits
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from tests.engine.driver import Play, call, read_again, reply, tool
from tests.engine.generated import JSON, NOISE, OBJECTS, RUNS, SCHEMAS, Anything, Drawn


def numbers(told: list[str], what: str, turn: str) -> list[int]:
    """The calls of a turn that an event lists, in its order."""
    return [int(e.rpartition("c")[2]) for e in told if e.startswith(f"{what} {turn}c")]


@given(RUNS)
def test_a_run_ends_once_with_one_result_of_each_call_and_events_in_source_order(
    drawn: Drawn,
) -> None:
    play = Anything(drawn).play()
    told, events = play.event_lines(), play.events()

    ids = [each["id"] for m in play.messages() for each in m.get("calls", [])]
    assert sorted(play.results()) == sorted(ids)
    assert len(play.records("tool_end")) == len(ids)
    assert play.desk.list_open() == []

    for turn in dict.fromkeys(end["callId"].partition("c")[0] for end in play.records("tool_end")):
        ends, calls = (numbers(told, what, turn) for what in ("tool_end", "tool_call"))
        assert ends == sorted(ends)
        assert calls == sorted(calls)
        asked = numbers(told, "confirmation_required", turn)
        started = [e for e in events if e["type"] == "tool_start"]
        late = [int(e["callId"].partition("c")[2]) for e in started if "arguments" in e]
        starts = [n for n in numbers(told, "tool_start", turn) if n not in (*asked, *late)]
        assert starts == sorted(starts)

    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert [event for event in events if event["type"] in ("done", "error")] == events[-1:]
    turns, ends_of_turns = (sum(e["type"] == t for e in events) for t in ("turn_start", "turn_end"))
    assert turns == ends_of_turns

    # Each entry is digested when it is appended: none has changed since, also those of people.
    digests = (sha256(digested(record)) for record in play.records())
    assert reduce(link, digests, "") == read_again(play.log)[0] == play.log.digest
    json.dumps(play.records(), allow_nan=False)


@given(JSON)
def test_any_json_as_a_decision_counts_or_is_refused(written: Any) -> None:
    play = Play(tool("pay", side_effects=True), model=[reply("", call("pay"))])
    play.take(play.next())
    step: Any = play.next()
    play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
    noise = written if isinstance(written, dict) else {"result": written}
    for data in (written, {"callId": "t1c1", "decision": "respond", **noise}):
        try:
            play.run.questions.count(Decision.model_validate(data))
        except (ValidationError, DecisionRejected):
            continue


@given(JSON, OBJECTS)
def test_any_json_as_a_solution_is_answered(written: Any, arguments: Any) -> None:
    for data in (written, {"calls": [{"tool": "look", "arguments": arguments}]}):
        try:
            solution = Solution.read(data)
        except ValidationError:
            continue
        play = Play(tool("look"), model=[solution, *[reply("done")] * 3]).to_end()
        assert play.result["status"] == "completed"


@given(OBJECTS)
def test_json_is_read_as_it_was_written(written: Any) -> None:
    for text in (json.dumps(written), canonical_json(written).decode()):
        assert read_arguments(text) == written
        assert read_arguments(f"```json\n{text}\n```") == written


@given(st.text())
def test_any_text_as_arguments_is_read_or_refused(text: str) -> None:
    try:
        read = read_arguments(text)
    except InvalidArguments:
        return
    assert isinstance(read, dict)


@given(JSON, SCHEMAS)
def test_what_was_fitted_fits_and_what_fits_stays_as_it_is(value: Any, schema: Any) -> None:
    if fits(value, schema):
        assert errors(value, schema) == []
    try:
        fitted = fit(value, schema)
    except InvalidArguments:
        return
    assert errors(fitted, schema) == []
    assert fit(fitted, schema) == fitted


@given(JSON, SCHEMAS)
def test_a_null_stays_one_wherever_it_stands(value: Any, schema: Any) -> None:
    coerced = coerce([value, None], {"items": schema})

    assert coerced[1] is None
    if isinstance(value, dict) and isinstance(coerced[0], dict):
        assert all(coerced[0][key] is None for key in value if value[key] is None)


@given(JSON, NOISE)
def test_a_schema_that_may_be_none_raises_nothing_unplanned(value: Any, schema: Any) -> None:
    if not isinstance(schema, dict | bool):
        schema = {"properties": {"a": schema}, "items": schema}
    for check in (coerce, errors, fit, fits):
        try:
            check(value, schema)
        except (InvalidArguments, CannotCheck):
            continue


@given(st.text(alphabet="†state.input[]{}|&0 a") | st.text())
def test_any_text_is_a_reference_or_none(text: str) -> None:
    reference = parse_reference(text)
    for path in reference.paths if reference else ():
        again = parse_reference(str(path))
        assert again is not None
        assert again.paths == (path,)
