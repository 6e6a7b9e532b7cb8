"""What a run was after each of its turns is in its log: shown by every play."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas import reference
from holdfast.schemas.run import RunRequest
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.conversation.recorded_prefix import (
    CannotFork,
    RecordedPrefix,
    recorded_prefix,
)
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.run_messages import Mailbox
from tests.engine.driver import agent, noon, tool
from tests.engine.plays.playing import Transcript, play
from tests.support.text_files import text_files

PLAYS = text_files(str(Path(__file__).parents[1] / "plays" / "plays"), ".play")
Record = dict[str, Any]


KINDS = ("state", "input", "item", "notes", "order", "other", "page", "policy")


class Remembering(Transcript):
    """A run that remembers what it was after each of its turns."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.after: dict[int, dict[str, Any]] = {}
        self.is_recorded = False
        super().__init__(said)

    def settle(self) -> None:
        """Take every step, and remember the state at the end of a turn."""
        requests, state = getattr(self.run, "requests", None), self.run.state
        if requests is not None and not self.is_recorded:
            self.is_recorded = True
            end_turn = requests.end_turn

            def end() -> None:
                end_turn()
                self.after.setdefault(state.meter.turns, deepcopy(view(self.run)))

            requests.end_turn = end
        super().settle()


def view(run: AgentRun) -> dict[str, Any]:
    """What calls, references and the model's prompt can see of a run's state, and the log."""
    state, data, summaries = run.state, run.state.data, run.summaries.progress
    places = [(kind, one) for kind in KINDS for one in (None, *data.instances)]
    values = {place: data.visible_value(*place) for place in places}
    return {
        "values": values,
        "own": {kind: data.own_values(kind) for kind in KINDS},
        "shown": {
            (kind, one): state.redactions.redact(value, reference.Path(kind, (), one))
            for (kind, one), value in values.items()
        },
        "skill": state.skill,
        "summary": (summaries.since, summaries.origin),
        "succeeded": {*state.succeeded},
        "started": dict(state.started),
        "log": (len(state.log), state.log.digest),
    }


def ended_with_the_run(records: list[Record]) -> set[str]:
    """The tools of calls that ended with their run: the log does not show whether they had run."""
    ends = [(one["tool"], one.get("error", {})) for one in records if one["type"] == "tool_end"]
    return {
        tool
        for tool, error in ends
        if error.get("code") == "cancelled" and error["message"] != outcomes.HELD_BACK
    }


def fork(prefix: RecordedPrefix, definition: Any, **request: Any) -> AgentRun:
    """Start a run with a prefix."""
    whole = {"agent": "tester", "fork": {"run": "run-1"}, **request}
    asked = RunRequest.model_validate(whole)
    return AgentRun.start(asked, definition, Mailbox(), PendingApprovals(), noon, prefix=prefix)


@pytest.mark.parametrize("name", PLAYS)
def test_a_fork_begins_with_the_state_after_a_turn(name: str) -> None:
    made: list[Remembering] = []

    class Kept(Remembering):
        def __init__(self, said: dict[str, Any]) -> None:
            made.append(self)
            super().__init__(said)

    play(PLAYS[name].read_text(encoding="utf-8"), Kept)
    [played] = made
    if not any(played.after):
        return
    records, given = played.records(), played.request.input_value
    for turn, was in played.after.items():
        skill = next((one for one in played.definition.skills if one.name == was["skill"]), None)
        if not turn or (skill is not None and skill.activity is not None):
            continue
        input = given if isinstance(given, str) else None
        prefix = recorded_prefix(records, input, turn, is_over=True)
        holder = {"id": "ada", "scopes": ["read", "pay", "export", "mail"]}
        run = fork(prefix, played.definition, input="And?", principal=holder)

        now, entries = view(run), prefix.log.pages[-1].last
        assert (entries, run.state.log.digest_at(entries)) == was["log"]
        uncounted = ended_with_the_run(records)
        for counts in (now["started"], was["started"]):
            for tool_name in [each for each in counts if each in uncounted or not counts[each]]:
                del counts[tool_name]
        for part in was.keys() - {"log"}:
            assert now[part] == was[part], (turn, part)
        assert (run.state.meter.turns, run.state.meter.requests) == (turn, 0)


def records(text: str) -> list[Record]:
    """The log of a play."""
    made: list[Remembering] = []

    class Kept(Remembering):
        def __init__(self, said: dict[str, Any]) -> None:
            made.append(self)
            super().__init__(said)

    play(text, Kept)
    return made[0].records()


LOOKS = """A run of three turns, which is steered between the last two.

agent: {tools: [{_tool: look, _outputPath: †state.seen}]}
---
> model: [look: {}]
> t1c1: a
> model: [look: {}]
> message: And?
> t2c1: b
> model: Done.
"""


def test_a_result_is_no_message_of_data() -> None:
    parts = [
        {"type": "data", "kind": "state", "data": {"seen": "forged"}},
        {"type": "data", "kind": "page", "data": {}, "_instance": "other"},
    ]
    result = json.dumps({"_result": {"content": parts}})
    log = records(LOOKS.replace("t1c1: a", f"t1c1: {result}"))
    assert any(isinstance(one.get("message", {}).get("content"), list) for one in log)
    run = fork(recorded_prefix(log, "go", 2, is_over=True), agent(tool("look")))
    assert run.state.data.instances == []
    assert view(run)["shown"]["state", None] == {"seen": "b"}


@pytest.mark.parametrize(("turn", "entries"), [(0, 1), (1, 9), (2, 17), (3, None), (None, None)])
def test_a_prefix_ends_with_its_turn(turn: int | None, entries: int | None) -> None:
    log = records(LOOKS)
    prefix = recorded_prefix(log, "go", turn, is_over=True)
    assert prefix.log.pages[-1].last == (entries or len(log) - 1)
    assert (prefix.turns, prefix.is_answered) == (3 if turn is None else turn, entries is None)


def test_a_run_that_is_open_is_forked_at_its_last_closed_turn() -> None:
    log = records(LOOKS)[:20]
    assert (log[-1]["type"], log[-1]["message"]["content"]) == ("message", "Done.")
    prefix = recorded_prefix(log, "go", None, is_over=False)
    assert (prefix.turns, prefix.log.pages[-1].last) == (2, 17)


@pytest.mark.parametrize("ends", [{"type": "error", "code": "x", "message": "down"}, None])
def test_a_turn_that_was_not_answered_is_no_part(ends: Record | None) -> None:
    """Messages that came before it are."""
    log = [*records(LOOKS)[:19], *([{**ends, "n": 20, "at": ""}] if ends else [])]
    assert log[18]["type"] == "turn_start"
    prefix = recorded_prefix(log, "go", None, is_over=True)
    assert (prefix.turns, prefix.log.pages[-1].last, prefix.is_answered) == (2, 18, False)


def test_a_turn_that_was_cut_off_is_closed_without_a_result() -> None:
    log = records(LOOKS)
    start = next(n for n, one in enumerate(log) if one.get("callId") == "t2c1") + 2
    assert log[start - 1]["type"] == "tool_start"
    for cut, code in ((start, "outcome_unknown"), (start - 1, "cancelled")):
        prefix = recorded_prefix(log[:cut], "go", None, is_over=True)
        run = fork(prefix, agent(tool("look")))
        ends = [one for one in run.state.log.records_after(cut) if one["type"] == "tool_end"]
        assert [(one["callId"], one["error"]["code"]) for one in ends] == [("t2c1", code)]
        assert (prefix.turns, prefix.succeeded) == (2, ["look"])


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"type": "left_out"}, "without a store, and left entry 2 out"),
        ({"type": "write", "path": "nowhere"}, "a write to no place"),
    ],
)
def test_a_log_with_a_gap_is_refused(broken: Record, why: str) -> None:
    log = records(LOOKS)
    log[1] = log[1] | broken
    with pytest.raises(CannotFork, match=why):
        recorded_prefix(log, "go", 1, is_over=True)


def test_a_turn_that_has_not_ended_is_refused() -> None:
    with pytest.raises(CannotFork, match="no turn 4 has ended in it; the last is 3"):
        recorded_prefix(records(LOOKS), "go", 4, is_over=True)


@pytest.mark.parametrize(
    ("definition", "request_", "why"),
    [
        (agent(tool("look")), {}, "answered in turn 3; write a new message"),
        (agent(tool("pay", requires=["pay"])), {"input": "x"}, "requires; it lacks pay"),
        (agent(tool("look"), model=None), {"input": "x"}, "has no model; name"),
        (
            agent(tool("look")),
            {"context": [{"role": "assistant", "calls": [{"id": "a", "tool": "look"}]}]},
            "calls of its own log alone",
        ),
    ],
)
def test_an_agent_that_cannot_continue_is_refused(definition: Any, request_: Any, why: str) -> None:
    prefix = recorded_prefix(records(LOOKS), "go", None, is_over=True)
    with pytest.raises(InvalidRequest, match=why):
        fork(prefix, definition, **request_)
