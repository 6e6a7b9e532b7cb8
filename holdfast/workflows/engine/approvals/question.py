"""Questions: requests for people's decisions, and the rulings that these form.

Decisions on a `Question` are checked, then counted; a quorum of equal ones is its `Ruling`.
Decisions are equal if they have the same effect: to run with the same arguments, or to use the same
result. An edit therefore restarts the count, and the digest of an approval of another person's edit
proves that the approver saw that edit. An edit to arguments of another rule ends the question: they
are a question of their own, by that rule, if it requires one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.arguments import effect_text, money_amount
from holdfast.runtime.text_safety import name_in_line
from holdfast.schemas.base import canonical_json, rfc3339
from holdfast.schemas.decision import (
    RUNS_AGAIN,
    Decided,
    Decision,
    Kind,
    PendingApproval,
    brief_arguments,
    digest_of,
    nonce_of,
)
from holdfast.schemas.names import ALREADY_DECIDED
from holdfast.schemas.run import CallApprover, Principal
from holdfast.schemas.tool import ApprovalPolicy, Forward, Schema
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.schema_node import ValidationLimits
from holdfast.validation.text_safety import normalized_person
from holdfast.workflows.engine.approvals import policy as policies
from holdfast.workflows.engine.approvals.claims import QuestionClaim
from holdfast.workflows.engine.approvals.rulings import (
    AnsweredByPerson,
    Approved,
    Denied,
    Expired,
    Moved,
    Ruling,
)
from holdfast.workflows.engine.approvals.verdicts import (
    DecisionRejected,
    SignedDecision,
    check_person,
    check_token,
    invalid,
    meaning_of,
)

MAX_COUNTED_DECISIONS = 200
MAX_REMINDERS = 100
_UNSIGNED = (
    "this call accepts only signed decisions: send one with a `token`, as"
    " `holdfast decide … --key FILE` does"
)
_CHANGED = (
    "{by} has changed the arguments since the approval was requested: read it again, then approve"
    " with its `digest`"
)
_AGAIN = (
    "attempt {round} of this call may have happened; to run it again, send `did_not_happen` with"
    " the `digest` and the `nonce` that are shown now (`holdfast approvals --json`), else"
    " `happened` with its `result`, or `give_up`"
)
_NEXT_FORM = (
    "the call requires a further answer; to give it, send the `digest` that is shown now"
    " (`holdfast approvals --json`)"
)
_COUNTED = {"decision", "by", "groups", "on_behalf_of", "reason", "remember"}
_OBEYS_TIMEOUT: tuple[Kind, ...] = ("call", "input", "plan")


@dataclass
class Question:
    """One request for people's decisions, and the decisions on it so far.

    `applied` are the rules by which people decide, and `policies_of` those of other arguments; the
    edit `moved_by` has brought the call under them.
    """

    call_id: str
    turn: int
    kind: Kind
    tool: str
    label: str
    arguments: dict[str, Any]
    reasoning: str | None
    text: str
    policy: ApprovalPolicy
    requested_at: datetime
    check_arguments: Callable[[dict[str, Any], ValidationLimits], dict[str, Any]]
    principal: Principal | None = None
    instance: str | None = None
    output: Schema | bool | None = None
    form: Schema | None = None
    filled_in: list[str] = field(default_factory=list)
    parameters: Schema | None = None
    round: int = 1
    attempts: list[str] = field(default_factory=list)
    decisions: list[tuple[Decided, bytes]] = field(default_factory=list)
    edited_by: str | None = None
    reminders: int = 0
    reminder_intervals: int = 0
    forwards: int = 0
    forwarded: list[str] = field(default_factory=list)
    applied: list[policies.AppliedPolicy] = field(default_factory=list)
    policies_of: policies.PoliciesOf | None = None
    moved_by: Decided | None = None
    claim: QuestionClaim = field(default_factory=QuestionClaim)
    ruling: Ruling | Moved | None = None

    @property
    def digest(self) -> str:
        return self._digest_of(self.arguments)

    @property
    def expires_at(self) -> datetime:
        assert self.policy.timeout is not None  # APPROVAL_DEFAULTS has one
        return self.requested_at + self.policy.timeout

    @property
    def last_moment(self) -> datetime:
        return self.expires_at - timedelta.resolution

    def next_alarm(self, now: datetime) -> timedelta:
        """Return the duration until the next reminder or forward, or the end of the wait."""
        due_at = [self.expires_at]
        if self._reminds and self.policy.remind is not None:
            # From the request on: a forward in between delays no reminder.
            due_at.append(self.requested_at + self.policy.remind * (self.reminder_intervals + 1))
        if (forward := self._next_forward) is not None:
            due_at.append(self.requested_at + forward.after)
        return min(due_at) - now

    def take_reminder(self, now: datetime) -> bool:
        """Count a reminder that is due, and return whether one is; all that were missed are one."""
        if not self._reminds or self.policy.remind is None:
            return False
        before = self.reminder_intervals
        self.reminder_intervals = (now - self.requested_at) // self.policy.remind
        self.reminders += self.reminder_intervals > before
        return self.reminder_intervals > before

    def take_forward(self, now: datetime) -> list[str] | None:
        """Let the groups of a due forward decide, too; return the new ones, None if none is due."""
        forward, before = self._next_forward, self.policy.approvers or []
        if forward is None or self.requested_at + forward.after > min(now, self.last_moment):
            return None
        self.forwards += 1
        self.reminders += 1
        self.policy = policies.forward_policy(self.policy, self.forwards)
        return [group for group in forward.to if group not in before]

    def note_forwarded(self, before: Sequence[str]) -> None:
        """Note the groups that decide, too, since the last news of it, when these decided."""
        self.forwarded = [group for group in self.policy.approvers or [] if group not in before]

    def as_of(self, now: datetime) -> "Question":
        """Return a copy to which the forwards that are due are applied."""
        copy = replace(self)
        while copy.take_forward(now) is not None:
            pass
        return copy

    def waits_for_forward(self, groups: Sequence[str]) -> bool:
        """Return whether only a later forward entitles any of these groups to decide."""
        later = (self.policy.forward or [])[self.forwards :]
        entitled, coming = self.policy.approvers or [], {group for one in later for group in one.to}
        is_entitled = not entitled or bool(set(groups) & set(entitled))
        return not is_entitled and bool(set(groups) & coming)

    @property
    def _reminds(self) -> bool:
        return not self.decisions and self.reminders < MAX_REMINDERS

    @property
    def _next_forward(self) -> Forward | None:
        # An approval without groups is not forwarded: that would restrict it.
        left = (self.policy.forward or [])[self.forwards :]
        return left[0] if left and self.policy.approvers else None

    def renew(self, by: str, now: datetime) -> Decided:
        """Count the principal's new token, which a question on its expiry waits for."""
        decided = Decided(
            decision="approve", by=by, at=rfc3339(now), digest=self.digest, signed=True
        )
        self.decisions.append((decided, b"approve"))
        self.ruling = Approved(self.arguments)
        return decided

    def expire(self) -> None:
        self.ruling = Expired()

    def nonce(self, run_id: str) -> str:
        """Return the nonce that a signed decision must have, if the execution `run_id` asks.

        A reset changes the run id also of a replayed question: no log or command may depend on it.
        """
        return nonce_of(run_id, self.call_id, self.round)

    def to_pending_approval(self, run_id: str | None = None, title: str = "") -> PendingApproval:
        """Return the question as people see it; without a run id, as the log has it."""
        shown, effect, amount = self.policy.on_timeout, "", ""
        if run_id is not None and self.kind in ("call", "reconcile"):
            amount = money_amount(self.arguments, self.parameters)
            if self.policy.effect is not None:
                effect = effect_text(self.policy.effect, self.arguments, self.parameters)
        return PendingApproval(
            call_id=self.call_id,
            kind=self.kind,
            tool=self.tool,
            label=self.label,
            arguments=self.arguments,
            reasoning=self.reasoning,
            instance=self.instance,
            digest=self.digest,
            nonce="" if run_id is None else self.nonce(run_id),
            requested_at=rfc3339(self.requested_at),
            expires_at=rfc3339(self.expires_at),
            approvers=self.policy.approvers or [],
            quorum=self.policy.quorum or 1,
            decisions=[decided for decided, _ in self.decisions],
            question=self.text,
            signed=bool(self.policy.signed),
            filled_in=self.filled_in,
            form=self.form or {},
            effect=effect,
            amount=amount,
            attempts=[] if run_id is None else self.attempts,
            rules=[one.rule for one in self.applied if one.rule is not None],
            claim=self.claim.shown,
            run_title=title,
            # A denial, or an action that does not apply to this kind, is not shown.
            on_timeout=shown if shown != "deny" and self.kind in _OBEYS_TIMEOUT else None,
        )

    def check(self, decision: Decision, limits: ValidationLimits) -> Decision:
        """Return a decision as it applies here, or raise `DecisionRejected` with the reason."""
        if isinstance(decision, SignedDecision):
            signed = decision.arguments if decision.decision == "edit" else self.arguments
            check_token(decision, self.call_id, self._digest_of(signed or {}))
        elif self.policy.signed:
            raise invalid(_UNSIGNED)
        self._check_digest(decision)
        check_person(decision, self.policy, self.forwards, self.principal)
        if len(self.decisions) >= MAX_COUNTED_DECISIONS:
            raise invalid("too many decisions were given on this call")
        meant = self._meaning(decision)
        if meant.decision == "edit":
            try:
                arguments = self.check_arguments(meant.arguments or {}, limits)
            except InvalidArguments as error:
                what = "plan is not valid" if self.kind == "plan" else "arguments do not fit"
                raise invalid(f"the edited {what}: {error}") from None
            meant = meant.model_copy(update={"arguments": arguments})
        wanted = self.output if self.form is None else self.form
        if meant.decision == "respond" and self.kind == "input" and wanted is not None:
            try:
                result = fit(meant.result, wanted, limits.budget())
                meant = meant.model_copy(update={"result": result})
            except InvalidArguments as error:
                what = "the tool's `_output`" if self.form is None else "the server's form"
                raise invalid(f"the answer does not fit {what}: {error}") from None
        own = self._latest().get(normalized_person(meant.by)) if meant.by is not None else None
        if own is not None and own[1] == self._effect(meant):
            name = name_in_line(meant.by or "", phrases.NAME_CHARS)
            raise DecisionRejected(ALREADY_DECIDED, f"{name} has decided so already")
        return meant

    def count(self, meant: Decision, now: datetime, limits: ValidationLimits) -> Decided:
        """Count a checked decision; a quorum of equal ones is the ruling."""
        effect = self._effect(meant)
        if meant.decision == "edit":
            self.arguments, self.edited_by = meant.arguments or {}, meant.by or "a person"
            self.filled_in = []
        counted, is_signed = meant.model_dump(include=_COUNTED), isinstance(meant, SignedDecision)
        decided = Decided(**counted, at=rfc3339(now), digest=self.digest, signed=is_signed)
        self.decisions.append((decided, effect))
        self.claim.end_of(decided.by)
        if meant.decision == "deny":
            self.ruling = Denied(meant.reason or "")
        elif meant.decision == "edit" and self._moves(limits):
            self.ruling = Approved(self.arguments, self.edited_by)
            if self.applied:
                quorum = policies.combined_policy(self.applied).quorum or 1
                self.ruling = Moved(self.arguments, self.edited_by or "", quorum)
        elif self.count_missing() <= 0:
            approved = Approved(self.arguments, self.edited_by)
            is_answer = meant.decision == "respond"
            self.ruling = AnsweredByPerson(meant.result) if is_answer else approved
        return decided

    @property
    def tools(self) -> list[str]:
        return [self.tool] if self.kind != "plan" else list(self.brief.values())

    @property
    def last_edit(self) -> Decided | None:
        edits = (decided for decided, _ in reversed(self.decisions) if decided.decision == "edit")
        return next(edits, self.moved_by)

    @property
    def brief(self) -> dict[str, Any]:
        return brief_arguments(self.kind, self.arguments)

    @property
    def decision_text(self) -> str:
        """Return the ruling in words, with who decided last: `approved by ada (signed)`."""
        if isinstance(self.ruling, Expired):
            return phrases.EXPIRED
        return phrases.decided_phrase(self.decisions[-1][0], self.kind)

    @property
    def approver(self) -> CallApprover:
        """Return who decided last, as the activity of an approved call receives it."""
        return CallApprover.read(dict(self.decisions[-1][0]))

    def agreeing_decisions(self) -> list[Decided]:
        """List the decisions that led to the ruling, one for each person."""
        latest = self._latest().values()
        return [decided for decided, effect in latest if effect == self.decisions[-1][1]]

    def count_missing(self) -> int:
        """Return the number of further decisions like the latest one that a ruling needs."""
        if self.ruling:
            return self.ruling.quorum if isinstance(self.ruling, Moved) else 0
        by = self.agreeing_decisions()
        missing = (self.policy.quorum or 1) - len(by)
        if missing > 0 or (len(self.applied) < 2 and self.kind != "plan"):
            return missing
        own = policies.as_forwarded(self.applied, self.policy, self.forwards)
        return int(not all(policies.satisfies(each, by, self.principal) for each in own))

    def approve_like(self, other: "Question") -> list[Decided]:
        """Approve by the decisions on another call, and return these as decisions on this one."""
        why = {"digest": self.digest, "reason": f"remembered with {other.call_id}"}
        same = [decided.model_copy(update=why) for decided in other.agreeing_decisions()]
        self.decisions += [(decided, b"approve") for decided in same]
        self.ruling = Approved(self.arguments)
        return same

    @property
    def approves_always(self) -> bool:
        """Return whether every deciding person approves all further calls, of the one rule."""
        if not isinstance(self.ruling, Approved) or len(self.applied) > 1:
            return False
        agreed = self.decisions[-1][1]
        return all(decided.remember for decided, effect in self.decisions if effect == agreed)

    @property
    def remember_key(self) -> str:
        """Return what is approved if all further calls are."""
        return self.applied[0].key(self.tool) if self.applied else self.tool

    def _moves(self, limits: ValidationLimits) -> bool:
        """Apply the rules of edited arguments; return whether they are others."""
        before = [one.key(self.tool) for one in self.applied]
        if self.policies_of is not None:
            self.applied = self.policies_of(self.arguments, limits)
        return before != [one.key(self.tool) for one in self.applied]

    def _latest(self) -> dict[str | None, tuple[Decided, bytes]]:
        return {normalized_person(one.by): (one, effect) for one, effect in self.decisions}

    def _digest_of(self, arguments: dict[str, Any]) -> str:
        return digest_of(self.tool, arguments, self.kind, self.round, self.form)

    def _check_digest(self, decision: Decision) -> None:
        if decision.digest is not None and decision.digest != self.digest:
            raise invalid("`digest` is not that of the pending call: read it again, then decide")
        if (edit := self.last_edit) is None:
            return
        by, editor = normalized_person(decision.by), normalized_person(edit.by or "a person")
        is_bound = decision.digest is not None or isinstance(decision, SignedDecision)
        if decision.decision == "approve" and by != editor and not is_bound:
            author = phrases.author_phrase(edit) or "a person"
            raise invalid(_CHANGED.format(by=author))

    def _meaning(self, decision: Decision) -> Decision:
        verdict, meaning = decision.decision, meaning_of(decision, self.kind)
        is_bound = decision.digest is not None or isinstance(decision, SignedDecision)
        # The workflow has compared the nonce, which depends on the execution; a token has it too.
        is_of_attempt = is_bound and (decision.nonce or isinstance(decision, SignedDecision))
        if self.kind == "reconcile" and verdict in RUNS_AGAIN and not is_of_attempt:
            raise invalid(_AGAIN.format(round=self.round))
        if self.form is not None and self.round > 1 and verdict == "respond" and not is_bound:
            raise invalid(_NEXT_FORM)
        return decision.model_copy(update={"decision": meaning})

    def _effect(self, meant: Decision) -> bytes:
        if meant.decision == "deny":
            return b"deny"
        if meant.decision == "respond":
            return b"respond" + canonical_json(meant.result)
        arguments = meant.arguments if meant.decision == "edit" else self.arguments
        return b"approve" + self._digest_of(arguments or {}).encode()
