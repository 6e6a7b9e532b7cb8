"""Approvals: what a person is asked, and what they answer."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from holdfast.schemas.base import Json, Lenient, Strict
from holdfast.schemas.token import MAX_TOKEN_CHARACTERS

Kind = Literal["call", "reconcile", "plan", "budget"]
Verdict = Literal["approve", "deny", "edit", "respond", "happened", "did_not_happen", "give_up"]


class Decision(Strict):
    """One person's decision on one waiting call.

    For a call whose outcome is unknown (kind `reconcile`): `happened` (or `respond`) takes `result`
    as what it returned; `did_not_happen` (or `approve`, which then needs the `digest`) carries it
    out again; `give_up` (or `deny`) does not. For a plan: `approve` carries out all of it, `edit`
    takes `arguments` of the form in which they are shown, and strikes out the calls that are left
    out of them, `deny` carries out none. For a budget: `approve` grants the same amount again,
    `edit` sets `arguments`, `deny` ends the run.
    """

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The waiting call."""
    decision: Verdict
    """What is to become of it."""
    arguments: dict[str, Json] | None = None
    """For `edit`: all the arguments that the call is carried out with; of a plan, its `calls`."""
    result: Json = None
    """For `respond` and `happened`: the call's result."""
    reason: Annotated[str, Field(max_length=10_000)] | None = None
    """Why; after a denial the model reads it."""
    by: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who decides."""
    groups: Annotated[list[str], Field(max_length=100)] = []
    """The groups that they decide for."""
    digest: str | None = None
    """Decide only if the call is still the one with this digest."""
    remember: bool = False
    """Approve every further call of the tool in this run."""
    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARACTERS)] | None = None
    """A JWT that says who decides, and on what: `by` and `groups` are then taken from it."""

    def to_json(self) -> dict[str, Any]:
        """What was said, also where it is the default: a result may well be null."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

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
    """Whether it was signed: `by` and `groups` are then what a checked token says."""


class PendingApproval(Lenient):
    """A call that waits for people, as they are shown it.

    `digest` is the SHA-256 of `{"arguments": …, "tool": …}` as JSON with sorted keys, no white
    space, in UTF-8; for other kinds than `call`, `kind` and `round` (how often it was asked) stand
    in it too. `question` says in a sentence what each decision would do. The calls of a plan wait
    together: its `tool` is `plan`, its `arguments` are `{"calls": …}`, and a decision is on all.
    """

    call_id: str
    """What a decision names."""
    kind: Kind
    """Why it waits: for leave, as a plan for all of its calls, with an unknown outcome, or for want
    of budget."""
    tool: str
    """The tool that would be carried out."""
    label: str
    """Its name for people."""
    arguments: dict[str, Any]
    """What it would be carried out with."""
    reasoning: str | None = None
    """Why the model makes the call."""
    instance: str | None = None
    """Whose data it reads and writes. Only in a run with instances."""
    digest: str
    """Of tool and arguments."""
    requested_at: str
    """Since when it waits."""
    expires_at: str
    """Until when it waits."""
    approvers: list[str] = []
    """The groups whose members may decide; none: anybody."""
    quorum: int = 1
    """How many people must approve."""
    decisions: list[Decided] = []
    """What was decided so far."""
    question: str = ""
    """What each decision would do, in a sentence."""
    signed: bool = False
    """Whether only a signed decision counts. Only where it is so."""
    on_timeout: Literal["approve", "fail"] | None = None
    """What becomes of it where nobody decides: it is carried out, or the run fails. Only where it
    is no denial."""

    def to_json(self) -> dict[str, Any]:
        """Every field, whether or not it is at its default: people's screens read this; `instance`,
        `signed` and `onTimeout` where there is something to say."""
        said = ("instance", "signed", "on_timeout")
        without = {name for name in said if not getattr(self, name)}
        return self.model_dump(mode="json", by_alias=True, exclude=without)


class Receipt(Lenient):
    """What `decide` answers: whether the call is decided, and how many decisions it still needs."""

    call_id: str
    """The call."""
    decision: Verdict
    """The decision that was taken down."""
    decided: bool
    """Whether the call is decided now."""
    missing: int = 0
    """How many more must approve."""

    def to_json(self) -> dict[str, Any]:
        """Every field, whether or not it is at its default."""
        return self.model_dump(mode="json", by_alias=True)
