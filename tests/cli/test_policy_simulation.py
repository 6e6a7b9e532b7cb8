"""What people would have been asked in a recorded run by other policies."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import yaml

from holdfast.catalog.loader import Catalog
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.cli import policy_commands
from holdfast.cli.policy_simulation import CatalogPolicies, PolicySimulation, simulate_policies
from holdfast.client.errors import NoWorkerError
from holdfast.client.records.recorded_calls import RecordedLog
from holdfast.client.run_lists import RunListing
from holdfast.schemas.tool import ResolvedTool
from tests.engine.plays import test_plays
from tests.engine.plays.playing import Transcript, read_agent

PAY = "tools: [{_tool: pay, _sideEffects: true, _approval: {POLICY}}]"
EUROS = "properties: {amount: {type: number}}"
# By amount: small ones run, unless their amount cannot be known.
RULES = "[{when: {required: [amount], properties: {amount: {maximum: 10}}}, require: never}, {}]"


def play(name: str) -> Transcript:
    """Play a run to its end."""
    head, _, transcript = test_plays.PLAYS[name].read_text(encoding="utf-8").partition("\n---\n")
    played = Transcript(yaml.safe_load(head.partition("\n\n")[2]) or {})
    for line in transcript.splitlines():
        if line.startswith("> "):
            [(key, value)] = yaml.safe_load(line[2:]).items()
            played.input(str(key), value)
    return played


def listing(run_id: str = "run-1", **more: Any) -> RunListing:
    return RunListing(run_id, "queue", datetime.now(UTC), "completed", "tester", **more)


def candidate(agent: str | None, tools: Mapping[str, ResolvedTool] | None = None) -> Catalog:
    agents = {} if agent is None else {"tester": read_agent(yaml.safe_load(agent))}
    return Catalog(DefinitionRegistry("queue", tools=tools or {}), agents)


def simulate(records: list[dict[str, Any]], catalog: Catalog, **run: Any) -> PolicySimulation:
    log, found = RecordedLog(), PolicySimulation(CatalogPolicies(catalog))
    for record in records:
        log.add(record)
    assert not log.unread
    found.add(listing(**run), log.decided_calls)
    return found


@pytest.mark.parametrize("name", test_plays.PLAYS)
def test_the_policies_of_a_run_itself_make_no_difference(name: str) -> None:
    played = play(name)
    is_single = not hasattr(played, "definition")
    catalog = candidate(None, {each.name: each for each in played.run.state.rules.tools})
    if not is_single:
        catalog = Catalog(DefinitionRegistry("queue"), {"tester": played.definition})
    found = simulate(played.records(), catalog, single=is_single)
    assert found.recorded == found.simulated
    assert (found.unasked, found.expired, found.weaker) == ([], [], [])
    assert not found.missing
    assert (found.saved_hours, found.added_hours) == (0, 0)


@pytest.mark.parametrize(
    ("name", "agent", "unasked"),
    [
        ("approvals/denied", PAY.replace("POLICY", "require: never"), {"t1c1": "denied by ann"}),
        ("approvals/denied", PAY.replace("POLICY", "approvers: [finance]"), {}),
        (
            "approvals/denied",
            "{approval: {auto: [pay]}, tools: [{_tool: pay}]}",
            {"t1c1": "denied"},
        ),
        # One of two people had approved.
        ("approvals/quorum", PAY.replace("POLICY", "require: never"), {"t1c2": "denied by bob"}),
        (
            "approvals/edited",
            f"tools: [{{_tool: pay, {EUROS}, _sideEffects: true, _approval: {RULES}}}]",
            {},  # what the model wrote: 50
        ),
        ("approvals/edited", "tools: [{_tool: pay}]", {"t1c1": "approved with changes by ann"}),
        # What a step would be called with was not known: it falls under every rule.
        (
            "plans/step_left_out",
            f"tools: [{{_tool: pay, {EUROS}, _sideEffects: true, _approval: {RULES}}},"
            " {_tool: find}, {_tool: look}]",
            {"t1c1": "denied by ann"},
        ),
        (
            "plans/step_left_out",
            f"tools: [{{_tool: pay, {EUROS}}}, {{_tool: find}}, {{_tool: look}}]",
            {"t1c1": "denied by ann", "t1c2": "denied by ann"},
        ),
        ("plans/denied", "{plan: lazy, tools: [{_tool: pay}, {_tool: look}]}", {}),
        # Its items have no amount, and the candidate's default is large; or small.
        (
            "loops/denied",
            "tools: [{_tool: pay, _each: true, properties: {amount: {type: number, default: 50}},"
            f" _sideEffects: true, _approval: {RULES}}}]",
            {},
        ),
        (
            "loops/denied",
            "tools: [{_tool: pay, _each: true, properties: {amount: {type: number, default: 5}},"
            f" _sideEffects: true, _approval: {RULES}}}]",
            {"t1c1": "denied by ann"},
        ),
        ("approvals/denied", "tools: [{_tool: pay, _person: true, _output: true}]", {}),
    ],
)
def test_what_people_denied_or_changed_and_would_run(
    name: str, agent: str, unasked: dict[str, str]
) -> None:
    found = simulate(play(name).records(), candidate(agent))
    assert not found.missing
    assert found.unasked == [
        {**row, "run": "run-1", "call": call, "see": "holdfast show run-1"}
        for row, call in zip(found.unasked, unasked, strict=True)
    ]
    for row, decision in zip(found.unasked, unasked.values(), strict=True):
        assert row["decision"].startswith(decision)


@pytest.mark.parametrize(
    ("name", "policy", "calls"),
    [
        ("approvals/expired", "require: never", ["t1c1"]),
        ("approvals/expired", "approvers: [finance]", []),
        ("approvals/expired", "onTimeout: approve", ["t1c1"]),  # with no one deciding
        ("approvals/expired_and_approved", "onTimeout: approve", []),
        ("approvals/expired_and_approved", "require: never", []),  # it ran
        ("approvals/denied", "require: never", []),
    ],
)
def test_which_calls_have_expired_and_would_run(name: str, policy: str, calls: list[str]) -> None:
    found = simulate(play(name).records(), candidate(PAY.replace("POLICY", policy)))
    assert [row["call"] for row in found.expired] == calls


@pytest.mark.parametrize(
    ("name", "policy", "weaker"),
    [
        ("approvals/quorum", "quorum: 1", ["anyone, 2 people to anyone"] * 2),
        ("approvals/quorum", "{quorum: 3, approvers: [a], signed: true}", []),
        ("approvals/other_groups", "approvers: [sales]", ["finance to sales"]),
        ("approvals/other_groups", "approvers: [sales, finance]", ["finance to sales, finance"]),
        ("approvals/other_groups", "{}", ["finance to anyone"]),
        ("approvals/other_groups", "approvers: [finance]", []),
        (
            "approvals/other_groups",
            "{approvers: [finance], onTimeout: approve}",
            ["finance to finance, runs if it expires"],
        ),
    ],
)
def test_which_calls_would_lose_their_approvers(name: str, policy: str, weaker: list[str]) -> None:
    agent = f"tools: [{{_tool: pay, _sideEffects: true, _approval: {policy}}}]"
    agent = agent if policy.startswith("{") else PAY.replace("POLICY", policy)
    found = simulate(play(name).records(), candidate(agent))
    assert [f"{row['recorded']} to {row['simulated']}" for row in found.weaker] == weaker


@pytest.mark.parametrize(
    ("name", "agent", "change"),
    [
        ("approvals/batch", "tools: [{_tool: look, _sideEffects: true}, {_tool: pay}]", (2, 2)),
        ("approvals/batch", "{approval: {require: always}, tools: [look, pay]}", (2, 4)),
        ("approvals/batch", "{plan: lazy, tools: [{_tool: look}, {_tool: pay}]}", (2, 1)),
        # Calls that `remember` released are not counted.
        ("approvals/remembered", PAY.replace("POLICY", "approvers: [finance]"), (2, 2)),
        ("approvals/remembered", PAY.replace("POLICY", "require: never"), (2, 0)),
        (
            "rules/plan_of_two_rules",  # two plans, and a question on the step that was edited
            PAY.replace("POLICY", "approvers: [finance]"),
            (3, 3),
        ),
        ("rules/plan_of_two_rules", PAY.replace("POLICY", "require: never"), (3, 0)),
    ],
)
def test_how_many_questions_people_would_have(
    name: str, agent: str, change: tuple[int, int]
) -> None:
    written = agent.replace("[look, pay]", "[{_tool: look}, {_tool: pay}]")
    found = simulate(play(name).records(), candidate(written))
    assert (found.recorded["all", ""], found.simulated["all", ""]) == change
    assert found.released == (name == "approvals/remembered")


def test_an_expired_plan_that_would_run_is_listed_by_its_calls() -> None:
    agent = "{plan: lazy, approval: {onTimeout: approve}, tools: [{_tool: pay}, {_tool: look}]}"
    [row] = simulate(play("plans/expired").records(), candidate(agent)).expired
    assert (row["call"], row["tool"], [*row["arguments"]]) == ("t1-plan", "plan", ["calls"])


def test_how_long_people_would_wait_less_or_longer() -> None:
    expired = play("approvals/reminded_until_a_decision").records()
    found = simulate(expired, candidate(PAY.replace("POLICY", "require: never")))
    assert (found.saved_hours, found.added_hours) == (10, 0)
    found = simulate(expired, candidate(PAY.replace("POLICY", "quorum: 1")))
    assert (found.saved_hours, found.added_hours) == (0, 0)
    log = RecordedLog()
    for record in play("approvals/when").records():
        log.add(record)
    [asked] = [one for call in log.decided_calls for one in call.questions]
    asked.ended_at = asked.asked.requested_at.replace("12:", "15:")
    found = PolicySimulation(CatalogPolicies(candidate(PAY.replace("POLICY", "require: always"))))
    found.add(listing(), log.decided_calls)
    assert (found.saved_hours, found.added_hours) == (0, 3)


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (None, "there is no agent `tester`"),
        ("tools: [{_tool: look}]", "`tester` has no tool `pay`"),
        (
            "tools: [{_tool: pay, properties: {amount: {type: integer}}, required: [amount]}]",
            "the arguments do not fit `pay`",
        ),
    ],
)
def test_a_call_that_cannot_be_simulated_has_a_reason(agent: str | None, reason: str) -> None:
    found = simulate(play("approvals/denied").records(), candidate(agent))
    assert (dict(found.missing), found.unasked) == ({reason: 1}, [])
    assert not found.recorded


def test_an_argument_that_the_log_has_cut_off_is_not_known() -> None:
    records = play("approvals/denied").records()
    cut = [
        {**each, "cut": 900_000} if each["type"] in ("tool_call", "confirmation_required") else each
        for each in records
    ]
    amount = "properties: {amount: {type: number, default: 5}}"
    agent = candidate(f"tools: [{{_tool: pay, {amount}, _sideEffects: true, _approval: {RULES}}}]")
    assert len(simulate(records, agent).unasked) == 1
    assert simulate(cut, agent).unasked == []


def test_the_calls_before_a_fork_are_those_of_the_other_run() -> None:
    records = play("approvals/remembered").records()
    forked = {"n": 9, "at": "", "type": "forked", "forkedFrom": "order-7", "turn": 2}
    after = play("approvals/denied").records()
    found = simulate([*records, forked, *after], candidate(PAY.replace("POLICY", "require: never")))
    assert (found.recorded["all", ""], found.released, len(found.unasked)) == (1, 0, 1)


async def test_a_run_that_cannot_be_read_is_named() -> None:
    records, looked = play("approvals/denied").records(), list[str]()
    logs = {
        "good": records,
        "twice": records,
        "part": [{"n": 1, "at": "", "type": "left_out"}, *records],
        "cut": [{"n": 1, "at": "", "type": "decision", "cut": 9}, *records],
    }

    def run(run_id: str) -> Mock:
        async def entries(log: str) -> AsyncIterator[dict[str, Any]]:
            assert log == "context"
            looked.append(run_id)
            if run_id not in logs:
                raise NoWorkerError("queue")
            for each in logs[run_id]:
                yield each

        return Mock(entries=entries)

    runs = [listing(each) for each in ("good", "part", "cut", "twice", "twice")]
    runs += [listing(f"silent-{n}") for n in range(100)]
    policies = CatalogPolicies(candidate(PAY.replace("POLICY", "require: never")))
    found = await simulate_policies(Mock(run=run), runs, policies, Mock())
    assert [row["run"] for row in found.unread[:3]] == ["twice", "part", "cut"]
    assert "a later run has the same id" in found.unread[0]["reason"]
    assert "a part of its log is missing" in found.unread[1]["reason"]
    assert len(found.unread) == 103
    assert found.unread[-1]["reason"].startswith("no worker answers queries on task queue queue")
    assert sum(each.startswith("silent") for each in looked) < 40, (
        "a silent queue is not asked again"
    )
    assert (found.runs, len(found.unasked)) == (4, 4)


EVIL = "\x1b[2J\u202eno\nORDER  "


@pytest.mark.parametrize("json_", [False, True])
async def test_text_of_runs_cannot_change_what_a_person_reads(
    json_: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = play("approvals/denied").records()
    for record in records:
        if record["type"] == "confirmation_required":
            rule = {"tool": "pay", "number": 1, "name": EVIL * 1_000}
            more = {"approvers": [EVIL], "rules": [rule], "arguments": {EVIL: EVIL}}
            record["approval"] = {**record["approval"], **more}
        elif record["type"] == "decision":
            record["decided"] = {**record["decided"], "by": EVIL}

    def run(run_id: str) -> Mock:
        async def entries(log: str) -> AsyncIterator[dict[str, Any]]:
            for each in records:
                yield each

        return Mock(entries=entries)

    others = listing("other", single=False)
    runs = [listing(f"run{EVIL}"), replace(others, agent=EVIL)]
    client = Mock(run=run, list_runs=AsyncMock(return_value=runs))
    catalog = candidate(PAY.replace("POLICY", "require: never"))
    monkeypatch.setattr(policy_commands, "connect", AsyncMock(return_value=client))
    monkeypatch.setattr(policy_commands, "load_catalog", lambda given: (catalog, "queue"))
    code = await policy_commands.simulate(
        since=timedelta(days=1), agent=None, limit=9, json=json_, catalog="new"
    )
    out = capsys.readouterr().out
    assert (code, len(client.mock_calls)) == (1, 1), "it only lists and reads"
    assert not {"\x1b", "\u202e"} & {*out}
    if json_:
        [row] = json.loads(out)["unasked"]
        assert (row["run"], row["arguments"]) == (f"run{EVIL}", {EVIL: EVIL})
        return
    assert max(map(len, out.splitlines())) < 400
    assert not [line for line in out.splitlines() if line.startswith("ORDER")]
    assert "holdfast show 'runno" in out
