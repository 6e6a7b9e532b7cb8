"""Key sets: the issuers that a worker trusts, and for which tokens; and its encryption keys."""

from datetime import timedelta
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, RootModel, model_validator

from holdfast.schemas import base
from holdfast.schemas.decision import Purpose

MAX_LEEWAY = timedelta(minutes=10)
MAX_SETS = 100

Use = Literal["decisions", "principals", "inbox"]
KeyRight = Literal["start", "read", "message", "decide", "cancel"]
USES: dict[Purpose, Use] = {"decision": "decisions", "principal": "principals"}
KEY_RIGHTS: Final[frozenset[str]] = frozenset(get_args(KeyRight))
# In a `subject`: the `sub` of a token.
SUB: Final = "{sub}"
# The `aud` of tokens of sets without an audience of their own: a token is good for one use alone.
AUDIENCES: dict[Use, str] = {
    "decisions": "holdfast:decision",
    "principals": "holdfast:principal",
    "inbox": "holdfast:inbox",
}


def _small(leeway: timedelta) -> timedelta:
    if leeway > MAX_LEEWAY:
        raise ValueError(f"clocks differ by less; write at most {base.format_duration(MAX_LEEWAY)}")
    return leeway


class PersonClaim(base.Strict):
    """The claim that the token of a person has, and that of a program does not."""

    claim: Annotated[str, Field(min_length=1)]
    """The claim that a person's token has."""
    value: str | None = None
    """Its value, or one of its list (default: any)."""


class KeySet(base.OneOf):
    """Public keys, and the claims that a token signed by one of them must have."""

    one_of = ("file", "url")

    file: Annotated[str, Field(min_length=1)] | None = None
    """A file with the keys: a JWK set in JSON, or PEM. It is read again whenever it changes."""
    url: Annotated[
        str | None, Field(json_schema_extra={"pattern": "^https?://[^/]"}, max_length=2_000)
    ] = None
    """Where a JWK set is served: `https`, or `http` on this machine."""
    issuer: Annotated[str, Field(min_length=1)] | None = None
    """The `iss` that a token must have (default: any, or none)."""
    audience: Annotated[str, Field(min_length=1)] | None = None
    """The `aud` that a token must have (default: `holdfast:decision`, `holdfast:principal` or
    `holdfast:inbox`, by what it is for). A set that has its own is `for` one use."""
    subject: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The only signer with these keys; or, with `{sub}`, the names of the people of this issuer:
    `{sub}@partner` (default: the `sub` of the token; of another issuer than the first, `SUB @
    ISSUER`)."""
    team: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The claim that names a principal's team, for budgets of teams (default: none does)."""
    groups: Annotated[list[str], Field(max_length=100)] | None = None
    """The groups that decisions may be signed for with these keys (default: any)."""
    for_: Annotated[list[Use], Field(alias="for", min_length=1)] = [*AUDIENCES]
    """What its tokens are good for: signed decisions, principals of runs, programs at the inbox."""
    may: Annotated[list[KeyRight], Field(min_length=1)] | None = None
    """What programs with its tokens may do at the inbox and at `holdfast mcp`, as far as the
    inbox's own `permissions` allow it (default: all of it)."""
    person: PersonClaim | None = None
    """What makes the sender of a token a person, who decides in a trusted client of `holdfast mcp`
    (default: a token without a provider's mark of a program is a person's)."""
    leeway: Annotated[base.Duration, AfterValidator(_small)] = base.parse_duration("30s")
    """By how much the clocks of this worker and of the signer may differ."""
    refresh: base.Duration = base.parse_duration("10m")
    """How old keys from a `url` may get before they are fetched again."""
    keep: base.Duration = base.parse_duration("1d")
    """How long the last good keys are used while they cannot be read again."""

    @model_validator(mode="after")
    def _one_use(self) -> "KeySet":
        if self.may is not None and "inbox" not in self.for_:
            raise ValueError(
                "`may` limits the tokens of programs at the inbox; add `inbox` to `for`, or leave"
                " `may` out"
            )
        if SUB in (self.subject or "") and "decisions" in self.for_:
            raise ValueError(
                "`subject` with `{sub}` names principals and the inbox's people, and no signer; add"
                " `for: [principals]` or `[inbox]`"
            )
        if self.audience is not None and len(set(self.for_)) > 1:
            raise ValueError(
                "tokens of one `audience` are for one use; add `for: [decisions]`,"
                " `[principals]` or `[inbox]`, or leave `audience` out"
            )
        return self


class KeySets(RootModel[Annotated[dict[str, KeySet], Field(min_length=1, max_length=MAX_SETS)]]):
    """`keys.yaml`: key sets by name."""

    # What an editor checks the file with is no key set.
    model_config = ConfigDict(json_schema_extra={"properties": {"$schema": base.SCHEMA_URI}})

    @model_validator(mode="after")
    def _distinct(self) -> "KeySets":
        uses = {audience: use for use, audience in AUDIENCES.items()}
        for name, each in self.root.items():
            use = each.for_[0]
            if each.audience is not None and uses.setdefault(each.audience, use) != use:
                raise ValueError(
                    f"`{name}` is for {use}, and its `audience` {each.audience} belongs to another"
                    " use; write another"
                )
        return self


MAX_KEYS = 100
KEY_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class EncryptionKey(base.OneOf):
    """One key: 32 bytes, written in base64 or in hexadecimal where it is kept."""

    one_of = ("env", "file")

    id: Annotated[str, Field(pattern=KEY_ID_PATTERN)]
    """The key's name in payloads, where it is not encrypted."""
    env: base.Variable | None = None
    """The environment variable that holds the key; never the key."""
    file: Annotated[str | None, Field(min_length=1, max_length=4_000)] = None
    """The file that holds the key, seen from the folder of this one."""


class Encryption(base.SettingsFile):
    """`encryption.yaml`: the keys of a worker, and of the clients of its runs."""

    keys: Annotated[list[EncryptionKey], Field(min_length=1, max_length=MAX_KEYS)]
    """The first encrypts; every one decrypts."""
