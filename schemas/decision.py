"""Approvals: what a person is asked, and what they answer."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from schemas.base import Json, Lenient, Strict

Kind = Literal["call", "reconcile", "budget"]
Verdict = Literal["approve", "deny", "edit", "respond", "happened", "did_not_happen", "give_up"]


class Decision(Strict):
    """One person's decision on one waiting call.

    For a call whose outcome is unknown (kind `reconcile`): `happened` (or `respond`) takes `result`
    as what it returned; `did_not_happen` (or `approve`, which then needs the `digest`) carries it
    out again; `give_up` (or `deny`) does not. For a budget: `approve` grants the same amount again,
    `edit` sets `arguments`, `deny` ends the run.
    """

    call_id: Annotated[str, Field(min_length=1, max_length=200)]
    decision: Verdict
    arguments: dict[str, Json] | None = None
    result: Json = None
    reason: Annotated[str, Field(max_length=10_000)] | None = None
    by: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    groups: Annotated[list[str], Field(max_length=100)] = []
    digest: str | None = None
    remember: bool = False

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
    by: str | None = None
    groups: list[str] = []
    at: str
    reason: str | None = None
    digest: str
    remember: bool = False


class Waiting(Lenient):
    """A call that waits for people, as they are shown it.

    `digest` is the SHA-256 of `{"arguments": …, "tool": …}` as JSON with sorted keys, no white
    space, in UTF-8; for other kinds than `call`, `kind` and `round` (how often it was asked) stand
    in it too. `question` says in one sentence what each decision would do.
    """

    call_id: str
    kind: Kind
    tool: str
    label: str
    arguments: dict[str, Any]
    reasoning: str | None = None
    digest: str
    requested_at: str
    expires_at: str
    approvers: list[str] = []
    quorum: int = 1
    decisions: list[Decided] = []
    question: str = ""

    def to_json(self) -> dict[str, Any]:
        """Every field, whether or not it is at its default: people's screens read this."""
        return self.model_dump(mode="json", by_alias=True)


class Receipt(Lenient):
    """What `decide` answers: whether the call is decided, and how many decisions it still needs."""

    call_id: str
    decision: Verdict
    decided: bool
    missing: int = 0

    def to_json(self) -> dict[str, Any]:
        """Every field, whether or not it is at its default."""
        return self.model_dump(mode="json", by_alias=True)
