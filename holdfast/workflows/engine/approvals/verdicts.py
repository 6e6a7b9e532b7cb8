"""What a decision means for a kind of question, and what the token of a signed one must be for.

Every field of a signed decision but its reason is read from its token, which counts once. An
activity verifies signature and dates.
"""

from collections.abc import Mapping

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, DecisionClaims, Kind, Verdict
from holdfast.schemas.names import ALREADY_DECIDED, INVALID_DECISION
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.run import Principal
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.validation.text_safety import is_same_person

# The decisions that give a result.
RESULTS: tuple[Verdict, ...] = ("respond", "happened")
# The meaning of each verdict where the outcome of a call is unknown.
_RECONCILE: dict[Verdict, Verdict] = {
    "happened": "respond",
    "did_not_happen": "approve",
    "give_up": "deny",
}
# The verdicts that use a field of their own.
_USED_BY: dict[str, tuple[Verdict, ...]] = {
    "arguments": ("edit",),
    "result": RESULTS,
    "remember": ("approve", "edit"),
}
_RENEW = (
    "the token of the run's principal has expired: send the update `renew` with a new one"
    " (`holdfast renew`), or deny the call"
)
_ANSWER = "only a person's answer is its result: decide with respond or deny"
# The verdicts that a question of this kind does not accept.
_UNFIT: dict[tuple[Kind, Verdict], str] = {
    ("reconcile", "edit"): "a call that may have happened cannot be edited",
    ("budget", "respond"): "decide on a budget with approve, edit or deny",
    ("principal_expired", "approve"): _RENEW,
    ("principal_expired", "edit"): _RENEW,
    ("principal_expired", "respond"): _RENEW,
    ("plan", "respond"): "decide on a plan with approve, edit or deny",
    ("input", "approve"): _ANSWER,
    ("input", "edit"): _ANSWER,
}


class DecisionRejected(Exception):
    """A decision is rejected; `code` is a type of `schemas.names`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class SignedDecision(Decision):
    """A decision whose token was verified; no client can send one."""

    claims: DecisionClaims

    @property
    def token_use(self) -> str:
        """Return the use of its token: a call and a verdict."""
        return f"{self.call_id} {self.decision}"


def meaning_of(decision: Decision, kind: Kind) -> Verdict:
    """Return what a decision means for a kind of question: approve, deny, edit or respond.

    Raises:
        DecisionRejected: The kind does not accept the verdict, or the decision has a field that the
            verdict does not use: its sender expects an effect of it.
    """
    verdict = decision.decision
    if kind != "reconcile" and verdict in _RECONCILE:
        raise invalid(f"`{verdict}` is for calls whose outcome is unknown")
    if (unfit := _UNFIT.get((kind, verdict))) is not None:
        raise invalid(unfit)
    if decision.remember and kind != "call":
        raise invalid("`remember` is for a single call; leave it out")
    for name, verdicts in _USED_BY.items():
        is_unset = getattr(decision, name) is Decision.model_fields[name].default
        if not (is_unset or verdict in verdicts):
            others = " or ".join(f"`{each}`" for each in verdicts)
            raise invalid(f"`{name}` goes with {others}, not with `{verdict}`")
    return _RECONCILE.get(verdict, verdict)


def claimed_groups(decision: Decision) -> list[str]:
    """Return the groups of a decision; of one with a token, those that it claims, unverified."""
    if decision.token is None:
        return decision.groups
    try:
        return DecisionClaims.unchecked(decision.token).groups
    except ValueError:
        return []


def sign_with_claims(decision: Decision, claims: DecisionClaims, run_id: str) -> SignedDecision:
    """Take the person from a token's claims, or raise `DecisionRejected`: it is for another run."""
    if claims.workflow_id != run_id:
        raise _unbound("another run")
    fields = {name: getattr(decision, name) for name in decision.model_fields_set}
    who = {"by": claims.sub, "groups": claims.groups, "on_behalf_of": claims.on_behalf_of}
    return SignedDecision.model_validate({**fields, **who, "claims": claims})


def check_token(decision: SignedDecision, call_id: str, digest: str) -> None:
    """Raise `DecisionRejected` unless a token is for this call, this digest, and the verdict."""
    claims, verdict = decision.claims, decision.decision
    if claims.call_id is not None and claims.call_id != call_id:
        raise _unbound("another call")
    if claims.digest != digest:
        what = "other arguments" if verdict == "edit" else "another call, or an earlier form of it"
        raise _unbound(f"{what}: read it again, then sign")
    if claims.decision is None and verdict not in ("approve", "deny", "edit"):
        raise _unbound(f"an approval or a denial: sign `decision` as `{verdict}`")
    if claims.decision not in (None, verdict):
        raise _unbound("another decision")
    if verdict in RESULTS and claims.result_digest != sha256(canonical_json(decision.result)):
        raise _unbound("another result: sign its digest as `resultDigest`")
    if decision.remember and not claims.remember:
        raise _unbound("this call alone: sign `remember` as well")


def check_unused(decision: SignedDecision, tokens: Mapping[str, str]) -> None:
    """Raise `DecisionRejected` if a token was used; `tokens` has the use of each."""
    if (use := tokens.get(decision.claims.id)) is not None:
        # The signer of a used token may have changed the decision since.
        code = ALREADY_DECIDED if use == decision.token_use else INVALID_DECISION
        raise DecisionRejected(code, f"the token was used already: {use}")


def invalid(why: str) -> DecisionRejected:
    """Return the rejection of a decision that could never count as it was sent."""
    return DecisionRejected(INVALID_DECISION, why)


def _unbound(what: str) -> DecisionRejected:
    return invalid(f"the token is for {what}")


def check_person(
    decision: Decision, policy: ApprovalPolicy, forwards: int, principal: Principal | None
) -> None:
    """Reject a decision of a person who may not decide under a policy after so many forwards."""
    if decision.by is None and (policy.not_by or (policy.quorum or 1) > 1):
        raise invalid("this call requires a named approver: write `by`")
    own = principal.id if principal is not None else None
    if policy.not_by and is_same_person(decision.by, own):
        raise invalid("the principal of the run cannot decide on this call")
    if policy.not_by and any(is_same_person(each, own) for each in decision.on_behalf_of):
        raise invalid("the principal of the run has no substitute for this call: others decide")
    if policy.approvers and not any(group in policy.approvers for group in decision.groups):
        named = distinct_names(policy.approvers)
        raise invalid(f"only these groups decide on this call: {named}")
    later = {group for one in (policy.forward or [])[:forwards] for group in one.to}
    groups = set(policy.approvers or []).intersection(decision.groups)
    if decision.remember and later and groups <= later:
        raise invalid("it was forwarded to you alone: leave `remember` out")
