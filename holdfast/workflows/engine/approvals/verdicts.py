"""The verdicts of decisions: which a kind of question accepts, and what each means there."""

from holdfast.schemas.decision import Decision, Kind, Verdict
from holdfast.workflows.engine.approvals.signed_decision import RESULTS, invalid

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
