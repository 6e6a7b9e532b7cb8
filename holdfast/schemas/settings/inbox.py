"""`inbox.yaml`: the address of the inbox, and how it identifies the approver."""

from datetime import timedelta
from ipaddress import ip_network
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from holdfast.schemas import names
from holdfast.schemas.base import Duration, SettingsFile, Strict, Variable
from holdfast.schemas.decision import MAX_CLAIM_SECONDS
from holdfast.schemas.settings.notify import SLACK_API, SlackAddress

MAX_NETWORKS = 100
MAX_MAPPED_GROUPS = 1_000
MAX_RULES = 100
DEFAULT_CLAIM: Final = timedelta(minutes=15)
# What `principals` of a rule calls the person's own name.
OWN: Final = "own"
_HEADER = r"^[A-Za-z0-9-]{1,100}$"
_ADDRESS = r"^https?://[^/?#\\@]+(/[A-Za-z0-9._~-]+)*/?$"


def _network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError("that is no network; write it as 10.1.0.0/16 or fd00::/8") from None
    return text


def _claim_time(found: timedelta) -> timedelta:
    if not timedelta(seconds=1) <= found <= timedelta(seconds=MAX_CLAIM_SECONDS):
        raise ValueError(f"write a time from 1s to {MAX_CLAIM_SECONDS // 3600}h")
    return found


Name = Annotated[str, Field(min_length=1, max_length=200)]
Address = Annotated[str, Field(pattern=_ADDRESS, max_length=300)]
"""An origin, and a path there: `https://intranet.example.com/holdfast/`."""


class Oidc(Strict):
    """A provider of OpenID Connect, with which people sign in."""

    issuer: Annotated[str, Field(pattern=r"^https?://[^/]", max_length=1_000)]
    """The provider, as it calls itself: `https`, or `http` on this machine."""
    ignore_issuer_slash: bool = False
    """Accept a metadata document and tokens of the issuer that differ in the slash at its end."""
    client_id: Annotated[str, Field(min_length=1, max_length=500)]
    """As what it knows the inbox."""
    client_secret_env: Variable | None = None
    """The environment variable that holds the inbox's secret there; never the secret. Without it,
    the inbox is a public client."""
    scopes: Annotated[list[Name], Field(max_length=50)] = ["openid", "profile", "email"]
    """What the provider is asked for; `openid` always."""
    name_claim: Name = "sub"
    """What of the id token is someone's name in every record. It is to be one that no one can
    choose for themselves, and no one else has."""
    groups_claim: Name = "groups"
    """What of the id token lists their groups."""
    groups: Annotated[dict[str, list[Name]], Field(max_length=MAX_MAPPED_GROUPS)] | None = None
    """For which groups of approvers the members of each of the provider's groups decide; those of
    no other count (default: each under its own name)."""
    allow: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    """Who may come in: members of one of these groups of approvers (default: everyone that the
    provider signs in)."""


class Proxy(Strict):
    """A proxy in front of the inbox, which signs people in and sends their names."""

    user_header: Annotated[str, Field(pattern=_HEADER)]
    """The header that holds someone's name."""
    groups_header: Annotated[str | None, Field(pattern=_HEADER)] = None
    """The header that holds their groups of approvers, with commas between them."""
    networks: Annotated[
        list[Annotated[str, AfterValidator(_network)]], Field(min_length=1, max_length=MAX_NETWORKS)
    ]
    """Where the proxy is: the headers count from these addresses alone."""


class Programs(Strict):
    """What programs may do that start runs, beside naming an agent or a tool of the worker."""

    definitions: bool = False
    """Define an agent or a tool in a request: its own rules can run calls without an approval."""
    principals: bool = False
    """Name the principal that a run acts for, and what they may do (default: it acts for its
    caller)."""


Right = Literal["read", "decide", "cancel", "message"]


class PermissionRule(Strict):
    """The rights of some people on some runs; a person has those of all rules that match."""

    groups: Annotated[list[Name], Field(min_length=1, max_length=MAX_RULES)] | None = None
    """The groups of approvers that have these rights (default: everyone who may sign in)."""
    agents: Annotated[list[Name], Field(min_length=1, max_length=MAX_RULES)] | None = None
    """The agents whose runs it is about (default: every run, single calls too)."""
    principals: Annotated[list[Name], Field(min_length=1, max_length=MAX_RULES)] | None = None
    """The principals of the runs; `own` is the person's own name (default: every run)."""
    may: Annotated[list[Right], Field(min_length=1)]
    """The rights: to read the run and its log, to decide, to cancel it, to send it messages."""


class SlackUser(Strict):
    """A person who decides in Slack."""

    name: Name
    """Their name in every record."""
    groups: Annotated[list[Name], Field(max_length=100)] = []
    """The groups of approvers that they decide for."""


class SlackSettings(Strict):
    """A Slack app; the workers post its messages (`tokenEnv` in notify.yaml)."""

    signing_secret_env: Variable
    """The environment variable that holds the app's signing secret."""
    token_env: Variable
    """The environment variable that holds its bot token."""
    team: Annotated[str, Field(pattern="^T[A-Z0-9]{2,50}$")]
    """The id of the workspace."""
    app: Annotated[str, Field(pattern="^A[A-Z0-9]{2,50}$")]
    """The id of the app."""
    users: Annotated[dict[Name, SlackUser], Field(max_length=10_000)]
    """The people by their Slack ids; others cannot decide there."""
    api: SlackAddress = SLACK_API
    """The address of Slack's Web API."""


class Organization(Strict):
    """The name and the looks of the inbox, on every page."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    """The name beside the logo, and in the title of each page."""
    logo: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    """A PNG, SVG or WebP file of at most 100 KB, seen from the folder of this one."""
    color: Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$")] | None = None
    """The color of the main buttons, as `#1d5bd8`; their text is white or black."""


class InboxSettings(SettingsFile):
    """`inbox.yaml`: without `oidc` and `proxy`, people sign in by a link."""

    url: Address | None = None
    """Where people find the inbox: the https address of the proxy in front of it, and a path."""
    temporal_ui: Address | None = None
    """Where Temporal's own UI is, to which each run is linked."""
    organization: Organization | None = None
    """Whose inbox it is."""
    oidc: Oidc | None = None
    """People sign in with a provider of OpenID Connect."""
    proxy: Proxy | None = None
    """A proxy signs people in."""
    tokens: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    """The keys that programs' tokens are checked with: a file such as `keys.yaml`, seen from the
    folder of this one, or an address."""

    permissions: Annotated[list[PermissionRule], Field(max_length=MAX_RULES)] | None = None
    """Who may read, decide, cancel and send messages (default: everyone everything)."""
    claim_for: Annotated[Duration, AfterValidator(_claim_time)] = DEFAULT_CLAIM
    """When the claim of an approver on a pending call ends by itself."""
    task_queue: Name = names.TASK_QUEUE
    """The task queue of the workers that keep when people are away."""
    slack: SlackSettings | None = None
    """A Slack app, in which people decide by buttons."""
    programs: Programs = Programs()
    """What programs may do."""
    openapi: Literal["signed-in", "public"] = "signed-in"
    """Who may read `/openapi.json`: who is signed in or has a token, or everyone."""

    @model_validator(mode="after")
    def _one_way(self) -> "InboxSettings":
        if self.oidc is not None and self.proxy is not None:
            raise ValueError("`oidc` and `proxy` exclude each other; keep one of them")
        return self
