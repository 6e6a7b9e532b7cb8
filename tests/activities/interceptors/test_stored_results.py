"""What a worker with a store does with a large result: before it is sent, and with no server."""

import json
from dataclasses import replace
from datetime import date
from hashlib import sha256
from typing import Any, cast

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ExecuteActivityInput

from holdfast.activities.interceptors import results
from holdfast.activities.interceptors.results import (
    MAX_IN_HISTORY_BYTES,
    MAX_RESULT_BYTES,
    CheckedResults,
)
from holdfast.schemas import names
from holdfast.schemas.base import BEGINNING_CHARACTERS, Stored
from tests.activities.interceptors.test_secret_redaction import Does

QUOTES = len('""')
# A bound that costs a test no second to write: the product's own is in `test_limits`.
MAX_STORED_BYTES = 4_000_000


@pytest.fixture(autouse=True)
def small_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_STORED_BYTES", MAX_STORED_BYTES)


class Shelf:
    """A store, which may be full."""

    def __init__(self, *, full: bool = False) -> None:
        self.kept: dict[str, Payload] = {}
        self._full = full

    async def keep(self, payload: Payload) -> str:
        if self._full:
            raise OSError("no space left; make some")
        digest = sha256(payload.data).hexdigest()
        self.kept[digest] = payload
        return digest


async def sent(
    result: Any, shelf: Shelf | None, workflow: str | None = names.AGENT_WORKFLOW
) -> Payload:
    """What is sent as the result of an activity that this workflow has scheduled."""
    environment = ActivityEnvironment()
    environment.payload_converter = pydantic_data_converter.payload_converter
    environment.info = replace(environment.info, workflow_type=workflow)
    keep = None if shelf is None else shelf.keep
    inner = CheckedResults(Does(lambda: result), store=keep)
    given = cast(ExecuteActivityInput, None)  # it is not read
    raw = await environment.run(inner.execute_activity, given)
    assert isinstance(raw, RawValue)
    return raw.payload


async def test_a_small_result_is_sent_as_ever() -> None:
    shelf = Shelf()
    payload = await sent("x" * (MAX_IN_HISTORY_BYTES - QUOTES), shelf)
    assert (len(payload.data), shelf.kept) == (MAX_IN_HISTORY_BYTES, {})
    assert names.FOR_STORE not in payload.metadata


@pytest.mark.parametrize("size", [MAX_IN_HISTORY_BYTES + 1, MAX_RESULT_BYTES])
async def test_a_larger_one_is_marked_so_that_a_reference_is_sent(size: int) -> None:
    shelf = Shelf()
    payload = await sent("x" * (size - QUOTES), shelf)
    assert names.FOR_STORE in payload.metadata
    assert list(shelf.kept.values()) == [payload], "the SDK finds what it is to store"


async def test_where_it_cannot_be_kept_it_goes_into_history() -> None:
    payload = await sent("x" * MAX_IN_HISTORY_BYTES, Shelf(full=True))
    assert names.FOR_STORE not in payload.metadata


@pytest.mark.parametrize(
    ("result", "beginning"),
    [
        ("é" * 1_500_000, "é" * 2_000),
        ('say "hi"\n' + "x" * 3_000_000, 'say "hi"\n' + "x" * 1_991),
        ([{"id": n} for n in range(200_000)], '[{"id":0},{"id":1},{"id":2}'),
        ({"rows": ["é" * 3_000] * 500}, '{"rows":["' + "é" * 1_990),
    ],
)
async def test_of_one_that_no_run_can_work_with_there_stands_where_it_is_and_how_it_begins(
    result: Any, beginning: str
) -> None:
    shelf = Shelf()
    payload = await sent(result, shelf)
    stored = Stored.of(json.loads(payload.data))
    assert stored is not None
    kept = shelf.kept[stored.sha256]
    assert json.loads(kept.data) == result
    assert stored.size_bytes == len(kept.data)
    assert stored.beginning.startswith(beginning)
    assert len(stored.beginning) == 2_000


async def test_there_is_a_bound_to_it() -> None:
    with pytest.raises(ApplicationError) as refused:
        await sent("x" * MAX_STORED_BYTES, Shelf())
    assert refused.value.type == names.RESULT_TOO_LARGE
    assert f"at most {MAX_STORED_BYTES} can be kept" in refused.value.message


@pytest.mark.parametrize(
    ("size", "workflow", "fix"),
    [
        (MAX_RESULT_BYTES + 1, names.AGENT_WORKFLOW, "give the worker a `--store`"),
        (MAX_STORED_BYTES, names.CALL_WORKFLOW, "give the worker a `--store`"),
        (MAX_STORED_BYTES + 1, names.AGENT_WORKFLOW, "store it, and return its address"),
        (MAX_RESULT_BYTES + 1, "TheirWorkflow", "store it, and return its address"),
    ],
)
async def test_without_a_store_the_error_names_one_where_it_would_help(
    size: int, workflow: str, fix: str
) -> None:
    with pytest.raises(ApplicationError) as refused:
        await sent("x" * (size - QUOTES), None, workflow)
    assert refused.value.message == (
        f"it was run; its result has {size} bytes, and at most {MAX_RESULT_BYTES} can be kept: "
        f"return less of it, or {fix}; it begins: {'x' * BEGINNING_CHARACTERS}"
    )


async def test_a_lost_result_is_reported_as_executed() -> None:
    with pytest.raises(ApplicationError) as lost:
        await sent("x" * MAX_RESULT_BYTES, Shelf(full=True))
    assert lost.value.message == (
        "it was run; its result of 2000002 bytes is lost: no space left; make some; it begins: "
        + "x" * BEGINNING_CHARACTERS
    )
    assert not lost.value.non_retryable, "what is idempotent may have more luck"


@pytest.mark.parametrize("workflow", ["TheirWorkflow", None])
async def test_workflows_of_others_are_sent_what_they_can_read(workflow: str | None) -> None:
    shelf = Shelf()
    assert names.FOR_STORE not in (await sent("x" * 500_000, shelf, workflow)).metadata
    with pytest.raises(ApplicationError, match=f"at most {MAX_RESULT_BYTES} can be kept"):
        await sent("x" * MAX_RESULT_BYTES, shelf, workflow)
    assert shelf.kept == {}


@pytest.mark.parametrize("result", [object(), [1.5, float("nan")], -float("inf")])
async def test_a_result_that_is_no_json_is_a_final_error(result: Any) -> None:
    with pytest.raises(ApplicationError, match="run; its result is no JSON value: ") as refused:
        await sent(result, None)
    assert refused.value.non_retryable


class Dated(BaseModel):
    on: date


@pytest.mark.parametrize(
    ("result", "data"),
    [
        (None, b""),
        (RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{}")), b"{}"),
        (Dated(on=date(2026, 1, 2)), b'{"on":"2026-01-02"}'),
        ("NaN, Infinity", b'"NaN, Infinity"'),
        (b"\xffNaN", b"\xffNaN"),
    ],
)
async def test_any_other_result_is_sent_as_it_is(result: Any, data: bytes) -> None:
    assert (await sent(result, None)).data == data


async def test_what_is_no_json_is_not_kept() -> None:
    shelf = Shelf()
    assert names.FOR_STORE not in (await sent(b"x" * 500_000, shelf)).metadata
    assert shelf.kept == {}
