"""Texts that people, models and files hold: each is read, or refused by the one error for it."""

import json
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.json_and_yaml import read_yaml, write_yaml
from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.agent import AgentDefinition
from holdfast.schemas.base import canonical_json, is_deeper, parse_duration
from holdfast.schemas.decision import Decision
from holdfast.schemas.message import Delivered
from holdfast.schemas.reference import parse_output_path, parse_reference
from holdfast.schemas.run import RunRequest
from holdfast.schemas.settings.endpoints import Endpoint
from holdfast.validation.arguments import InvalidArguments, fit, read_arguments
from holdfast.validation.problems import problems_of
from holdfast.validation.regex import PatternRefused, pattern
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_node import WorkBudget
from holdfast.validation.validator import errors
from holdfast.workflows.engine.call.activities import outcome_of_result
from holdfast.workflows.engine.call.outcomes import Failed, Stopped, Succeeded
from holdfast.workflows.engine.continue_as_new import read_start_arguments
from tests.engine.driver import tool
from tests.fuzz.strategies import json_values, spoilt

ARGUMENTS = b'Yes\n```json\n{"order": "A-1", "lines": [{"n": 1.5}, {"n": -2e3,}], "on": true}\n```'
AGENT = b"""---
name: clerk
model: {endpoint: openai, name: gpt}
tools: &all [find, {_tool: pay, properties: {n: {type: number}}}]
budget: {maxTurns: 3, maxDuration: 1h30m}
again: *all
---
Be brief: 'no'.
"""
SCHEMA = (
    b'{"type": "object", "properties": {"a": {"pattern": "^a+$"}}, "$defs": {"x": {"enum": [1]}},'
    b' "patternProperties": {"^x": {"$ref": "#/$defs/x"}}, "allOf": [{"not": {}}], "minItems": 1}'
)
PATTERN = rb"^(?!a)[\w-]{1,64}(?:\.(x|y)+?)*\p{L}\u0041$"
PATH = "†state.a.b[0] && †state.c || †state.d".encode()
DURATION = b"1h30m15.5s"
SAID: dict[str, tuple[type[BaseModel], Any]] = {
    "decision": (Decision, {"callId": "t1c1", "decision": "approve", "arguments": {"a": 1}}),
    "message": (Delivered, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}),
    "request": (RunRequest, {"agent": "clerk", "input": "go", "budget": {"maxDuration": "1h"}}),
    "agent": (AgentDefinition, {"name": "clerk", "tools": ["find"], "budget": {"maxTurns": 3}}),
    "endpoint": (Endpoint, {"provider": "openai", "baseUrl": "http://127.0.0.1:1/v1"}),
}


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@given(written=spoilt(ARGUMENTS).map(text))
def test_arguments(written: str) -> None:
    with suppress(InvalidArguments):
        value = read_arguments(written)
        assert not is_deeper(value, 64)
        canonical_json(value)


@given(data=spoilt(AGENT), suffix=st.sampled_from([".md", ".yaml", ".json"]))
def test_files(data: bytes, suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path: Path = tmp_path_factory.getbasetemp() / f"fuzzed{suffix}"
    path.write_bytes(data)
    with suppress(LoadError):
        json.dumps(read_source(path).value)


@given(value=json_values.filter(lambda value: '"<<"' not in json.dumps(value)))
@example(["09112", "1e5", "+08", "yes", "", "a\u2028b", "\x85"])
def test_written_yaml_is_read_as_the_same_value(value: Any) -> None:
    assert json.dumps(read_yaml(write_yaml(value))[0]) == json.dumps(value)


def test_aliases_that_unfold_to_far_too_much_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "laughs.yaml"
    levels = [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(9)]
    path.write_text("\n".join(["a0: &a0 [lol]", *levels]), encoding="utf-8")
    with pytest.raises(LoadError, match="it holds too much"):
        read_source(path)


@given(written=spoilt(SCHEMA), value=json_values)
def test_schemas(written: bytes, value: Any) -> None:
    try:
        schema = json.loads(written)
    except (ValueError, RecursionError):
        return
    if isinstance(schema, dict | bool) and not schema_problems(schema):
        said = errors(value, schema)
        assert not any("cannot be applied" in line for line in said), "it was said to be good"
        with suppress(InvalidArguments):
            fit(value, schema)


@given(
    written=spoilt(PATTERN).map(text)
    | st.text(alphabet="ab\\()[]{}|*+?^$.-1,:<>=!pdsw", max_size=24)
)
def test_patterns(written: str) -> None:
    """What both take, both find alike where nothing in it differs between them."""
    with suppress(PatternRefused):
        mine = pattern(written)
        with suppress(re.error, RecursionError, FutureWarning):
            theirs = re.compile(written, re.ASCII)
            if "\\s" not in written and "\\S" not in written and "{," not in written:
                for sample in ("", "a", "ab", "aab1", "a-b", "x.y", "(a)", "b{1}"):
                    assert mine.is_in(sample) == bool(theirs.search(sample)), sample


@given(written=spoilt(PATH).map(text))
def test_references(written: str) -> None:
    parse_reference(written)
    with suppress(ValueError):
        parse_output_path(written)


@given(written=spoilt(DURATION).map(text))
def test_durations(written: str) -> None:
    with suppress(ValueError):
        assert parse_duration(written).total_seconds() > 0


@pytest.mark.parametrize("kind", SAID)
@given(data=st.data())
def test_texts_of_people(kind: str, data: st.DataObject) -> None:
    model, good = SAID[kind]
    try:
        value = json.loads(data.draw(spoilt(json.dumps(good).encode())))
    except (ValueError, RecursionError):
        value = {**good, data.draw(st.sampled_from([*good, "other"])): data.draw(json_values)}
    wrong = None
    try:
        model.model_validate(value)
    except ValidationError as error:
        wrong = error
    faults = [] if wrong is None else problems_of(wrong, value, model)
    assert all(fault.reason and fault.fix for fault in faults)


@given(inner=json_values, key=st.sampled_from(["_result", "_message", "other"]))
def test_what_a_tool_returns(inner: Any, key: str) -> None:
    for value in (inner, {key: inner}, {key: {"content": inner, "role": inner}}):
        outcome = outcome_of_result(tool("look"), value, WorkBudget())
        assert isinstance(outcome, Succeeded | Failed | Stopped)


@given(body=spoilt(zlib.compress(b'{"request": {}, "snapshot": {}}')) | st.binary(max_size=40))
def test_what_a_run_leaves_to_the_next(body: bytes) -> None:
    head = {"agent": "clerk", "turns": 1, "entries": 1, "body": 1}
    with pytest.raises(ValueError, match=r"."):
        read_start_arguments([head, body])
