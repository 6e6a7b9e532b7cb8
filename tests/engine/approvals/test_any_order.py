"""Votes, expiries, forwards, outages and attempts in any order: what runs has its votes in time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.decision import Decision
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.outcomes import Unknown
from tests.engine.driver import NOON, Play, call, reply, tool

TIMEOUT, FORWARDED_AFTER = 60, 30
PEOPLE = {"ann": "desk", "bob": "desk", "cat": "board", "eve": "press"}
MINUTES = st.integers(1, 150) | st.integers(TIMEOUT - 15, TIMEOUT + 15)


@dataclass
class Vote:
    """What a person sends, and when.

    `question` is the number of the question that they saw; `read_at` is when the run read it.
    """

    minute: int
    by: str
    yes: bool
    question: int = 0
    read_at: float = 0.0
    decision: dict[str, Any] = field(default_factory=dict)


@dataclass
class Timeline:
    """What happens to one payment: the votes on it, and when no worker runs."""

    votes: list[Vote]
    outages: list[tuple[int, int]]
    attempts: int
    policy: dict[str, Any]


votes = st.builds(Vote, minute=MINUTES, by=st.sampled_from(sorted(PEOPLE)), yes=st.booleans())
policies = st.fixed_dictionaries(
    {
        "quorum": st.integers(1, 2),
        "onTimeout": st.sampled_from(["deny", "fail", "approve"]),
        "remind": st.sampled_from(["7m", "100m"]),
    }
)


def timelines(**policy: Any) -> st.SearchStrategy[Timeline]:
    """Timelines of a payment with these entries of its policy."""
    around_expiry = st.tuples(st.integers(1, TIMEOUT), st.integers(TIMEOUT + 1, 150))
    outage = around_expiry | st.tuples(MINUTES, st.integers(150, 200))
    return st.builds(
        Timeline,
        votes=st.lists(votes, min_size=2, max_size=8).map(
            lambda sent: sorted(sent, key=lambda v: v.minute)
        ),
        outages=st.lists(outage, max_size=2),
        attempts=st.integers(1, 3),
        policy=policies.map(lambda drawn: {**drawn, "timeout": f"{TIMEOUT}m", **policy}),
    )


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


class TimedPlay(Play):
    """A run of one payment, played along a timeline as the workflow does it."""

    def __init__(self, timeline: Timeline) -> None:
        self.minute = 0.0
        self.timeline, self.unsent = timeline, [Vote(v.minute, v.by, v.yes) for v in timeline.votes]
        self.sent: list[Vote] = []
        self.questions: list[Question] = []
        policy = ApprovalPolicy.model_validate(timeline.policy)
        unknown = [Unknown("no reply")] * (timeline.attempts - 1)
        super().__init__(
            tool("pay", side_effects=True, approval=policy),
            model=[reply("", call("pay")), reply("done")],
            outcomes={"pay": (*unknown, "ok")},
            clock=lambda: at(self.minute),
        )

    def ask(self, question: Question) -> None:
        """Let the time pass until there is a ruling."""
        self.questions.append(question)
        while question.ruling is None and not self.run.needs_no_decision(question):
            alarm = self.minute + question.next_alarm(at(self.minute)) / timedelta(minutes=1)
            self.minute = self._next_task(alarm)
            self._receive(list(self._send(question)), question)
            self.run.questions.forward(question, at(self.minute))
            if question.ruling is None:
                self.run.questions.end_or_remind(question, at(self.minute))

    def _next_task(self, alarm: float) -> float:
        """Return when a worker handles the next vote or alarm."""
        soonest = max(min([alarm, *(vote.minute for vote in self.unsent)]), self.minute)
        for start, end in sorted(self.timeline.outages):
            if start <= soonest < end:
                soonest = float(end)
        return soonest

    def _send(self, question: Question) -> Iterator[Vote]:
        """Send the votes up to now: people see the question as the last workflow task left it."""
        verdicts = {True: "approve", False: "deny"}
        if question.kind == "reconcile":
            verdicts = {True: "did_not_happen", False: "give_up"}
        while self.unsent and self.unsent[0].minute <= self.minute:
            vote = self.unsent.pop(0)
            vote.question, vote.read_at = len(self.questions) - 1, self.minute
            vote.decision = {
                "callId": question.call_id,
                "decision": verdicts[vote.yes],
                "by": vote.by,
                "groups": [PEOPLE[vote.by]],
                "digest": question.digest,
                "nonce": question.nonce("run"),
            }
            self.sent.append(vote)
            yield vote

    def _receive(self, received: list[Vote], question: Question) -> None:
        """Count votes as `BaseWorkflow` does: a late one as of its time, after all others."""
        late = []
        for vote in received:
            decision = Decision.model_validate(vote.decision)
            if question.ruling is None and question.expires_at <= at(self.minute):
                late.append((decision, at(vote.minute)))
            else:
                self.run.questions.count_or_log(decision)
        for decision, sent_at in late:
            self.run.questions.count_or_log(decision, sent_at)

    def votes_in_time(self, number: int, *, yes: bool) -> set[str]:
        """The people who voted so on a question before its expiry, by what was sent."""
        question = self.questions[number]
        forwarded_at = question.requested_at + timedelta(minutes=FORWARDED_AFTER)
        since = {"desk": question.requested_at, "board": forwarded_at}
        return {
            vote.by
            for vote in self.sent
            if (vote.question, vote.yes) == (number, yes)
            and at(vote.minute) < question.expires_at
            and PEOPLE[vote.by] in since
            and since[PEOPLE[vote.by]] <= at(vote.read_at)
        }


@given(timelines(approvers=["desk"], forward=[{"after": f"{FORWARDED_AFTER}m", "to": ["board"]}]))
def test_no_effect_without_the_votes_that_its_policy_requires_in_time(timeline: Timeline) -> None:
    play = TimedPlay(timeline).to_end()
    effects = len(play.records("tool_start"))

    for number, question in enumerate(play.questions[:effects]):
        votes = play.votes_in_time(number, yes=True)
        is_by_timeout = (
            timeline.policy["onTimeout"] == "approve"
            and question.kind == "call"
            and not play.votes_in_time(number, yes=False) & {"ann", "bob"}
        )
        assert is_by_timeout or len(votes) >= timeline.policy["quorum"]
    assert effects <= len(play.questions)
    assert len(play.records("tool_end")) == 1, "each call has one result"


@given(timelines())
def test_an_outage_changes_no_outcome(timeline: Timeline) -> None:
    timeline.attempts = 1
    during = TimedPlay(timeline).to_end()
    timeline.outages = []
    without = TimedPlay(timeline).to_end()

    assert during.errors() == without.errors()
