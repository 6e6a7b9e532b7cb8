"""A result that is too large for a run: its reference, and how far that goes (§12)."""

from typing import Any

import pytest

from holdfast.schemas.base import Stored
from holdfast.schemas.tool import ActivityBinding, AgentHooks
from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.engine.call.activities import outcome_of_result
from holdfast.workflows.engine.call.outcomes import Succeeded
from tests.engine.driver import Play, call, reply, tool

BEGINNING = '[{"id":1},{"id":2'
STORED = Stored(sha256="0" * 64, size_bytes=5_000_000, beginning=BEGINNING)
VALUE = STORED.value()
SHOWN = f"5000000 bytes, too many to be read here; this is how they begin.\n{BEGINNING}"


def played(value: Any = VALUE, **more: Any) -> Play:
    """A run whose one call of `look` has this result; its hook `guard` answers with as much."""
    return Play(
        tool("look", **more),
        model=[reply("", call("look")), reply("done")],
        outcomes={"look": value},
        hooks={"guard": VALUE},
    ).to_end()


def test_it_is_one_json_object_in_the_run() -> None:
    assert VALUE == {
        "_stored": {"sha256": "0" * 64, "sizeBytes": 5_000_000, "beginning": BEGINNING}
    }
    assert Stored.of(VALUE) == STORED


@pytest.mark.parametrize(
    "value", [None, [], "text", {}, {"_stored": 1}, {"_stored": {}}, {**VALUE, "more": 1}]
)
def test_nothing_else_is_taken_for_it(value: Any) -> None:
    assert Stored.of(value) is None
    assert outcome_of_result(tool(), value, WorkBudget()) == Succeeded(value)


@pytest.mark.parametrize(
    ("show", "read"),
    [(None, SHOWN), ("full", SHOWN), ("preview", SHOWN), ("none", "Done.")],
)
def test_the_model_reads_its_beginning_and_the_log_has_its_reference(show: Any, read: str) -> None:
    play = played(show=show)
    assert play.results() == {"t1c1": read}
    assert play.records("tool_end")[0]["value"] == VALUE


def test_it_is_not_written_to_the_state() -> None:
    play = played(output_path="†state.rows")
    assert play.run.state.data["state"] == {}
    assert play.errors() == {"t1c1": "invalid_output"}
    assert (
        "cannot be written: it has 5000000 bytes, and †state.rows can take in at most 900000"
        in str(play.results()["t1c1"])
    )
    assert play.records("tool_end")[0]["value"] == VALUE, "people find it all the same"


def test_what_is_to_fit_a_schema_has_to_be_of_a_size_to_be_checked() -> None:
    play = played(output={"type": "array"})
    assert play.errors() == {"t1c1": "invalid_output"}
    assert "5000000 bytes, which is too much to validate by its" in play.results()["t1c1"]


@pytest.mark.parametrize("hook", ["prepare", "before", "after"])
def test_a_hook_that_answers_so_much_has_failed(hook: str) -> None:
    play = played("seen", hooks=AgentHooks(**{hook: ActivityBinding(type="guard")}))
    assert f"the hook `_{hook}` failed: it returned 5000000 bytes" in str(play.results()["t1c1"])
