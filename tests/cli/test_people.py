"""Whom a question is put to, how often, and what they decide on (§7): a run that is made up."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.cli.decide_command import _without
from holdfast.cli.prompts.answers import AnswerSource
from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.screens import follow
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client.command_errors import NO_SUCH, UNREACHABLE, CommandError
from holdfast.client.run_handle import RunDescription, RunHandle
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval, Receipt

ASKED = {"requestedAt": "2026-01-01T10:00:00Z", "expiresAt": "2026-01-08T10:00:00Z"}
CALL = {"callId": "t1c1", "kind": "call", "tool": "pay", "label": "Pay", **ASKED}
AWAY = CommandError("Temporal does not answer", "check it", UNREACHABLE)


def waiting(amount: int = 4, **more: Any) -> PendingApproval:
    """A payment that waits for two people."""
    arguments = {"amount": amount}
    digest = sha256(canonical_json({"tool": "pay", "arguments": arguments}))
    return PendingApproval.read(
        {**CALL, "arguments": arguments, "digest": digest, "quorum": 2, **more}
    )


@dataclass
class Asked(RunHandle):
    """A run that nothing happens in but what is decided. `lost` is what comes of its next looks."""

    id: str = "run-1"
    waits: list[PendingApproval] = field(default_factory=list)
    lost: list[CommandError] = field(default_factory=list)
    decided: list[Decision] = field(default_factory=list)

    async def look(self) -> RunDescription:
        if self.lost:
            raise self.lost.pop()
        return RunDescription(("r", 1), closed=False, busy=False, streaming=None)

    async def waiting(self) -> list[PendingApproval]:
        return self.waits

    async def decide(self, decision: Decision) -> Receipt:
        self.decided.append(decision)
        return Receipt(
            call_id=decision.call_id, decision=decision.decision, decided=False, missing=1
        )


@pytest.fixture
def answers() -> Iterator[AnswerSource]:
    """Anna, who approves of all that she is asked."""
    reading, writing = os.pipe()
    os.write(writing, b"a\n" * 9)
    os.close(writing)
    yield AnswerSource(reading, by="anna")
    os.close(reading)


async def test_a_question_is_put_once_and_again_when_it_is_another(answers: AnswerSource) -> None:
    run = Asked()
    people = ApprovalPrompts(run, PlainScreen(io.StringIO(), run.id), answers)
    later = {**ASKED, "requestedAt": "2026-01-02T10:00:00Z"}
    for one in (waiting(), waiting(), waiting(5), waiting(5, **later), waiting(5, **later)):
        assert await people.ask_new([one])
    assert [one.digest for one in run.decided] == [
        *(waiting().digest, waiting(5).digest, waiting(5).digest),
    ]


async def test_who_has_decided_on_it_already_is_not_asked(answers: AnswerSource) -> None:
    run = Asked()
    people = ApprovalPrompts(run, PlainScreen(io.StringIO(), run.id), answers)
    one = {"decision": "approve", "at": ASKED["requestedAt"], "digest": "d"}
    await people.ask_new([waiting(decisions=[{**one, "by": "anna"}])])
    assert run.decided == []
    await people.ask_new([waiting(5, decisions=[{**one, "by": "bea"}, one])])
    assert [each.by for each in run.decided] == ["anna"]


async def test_what_is_left_of_a_plan_is_approved_as_it_was_read() -> None:
    shown = {"tool": "plan", "arguments": {"calls": [{"id": "t1c1"}, {"id": "t1c2"}]}}
    digest = sha256(canonical_json({**shown, "kind": "plan", "round": 1}))
    plan = PendingApproval.read(
        {**CALL, **shown, "callId": "t1-plan", "kind": "plan", "digest": digest}
    )
    meant = Decision(call_id="t1-plan", decision="approve")
    left = await _without(Asked(waits=[plan]), meant, ["t1c2"])
    assert (left.decision, left.arguments, left.digest) == (
        *("edit", {"calls": [{"id": "t1c1"}]}, digest),
    )


async def test_whoever_watches_waits_for_a_server_that_is_away_and_for_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow, "SLOWEST_SECONDS", 0)
    out = io.StringIO()

    async def looks(*lost: CommandError) -> int:
        """How often it is said that the server is away, before a look at the run."""
        run, screen = Asked(lost=list(lost)), PlainScreen(out, "run-1")
        out.truncate(0)
        await follow._Follower(run, screen, ApprovalPrompts(run, screen, None), True)._look()
        return out.getvalue().count("Temporal does not answer; check it; still trying")

    most = follow._MAX_LOST_LOOKS
    assert await looks(*[AWAY] * (most - 1)) == most - 1
    with pytest.raises(CommandError, match="does not answer"):
        await looks(*[AWAY] * most)
    with pytest.raises(CommandError, match="there is no run"):
        await looks(CommandError("there is no run", "see", NO_SUCH))
