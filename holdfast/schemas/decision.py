"""Approvals: the questions to a person, and the decisions on them."""

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from holdfast.schemas.base import Explicit, Json, Lenient, Strict, canonical_json, sha256
from holdfast.schemas.phrases import MAX_NAMES_TOLD, first_names, quote_value
from holdfast.schemas.tool import Schema, ShownTool

MAX_TOKEN_CHARACTERS = 16_384
MAX_CLAIM_SECONDS = 8 * 3600
# For how many people one decides as their substitute.
MAX_REPRESENTED = 20
# How often a question can be asked and still be recognised by its digest.
MAX_ROUNDS = 50
# The most tools that are read for one pending approval.
MAX_TOOLS = 30
_NO_TOKEN = (
    "`token` is no signed decision: it is to be a JWT with `sub`, `groups`, `digest`, `nonce`,"
    " `workflowId` and `exp`"
)
OTHER_QUESTION = "`nonce` is of another attempt or execution: look at it again, then decide"
Purpose = Literal["decision", "principal", "question"]

Represented = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(max_length=MAX_REPRESENTED, exclude_if=lambda people: not people),
]
Kind = Literal["call", "input", "reconcile", "plan", "budget", "principal_expired"]
Verdict = Literal["approve", "deny", "edit", "respond", "happened", "did_not_happen", "give_up"]
# The decisions that run a call again whose outcome is unknown.
RUNS_AGAIN: tuple[Verdict, ...] = ("approve", "did_not_happen")


class Decision(Strict):
    """One person's decision on one pending call.

    For a call whose outcome is unknown (kind `reconcile`): `happened` (or `respond`) takes `result`
    as what it returned; `did_not_happen` (or `approve`), with the `digest` and the `nonce` of this
    attempt, runs it again; `give_up` (or `deny`) does not. For a plan: `approve` runs all of it,
    `edit` takes `arguments` of the form in which they are shown, and strikes out the calls that are
    left out of them, `deny` runs none. For a budget: `approve` grants the same amount again,
    `edit` sets `arguments`, `deny` ends the run, in a conversation its message. For a call that
    only a person can answer (kind `input`): `respond` takes `result` as the answer, `deny` gives
    none.
    """

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The pending call."""
    decision: Verdict
    """What is to become of it."""
    arguments: dict[str, Json] | None = None
    """For `edit`: all arguments of the call; of a plan, its `calls`."""
    result: Json = None
    """For `respond` and `happened`: the call's result."""
    reason: Annotated[str, Field(max_length=10_000)] | None = None
    """Why; after a denial the model reads it."""
    by: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who decides."""
    groups: Annotated[list[str], Field(max_length=100)] = []
    """The groups that they decide for."""
    on_behalf_of: Represented = []
    """The people who are away, and whose substitute they are. The inbox sets it; it gives no right:
    the decision is refused if one of these people may not decide."""
    digest: str | None = None
    """Decide only if the call is still the one with this digest."""
    nonce: Annotated[str, Field(max_length=200)] | None = None
    """Decide only on the question with this nonce: of this attempt, in this execution."""
    remember: bool = False
    """Approve every further call of the tool in this run."""
    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARACTERS)] | None = None
    """A JWT that names the approver and the call: `by`, `groups` and `onBehalfOf` are then taken
    from it."""

    def to_json(self) -> dict[str, Any]:
        """Return what was sent, also where it is the default: a result may be null."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def update_id(self, run_id: str, question: Any) -> str:
        """Return the id of the update with this decision of its approver on a question of a run."""
        approver: Any = self.by
        if self.token is not None:
            try:
                claims = _unverified_claims(self.token)
                approver = [claims.get("iss"), claims.get("sub")]
            except ValueError:  # the run rejects it
                approver = self.token
        verdict = [self.decision, self.arguments, self.result, self.reason, *[True] * self.remember]
        return sha256(canonical_json([run_id, self.call_id, question, approver, *verdict]))

    @model_validator(mode="after")
    def _complete(self) -> "Decision":
        if self.decision == "edit" and self.arguments is None:
            raise ValueError("`edit` needs `arguments`, the whole of them")
        if self.decision in ("respond", "happened") and "result" not in self.model_fields_set:
            raise ValueError(
                f"`{self.decision}` needs `result`, the value to use as the call's result"
            )
        return self


class Decided(Lenient):
    """A decision as the run keeps it."""

    decision: Verdict
    """What was decided."""
    by: str | None = None
    """Who decided."""
    groups: list[str] = []
    """For which groups."""
    at: str
    """When."""
    reason: str | None = None
    """Why."""
    digest: str
    """Of the call as it was shown."""
    remember: bool = False
    """Whether it holds for every further call of the tool."""
    signed: bool = False
    """Whether it was signed: `by`, `groups` and `onBehalfOf` are then those of a verified token."""
    on_behalf_of: Represented = []
    """The people who were away, and whose substitute decided. Only where there are some."""

    @property
    def proof(self) -> str:
        """Return `signed`, or `unverified` if nothing proves the name; empty without a name."""
        return "signed" if self.signed else "unverified" if self.by else ""


class ApprovalClaim(Strict):
    """A notice that an approver looks at a pending call: others see it, and can still decide.

    It has no signature, as it gives no right. A later one replaces it.
    """

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The pending call."""
    by: Annotated[str, Field(min_length=1, max_length=200)]
    """Who looks at it."""
    groups: Annotated[list[str], Field(max_length=100)] = []
    """The groups that they decide for."""
    seconds: Annotated[int, Field(ge=0, le=MAX_CLAIM_SECONDS)]
    """For how long; 0 ends the claim of the same person."""


class Claimed(Lenient):
    """A claim as the run keeps it; it ends at that time without an event."""

    by: str
    """Who looks at the call."""
    until: str
    """Until when."""


def digest_of(
    tool: str, arguments: dict[str, Any], kind: Kind, round_: int, form: Any = None
) -> str:
    """Return the digest that a decision is bound to: of the tool, its arguments and its form.

    The digest differs for each unknown outcome of a call: a decision that arrives late, or twice,
    must not run the call again.
    """
    again = {} if kind == "call" else {"kind": kind, "round": round_}
    again |= {"form": form} if form else {}
    return sha256(canonical_json({"tool": tool, "arguments": arguments, **again}))


def nonce_of(run_id: str, call_id: str, round_: int) -> str:
    return sha256(canonical_json([run_id, call_id, round_]))


_IF_ANY = Field(exclude_if=lambda text: text is None)


class AppliedRule(Lenient):
    """A rule of a tool's list of approval rules, by which a call is pending."""

    tool: str
    """The tool."""
    number: int
    """Its place in the list, from 1; 0: none fits."""
    name: Annotated[str | None, _IF_ANY] = None
    """Its name, where it has one."""
    description: Annotated[str | None, _IF_ANY] = None
    """Which calls it is for, where that has words."""

    @property
    def key(self) -> str:
        """Return what no other rule, and no tool, is called."""
        return f"{self.tool} {self.number}"


class PendingApproval(Explicit):
    """A call that is pending approval, as people are shown it.

    `digest` is the SHA-256 of `{"arguments": …, "tool": …}` as JSON with sorted keys, no white
    space, in UTF-8; for other kinds than `call`, `kind` and `round` (how often it was asked) stand
    in it too, and so does `form`. `question` describes in a sentence what each decision does. The
    calls of a plan wait together: its `tool` is `plan`, its `arguments` are `{"calls": …}`, and a
    decision is on all.
    """

    left_out_if_empty = (
        *("instance", "nonce", "signed", "on_timeout", "filled_in", "form"),
        *("effect", "amount", "attempts", "rules", "claim", "run_title"),
    )

    call_id: str
    """What a decision names."""
    kind: Kind
    """Why it waits: for leave, for a person's answer, as a plan for all of its calls, with an
    unknown outcome, for a budget, or since the token of the run's principal has expired."""
    tool: str
    """The tool."""
    label: str
    """Its name for people."""
    arguments: dict[str, Any]
    """Its arguments."""
    reasoning: str | None = None
    """Why the model makes the call."""
    instance: str | None = None
    """Whose data it reads and writes. Only in a run with instances."""
    digest: str
    """Of tool and arguments."""
    nonce: str = ""
    """The `nonce` of a signed decision: SHA-256 of `[run id, call id, round]` as JSON,
    with the run id of the execution that asks. The log does not have it."""
    requested_at: str
    """Since when it waits."""
    expires_at: str
    """Until when it waits."""
    approvers: list[str] = []
    """The groups whose members may decide; none: anyone."""
    quorum: int = 1
    """How many people must approve."""
    decisions: list[Decided] = []
    """What was decided so far."""
    question: str = ""
    """What each decision would do, in a sentence."""
    signed: bool = False
    """Whether only a signed decision counts. Only where it is so."""
    filled_in: list[str] = []
    """The arguments that the model left out: defaults, and those of a hook. Only where there are
    some; of a plan, each with its call."""
    on_timeout: Literal["approve", "fail"] | None = None
    """What happens where no one decides: it is run, or the run fails. Only where it
    is no denial."""
    form: dict[str, Any] = {}
    """The schema of the answer that an MCP server requires to continue the call. Only of such."""
    effect: str = ""
    """What an approval does, from the `effect` of the tool: `refund of €249.00`. Only where it has
    one, and its values fit. The log does not have it."""
    amount: str = ""
    """The one amount of money in its arguments: `1200.00 EUR`. The log does not have it."""
    attempts: list[str] = []
    """The start of each attempt whose outcome is unknown. The log does not have it."""
    rules: list[AppliedRule] = []
    """The approval rules that apply to it, of tools that have a list: of a call, the first that
    fits, or each if that cannot be checked yet; of a plan, those of its calls."""
    claim: Claimed | None = None
    """Who looks at it, until when; it may be past. The log does not have it."""
    run_title: str = ""
    """The title of its run, by the `title` of the agent. The log does not have it."""

    @property
    def decided_by(self) -> list[str | None]:
        """Return who has decided on these arguments: an edit restarts the count."""
        return [one.by for one in self.decisions if one.digest == self.digest]

    @property
    def shared_budget(self) -> str:
        """Return the budget that runs share, if a request does not fit into it; else nothing."""
        own, _, name = self.label.partition("budget ")
        return name if self.kind == "budget" and not own and name != self.tool else ""

    def tool_names(self) -> list[str]:
        """Return the names of the tools of its calls, at most `MAX_TOOLS`; none for a budget."""
        if self.kind == "budget":
            return []
        names = [self.tool]
        if self.kind == "plan":
            names = [str(call.get("tool")) for call in shown_calls(self.arguments)]
        return [*dict.fromkeys(names)][:MAX_TOOLS]

    def excludes_principal(self, tools: Collection[ShownTool]) -> bool:
        """Return whether the policy of one of these tools of its calls has `notBy`."""
        policies = [tool.approval for tool in tools if not tool.approval_rules]
        for tool in tools:
            numbers = [rule.number for rule in self.rules if rule.tool == tool.name]
            policies += [tool.approval_rules[n - 1] if n else tool.approval for n in numbers]
        return any(policy.not_by for policy in policies)

    def find_round(self) -> int | None:
        """Return how often it was asked, which only the digest has.

        None where the arguments are cut: they do not have the digest.
        """
        rounds = range(1, 2 if self.kind == "call" else MAX_ROUNDS + 1)
        one, digest = (self.tool, self.arguments, self.kind), self.digest
        return next((each for each in rounds if digest_of(*one, each, self.form) == digest), None)


class Receipt(Explicit):
    """What `decide` answers: whether the call is decided, and how many decisions it still needs."""

    call_id: str
    """The call."""
    decision: Verdict
    """The decision that was taken down."""
    decided: bool
    """Whether the call is decided now."""
    missing: int = 0
    """How many more must approve."""


class TokenCheck(Lenient):
    """What `check_token` is asked: whether this is a good token, or nonce, for this purpose."""

    token: str
    purpose: Purpose
    since: str | None = None
    """The earliest `iat` that is accepted, if the token has one."""
    sent_at: str | None = None
    """When the decision was sent, where that was some time ago."""
    nonce: str = ""
    """Of the question that a decision is on."""
    runs: list[str] = []
    """The workflow ids that a principal's token may be for (`jti`)."""

    def age(self, now: datetime) -> timedelta:
        """Return for how long the token was not read."""
        return now - datetime.fromisoformat(self.sent_at) if self.sent_at else timedelta()


def _unverified_claims(token: str) -> dict[str, Any]:
    """Return the claims of a token that nothing proves yet, or raise `ValueError`."""
    try:
        part = token.split(".")[1]
        return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
    except (IndexError, TypeError, RecursionError) as error:
        raise ValueError(_NO_TOKEN) from error


class DecisionClaims(Lenient):
    """The claims of a token on a decision.

    Without `decision` it is for an approval or a denial of the very call that `digest` is of. What
    goes beyond has to be signed too: for `edit`, `digest` is of the tool with the arguments as they
    are sent; for `respond` and `happened`, `resultDigest` is of the result; and `remember`.
    """

    sub: Annotated[str, Field(min_length=1, max_length=200)]
    groups: Annotated[list[str], Field(max_length=100)] = []
    on_behalf_of: Represented = []
    digest: str
    nonce: str = ""
    """Of the question."""
    workflow_id: str
    exp: float
    """Until when it counts, in seconds since 1970."""
    iat: float | None = None
    """When it was issued: not before the call was asked about."""
    call_id: str | None = None
    """The call; unset, the first that it is used on."""
    decision: str | None = None
    result_digest: str | None = None
    """SHA-256 of the result, as canonical JSON."""
    remember: bool = False
    id: str = ""
    """By which it is known: the SHA-256 of what was signed. Not a claim; the check adds it."""

    @classmethod
    def unchecked(cls, token: str) -> Self:
        """Return the claims of a token without checking its signature, to reject early.

        Raises:
            ValueError: it is no such token.
        """
        try:
            return cls.read(_unverified_claims(token))
        except ValueError:
            raise ValueError(_NO_TOKEN) from None


class PrincipalClaims(Explicit):
    """The claims of a token on a principal."""

    left_out_if_empty = ("team",)

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """Who it is: `sub`."""
    scopes: list[str] = []
    """What they may do: `scopes`, or `scope`."""
    expires_at: AwareDatetime | None = None
    """Until when: `exp`."""
    team: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Their team, in the claim that the key set names."""


class PlannedCall(Explicit, extra="forbid", allow_inf_nan=False):
    """One call of a plan.

    Where a plan is edited, `id` is enough for a call that stays as it is. Only `arguments` and
    `bound` may be others than those that are shown.
    """

    left_out_if_empty = ("delegate", "bound")

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """The call."""
    tool: str | None = None
    """The tool."""
    label: str | None = None
    """Its name for people."""
    arguments: dict[str, Json] | None = None
    """Its arguments; a reference to a value that is not there yet is shown as it is."""
    reasoning: str | None = None
    """Why the model makes the call."""
    waits_for: list[str] | None = None
    """The calls that have to end before."""
    writes: str | None = None
    """Where its result is written, and behind `||` its error."""
    instance: str | None = None
    """Whose data it reads and writes, in a run with instances."""
    delegate: str | None = None
    """The agent that the call is delegated to, where it is; left out of what is shown where none
    does."""
    bound: Schema | None = None
    """In an edit, of a call with references to values that are not there yet: a schema of its
    arguments. The plan's approval holds for arguments that fit it."""


class Plan(Strict):
    """The `arguments` of a pending plan, and those with which it is edited.

    A call that is left out then is struck out of the plan.
    """

    calls: list[PlannedCall]
    """The calls, in the order in which the model made them."""

    def to_json(self) -> dict[str, Any]:
        return {"calls": [call.to_json() for call in self.calls]}


def shown_calls(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the calls of a plan as it is shown, which may be in part."""
    calls = arguments.get("calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            yield call


def brief_arguments(kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a question is about, where there is one line for it.

    Of a plan, the tool of each call.
    """
    if kind != "plan":
        return arguments
    return {call["id"]: call.get("tool") for call in shown_calls(arguments)}


def example_edit(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return an edit of a plan, and what it would do; both empty where no call of it is shown."""
    ids = [call["id"] for call in shown_calls(arguments)]
    if not ids:
        return "", ""
    *stays, other = ids[:2]
    entries = [json.dumps({"id": one}) for one in stays]
    entries.append(f'{{"id": {json.dumps(other)}, "arguments": {{…}}}}')
    edits = [
        *(f"{one} stays as it is" for one in stays),
        f"{other} has other arguments",
        *(["any other call is struck out"] if len(ids) > 2 else []),
    ]
    return f'{{"calls": [{", ".join(entries)}]}}', ", ".join(edits)


def no_such_call(name: str, ids: Iterable[str]) -> tuple[str, str]:
    """Return that a plan has no call of this name, and which it has.

    Ids are too much alike to guess which one is meant.
    """
    has = first_names([f"`{one}`" for one in ids], MAX_NAMES_TOLD)
    return f"{quote_value(name)} is no call of this plan", f"it has {has}"


class ReceivedSignals(Lenient):
    """Signals of one name in one execution.

    `digests` has the SHA-256 of each one's payload, by its number among the signals of this name
    after the event `after`. The activity returns the time of each that it finds, by that number.
    """

    run_id: str
    name: str
    after: int
    digests: dict[int, str]
