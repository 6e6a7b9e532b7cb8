"""Signed decisions: what a token is bound to.

    a decision with a token ─► its signature is good (an activity) ─► it is bound ─► it is counted

Whoever may send decisions may write anything into them. What a token says was said by whoever holds
the key, and by nobody in between: who decides, in which run, and on what. So but for its reason
nothing counts of a signed decision that is not in its token: one for one call is none for another,
one for these arguments none for others, and one that was used counts for nothing else.

Signature and dates are not seen here: they take keys and a clock.
"""

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, DecisionClaims

# What a token may be used for that does not say what was decided.
_UNSAID = ("approve", "deny")
# Decisions that hand in a result.
_RESULTS = ("respond", "happened")


class TokenMismatch(Exception):
    """A token that is for something else, and for what."""


class SignedDecision(Decision):
    """A decision as its token has it: nobody can send one."""

    claims: DecisionClaims

    @property
    def token_use(self) -> str:
        """What its token is used for."""
        return f"{self.call_id} {self.decision}"


def sign_with_claims(decision: Decision, claims: DecisionClaims, run_id: str) -> SignedDecision:
    """The decision, of whom its token says; `run_id` is the run that it was sent to.

    Raises:
        Unbound: the token is for another run.
    """
    if claims.workflow_id != run_id:
        raise _unbound("another run")
    said = {name: getattr(decision, name) for name in decision.model_fields_set}
    who = {"by": claims.sub, "groups": claims.groups}
    return SignedDecision.model_validate({**said, **who, "claims": claims})


def check_token(decision: SignedDecision, call_id: str, digest: str) -> None:
    """See that the token is for this call, for what this digest is of, and for what is decided.

    Raises:
        Unbound: it is not.
    """
    claims, verdict = decision.claims, decision.decision
    if claims.call_id is not None and claims.call_id != call_id:
        raise _unbound("another call")
    if claims.digest != digest:
        what = "other arguments" if verdict == "edit" else "another call, or as it was before"
        raise _unbound(f"{what}: look at it again, then sign")
    _check_verdict(claims, verdict)
    if verdict in _RESULTS and claims.result_digest != sha256(canonical_json(decision.result)):
        raise _unbound("another result: sign its digest as `resultDigest`")
    if decision.remember and not claims.remember:
        raise _unbound("this call alone: sign `remember` as well")


def _check_verdict(claims: DecisionClaims, verdict: str) -> None:
    if claims.decision is None and verdict not in (*_UNSAID, "edit"):
        raise _unbound(f"an approval or a denial: sign `decision` as `{verdict}`")
    if claims.decision not in (None, verdict):
        raise _unbound("another decision")


def _unbound(what: str) -> TokenMismatch:
    return TokenMismatch(f"the token is for {what}")
