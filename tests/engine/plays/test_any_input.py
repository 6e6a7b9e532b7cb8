"""A run and its inputs in any order: people, models, activities, clocks, faults, and an attacker.

Each step is one input at a moment at which it can come; after each, the invariants of a run and
its calls hold.
"""

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from holdfast.schemas.base import canonical_json, sha256
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.phases import AskModel, AwaitMessage
from tests.engine.driver import read_again
from tests.engine.plays.playing import Transcript

AMOUNT = {"properties": {"amount": {"type": "integer", "maximum": 9}}, "required": ["amount"]}
POLICY = {"timeout": "1h", "remind": "20m", "approvers": ["desk"], "notBy": "principal"}
FORWARD = [{"after": "30m", "to": ["board"]}]
TOOLS: list[dict[str, Any]] = [
    {"_tool": "look", "_outputPath": "†state.seen"},
    {"_tool": "pay", **AMOUNT, "_sideEffects": True, "_approval": {**POLICY, "quorum": 2}},
    {
        "_tool": "refund",
        **AMOUNT,
        "_sideEffects": True,
        "_idempotent": False,
        "_approval": {**POLICY, "forward": FORWARD},
    },
    {"_tool": "note", "_sideEffects": True, "_approval": {"timeout": "1h", "onTimeout": "approve"}},
]
PEOPLE = {"ann": "desk", "bob": "desk", "cat": "board", "eve": "press", "ada": "desk"}
BUDGET = {"maxTurns": 6, "maxIterations": 6, "maxCalls": 9}
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"amount": st.integers(1, 9)}),
    st.just({"amount": 10}),
    st.just({"amount": "†state.seen.amount"}),
    st.just({}),
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["look", "look", "pay", "refund", "note", "spend"]), ARGUMENTS),
    min_size=1,
    max_size=3,
).map(lambda calls: [{name: arguments} for name, arguments in calls])
LOST = {"unknown": "no reply"}
OUTCOMES = st.sampled_from([{"amount": 3}, "ok", {"error": "no connection"}, LOST])
SHARE = st.floats(0, 1, exclude_max=True)


class AnyInput(RuleBasedStateMachine):
    """One run, from its start to its end."""

    def __init__(self) -> None:
        super().__init__()
        self.play: Transcript
        # The log's entries, as of the last invariant; and each as text, as of the last input.
        self.known: list[dict[str, Any]] = []
        self.before: list[str] = []
        # The messages that people sent, each with its delivery.
        self.sent: dict[str, str] = {}
        # The arguments that each call was started with, as its activity received them.
        self.executed: dict[str, list[dict[str, Any]]] = {}

    @initialize(
        plan=st.sampled_from(["eager", "eager", "lazy"]),
        conversation=st.booleans(),
        ask=st.booleans(),
    )
    def start(self, *, plan: str, conversation: bool, ask: bool) -> None:
        agent = {"tools": TOOLS, "plan": plan, "budget": BUDGET}
        agent["onLimit"] = {"maxTurns": "ask" if ask else "finalize"}
        principal = {"id": "ada", "scopes": []}
        said = {"agent": agent, "principal": principal, "conversation": conversation}
        self.play = Transcript(said)

    # Inputs.

    def put(self, key: str, value: Any) -> None:
        running = {one.id: one for one in self.calls() if one.is_running}
        self.play.input(key, value)
        for one in self.calls():
            if one.is_running and one.id not in running:
                self.executed.setdefault(one.id, []).append(one.arguments)

    def calls(self) -> list[ToolCall]:
        turn = self.play.run.phases.turn
        return [] if turn is None else turn.calls

    def is_asked(self) -> bool:
        step = self.play.next()
        return isinstance(step, AskModel) and not step.pointer.summary

    def running(self) -> list[str]:
        return [one.id for one in self.calls() if one.is_running]

    def pending(self) -> list[Any]:
        return self.play.desk.list_open()

    def is_over(self) -> bool:
        return self.play.run.phases.end is not None

    @precondition(is_asked)
    @rule(calls=CALLS)
    def model_calls(self, calls: Any) -> None:
        self.put("model", calls)

    @precondition(is_asked)
    @rule(text=st.sampled_from(["Done.", "", "Done."]))
    def model_answers(self, text: str) -> None:
        self.put("model", text)

    @precondition(lambda self: bool(self.running()))
    @rule(share=SHARE, outcome=OUTCOMES)
    def activity_ends(self, share: float, outcome: Any) -> None:
        call_id = self.running()[int(share * len(self.running()))]
        is_once = self.tool_of(call_id) != "look"
        self.put(call_id, outcome if is_once or outcome != LOST else "ok")

    @precondition(lambda self: bool(self.pending()))
    @rule(
        share=SHARE,
        by=st.sampled_from(sorted(PEOPLE)),
        decision=st.sampled_from(["approve", "approve", "deny", "did_not_happen", "give_up"]),
        remember=st.booleans(),
    )
    def person_decides(self, share: float, by: str, decision: str, *, remember: bool) -> None:
        question = self.pending()[int(share * len(self.pending()))]
        more = {"remember": True} if remember and decision == "approve" else {}
        said = {decision: question.call_id, "groups": [PEOPLE[by]], **more}
        self.put(by, {**said, "digest": question.digest})

    @precondition(lambda self: bool(self.pending()))
    @rule(share=SHARE, by=st.sampled_from(["ann", "bob"]), amount=st.integers(1, 12))
    def person_edits(self, share: float, by: str, amount: int) -> None:
        question = self.pending()[int(share * len(self.pending()))]
        arguments = {"amount": amount}
        said = {"edit": question.call_id, "groups": [PEOPLE[by]], "arguments": arguments}
        self.put(by, {**said, "digest": question.digest})

    @rule(
        call_id=st.sampled_from(["t1c1", "t1c2", "t2c1", "t9c9", "t1-plan"]),
        digest=st.sampled_from(["0" * 64, None]),
    )
    def attacker_decides(self, call_id: str, digest: str | None) -> None:
        before = len(self.play.log)
        more = {} if digest is None else {"digest": digest}
        groups = ["desk", "board"] if digest else ["press"]
        question = self.play.desk.find_open(call_id)
        is_free = question is not None and not question.policy.approvers and digest is None
        if not is_free:
            self.put("eve", {"approve": call_id, "groups": groups, **more})
            assert len(self.play.log) == before, "a decision without a right leaves no trace"

    @rule(minutes=st.sampled_from([1, 19, 20, 30, 59, 60, 61]))
    def time_passes(self, minutes: int) -> None:
        self.put("time", f"{minutes}m")

    @precondition(lambda self: not self.is_over() and len(self.sent) < 3)
    @rule(delivery=st.sampled_from(["steer", "followUp"]))
    def person_writes(self, delivery: str) -> None:
        text = f"message {len(self.sent) + 1}"
        self.sent[text] = delivery
        self.put("message", {"content": text, "delivery": delivery})

    @precondition(lambda self: not self.is_over() and self.play.run.is_between_turns)
    @rule()
    def history_is_long(self) -> None:
        entries = self.play.records()
        self.put("run", "continue as new")
        assert self.play.records()[: len(entries)] == entries

    @precondition(lambda self: isinstance(self.play.next(), AwaitMessage))
    @rule()
    def conversation_is_closed(self) -> None:
        self.put("run", "close")

    @precondition(lambda self: not self.is_over())
    @rule(one_in=st.integers(1, 8))
    def run_is_cancelled(self, one_in: int) -> None:
        if one_in == 1:
            self.put("run", "cancel")

    # Invariants of the log.

    def entries(self, *types: str) -> list[dict[str, Any]]:
        if len(self.known) != len(self.play.log):
            self.known = self.play.records()
        return [entry for entry in self.known if not types or entry["type"] in types]

    def messages(self) -> list[dict[str, Any]]:
        return [entry["message"] for entry in self.entries("message")]

    @invariant()
    def the_log_only_grows(self) -> None:
        entries = [canonical_json(entry).decode() for entry in self.entries()]
        assert entries[: len(self.before)] == self.before
        self.before = entries

    @invariant()
    def entries_are_numbered_and_dated_in_order(self) -> None:
        entries = self.entries()
        assert [entry["n"] for entry in entries] == [*range(1, len(entries) + 1)]
        assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)

    @invariant()
    def its_pages_have_its_digest(self) -> None:
        digest, _ = read_again(self.play.log)
        assert digest == self.play.log.digest

    @invariant()
    def nothing_follows_the_end(self) -> None:
        ends = [entry["n"] for entry in self.entries("done", "error")]
        assert len(ends) == int(self.is_over())
        assert not ends or ends == [len(self.play.log)]

    @invariant()
    def a_turn_ends_before_the_next_begins(self) -> None:
        turns = [(each["type"], each["turn"]) for each in self.entries("turn_start", "turn_end")]
        number = 0
        for kind, turn in turns:
            assert turn == (number := number + (kind == "turn_start")), turns
        assert not any(one[0] == two[0] for one, two in pairwise(turns)), turns

    # Invariants of calls.

    @invariant()
    def a_call_ends_once_with_one_result(self) -> None:
        ends = [entry["callId"] for entry in self.entries("tool_end")]
        results = [each["callId"] for each in self.messages() if each["role"] == "tool"]
        assert results == ends
        assert len(set(ends)) == len(ends)

    @invariant()
    def results_are_in_the_order_of_the_answer(self) -> None:
        asked = [one["id"] for each in self.messages() for one in each.get("calls", ())]
        ends = [entry["callId"] for entry in self.entries("tool_end")]
        assert ends == asked[: len(ends)]

    @invariant()
    def every_call_of_a_run_that_ended_has_a_result(self) -> None:
        asked = [one["id"] for each in self.messages() for one in each.get("calls", ())]
        if self.is_over():
            assert [entry["callId"] for entry in self.entries("tool_end")] == asked

    @invariant()
    def no_call_starts_after_its_end(self) -> None:
        at = {entry["callId"]: entry["n"] for entry in self.entries("tool_end")}
        for start in self.entries("tool_start"):
            assert start["n"] < at.get(start["callId"], start["n"] + 1)

    @invariant()
    def only_known_tools_with_fitting_arguments_run(self) -> None:
        for call_id, all_arguments in self.executed.items():
            tool = self.tool_of(call_id)
            assert tool in {each["_tool"] for each in TOOLS}
            for arguments in all_arguments:
                if tool in ("pay", "refund"):
                    assert arguments["amount"] <= 9
                assert "†" not in str(arguments)

    @invariant()
    def a_call_starts_again_only_if_it_did_not_happen(self) -> None:
        starts = Counter(entry["callId"] for entry in self.entries("tool_start"))
        for call_id, count in starts.items():
            questions = self.questions("reconcile", call_id)
            assert count <= 1 + len(questions)
            assert count == 1 or self.tool_of(call_id) != "look"

    @invariant()
    def no_more_calls_run_than_the_budget_has(self) -> None:
        extended = [each for each in self.decided() if "-max" in each["callId"]]
        starts = {entry["callId"] for entry in self.entries("tool_start")}
        assert len(starts) <= BUDGET["maxCalls"] * (1 + len(extended))

    @invariant()
    def no_more_turns_are_taken_than_the_budget_has(self) -> None:
        extended = [each for each in self.decided() if "-max" in each["callId"]]
        limit = BUDGET["maxTurns"] * (1 + len(extended) + len(self.sent))
        assert len(self.entries("turn_start")) <= limit + 1, "one more is the final answer"

    def tool_of(self, call_id: str) -> str:
        [name] = [
            one["tool"]
            for each in self.messages()
            for one in each.get("calls", ())
            if one["id"] == call_id
        ]
        return str(name)

    # Invariants of decisions.

    def questions(self, kind: str, call_id: str) -> list[dict[str, Any]]:
        return [
            entry
            for entry in self.entries("confirmation_required")
            if (entry["callId"], entry["approval"]["kind"]) == (call_id, kind)
            and not entry.get("reminder")
        ]

    def decided(self, call_id: str = "") -> list[dict[str, Any]]:
        return [
            entry
            for entry in self.entries("decision")
            if "decided" in entry and call_id in ("", entry["callId"])
        ]

    @invariant()
    def an_effect_has_the_votes_of_its_policy(self) -> None:
        for start in self.entries("tool_start"):
            call_id, tool = start["callId"], self.tool_of(start["callId"])
            if tool not in ("pay", "refund"):
                continue
            turn = call_id.partition("c")[0]
            votes = [
                each
                for each in [*self.decided(call_id), *self.decided(f"{turn}-plan")]
                if each["n"] < start["n"] and each["decided"]["decision"] != "deny"
            ]
            people = {each["decided"]["by"] for each in votes}
            is_remembered = any("remember" in each["decided"] for each in self.decided())
            assert len(people) >= (2 if tool == "pay" else 1) or is_remembered
            assert not people & {"eve", "ada"}, "people without the right do not count"

    @invariant()
    def what_runs_is_what_was_approved(self) -> None:
        for call_id, [arguments, *_] in self.executed.items():
            first, *_ = [*self.decided(call_id), {"decided": {"decision": ""}}]
            if first["decided"]["decision"] == "approve" and "digest" in first["decided"]:
                approved = {"arguments": arguments, "tool": self.tool_of(call_id)}
                edited = any("arguments" in each for each in self.decided(call_id))
                assert edited or sha256(canonical_json(approved)) == first["decided"]["digest"]

    @invariant()
    def a_denied_or_expired_call_does_not_start(self) -> None:
        starts = {entry["callId"]: entry["n"] for entry in self.entries("tool_start")}
        for entry in self.entries("decision"):
            verdict = entry.get("decided", {}).get("decision", entry.get("outcome"))
            by_policy = self.is_call(entry) and self.tool_of(entry["callId"]) == "note"
            if verdict == "deny" or (verdict == "expired" and not by_policy):
                assert starts.get(entry["callId"], 0) < entry["n"]

    def is_call(self, entry: dict[str, Any]) -> bool:
        return "-" not in entry["callId"]

    @invariant()
    def a_question_is_decided_once(self) -> None:
        rulings = Counter(e["callId"] for e in self.entries("decision") if "outcome" in e)
        for call_id, count in rulings.items():
            asked = [
                entry
                for entry in self.entries("confirmation_required")
                if entry["callId"] == call_id and not entry.get("reminder")
            ]
            assert count <= max(1, len(asked))

    @invariant()
    def pending_approvals_are_in_the_log(self) -> None:
        logged = {
            (entry["callId"], entry["approval"]["digest"])
            for entry in self.entries("confirmation_required")
        }
        edited = {entry["callId"] for entry in self.decided() if "arguments" in entry}
        for question in self.pending():
            is_logged = (question.call_id, question.digest) in logged
            assert is_logged or question.call_id in edited

    @invariant()
    def no_question_is_pending_after_its_expiry(self) -> None:
        assert all(question.expires_at > self.play.now for question in self.pending())

    @invariant()
    def a_run_that_ended_asks_no_one(self) -> None:
        assert not (self.is_over() and self.pending())

    # Invariants of messages.

    @invariant()
    def messages_are_read_once_and_in_order(self) -> None:
        read = [
            each["content"]
            for each in self.messages()
            if each["role"] == "user" and str(each["content"]).startswith("message ")
        ]
        assert len(set(read)) == len(read)
        assert set(read) <= self.sent.keys()
        for delivery in ("steer", "followUp"):
            same = [text for text in read if self.sent[str(text)] == delivery]
            assert same == sorted(same)

    @invariant()
    def every_message_is_in_the_log_of_a_run_that_ended(self) -> None:
        if self.is_over():
            assert self.sent.keys() <= {str(each.get("content")) for each in self.messages()}

    # Invariants of the run.

    @invariant()
    def it_ends_or_needs_an_input(self) -> None:
        waits = self.pending() or self.running() or self.play.arrived
        step = self.play.next()
        assert waits or self.is_over() or isinstance(step, AskModel | AwaitMessage), step

    @invariant()
    def its_status_is_what_it_waits_for(self) -> None:
        status = self.play.run.status
        assert (status == "awaiting_message") == isinstance(self.play.next(), AwaitMessage)
        if self.pending() and not self.running() and not self.is_over():
            assert status == "awaiting_approval"


AnyInput.TestCase.settings = settings(stateful_step_count=30, phases=set(Phase) - {Phase.explain})
TestAnyInput = AnyInput.TestCase
