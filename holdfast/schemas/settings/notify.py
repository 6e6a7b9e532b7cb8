"""The worker's own configuration of the recipients and contents of notifications."""

from email.errors import HeaderParseError
from email.headerregistry import Address
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from holdfast.schemas.base import Lenient, OneOf, SettingsFile, Strict, Variable
from holdfast.schemas.decision import Decided, PendingApproval
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.phrases import NAME_PATTERN, quote_value

NewsKind = Literal["asked", "reminder", "expired", "decided", "threshold"]
EVERY_KIND: list[NewsKind] = [*get_args(NewsKind)]
Content = Literal["full", "brief", "none"]
Tls = Literal["starttls", "tls", "none"]
Lapse = Literal["deny", "fail", "approve", "give_up", "end"]
_Name = Annotated[str, Field(pattern=NAME_PATTERN)]
MAX_CHANNELS = 20
MAX_ADDRESSES = 50
MAX_GROUPS = 100
# What a notification shows of a value.
VALUE_CHARACTERS = 300

# For editors: what is checked when the worker starts.
_ADDRESS: JsonValue = "^https?://[^/@?#]+[^?#]*$"


def _mail_address(text: str) -> str:
    try:
        # Text beside an address (a line break, a second one) is an error.
        address = Address(addr_spec=text)
        is_good = bool(address.username and address.domain) and text.isascii()
    except (HeaderParseError, ValueError, IndexError):
        is_good = False
    if not is_good:
        raise ValueError(f"{quote_value(text)} is no mail address; write it like desk@acme.org")
    return text


_MailTo = Annotated[
    str,
    AfterValidator(_mail_address),
    Field(min_length=3, max_length=320, json_schema_extra={"pattern": r"^[^@\s]+@[^@\s]+$"}),
]
_MailList = Annotated[list[_MailTo], Field(max_length=MAX_ADDRESSES)]


SLACK_API = "https://slack.com/api"
# `https`, or `http` on this machine.
SlackAddress = Annotated[str, Field(pattern=r"^(https://|http://127\.0\.0\.1:)[^@?#]*[^/@?#]$")]


class LinkPerson(Strict):
    """The person in whose name a link decides."""

    by: Annotated[str, Field(min_length=1, max_length=200)]
    """Their name in every record."""
    groups: Annotated[list[str], Field(max_length=MAX_GROUPS)] = []
    """The groups of approvers that they decide for."""


class Webhook(OneOf):
    """A program that is notified over HTTP, signed as Standard Webhooks has it."""

    one_of = ("url", "url_env")

    url: Annotated[
        str | None, Field(json_schema_extra={"pattern": "^https?://[^/@]"}, max_length=2_000)
    ] = None
    """Where it listens."""
    url_env: Variable | None = None
    """The environment variable that holds where it listens, where that is a secret."""
    secret_env: Variable | None = None
    """The environment variable that holds the secret it knows us by: `whsec_…`; while it is
    changed, the new one and the old one, with a space between. Only Teams does without."""
    format: Literal["json", "teams"] = "json"
    """What it receives: the news as JSON, or an Adaptive Card for a workflow of Microsoft Teams."""
    links: LinkPerson | None = None
    """Link to a page that decides in this person's name, without signing in."""

    @model_validator(mode="after")
    def _is_known(self) -> "Webhook":
        if self.secret_env is None and self.format == "json":
            raise ValueError("`secretEnv` is missing; add it")
        return self


class Slack(OneOf):
    """A channel of Slack: an incoming webhook, also of a compatible server, or a Slack app."""

    one_of = ("url_env", "token_env")

    url_env: Variable | None = None
    """The environment variable that holds a webhook's address: anyone who has it may post there."""
    token_env: Variable | None = None
    """The environment variable that holds the bot token of an app. With `content: full`, people
    approve and deny by buttons; each message is updated when its request is decided or expires."""
    channel: Annotated[str | None, Field(pattern=r"^[CDG][A-Z0-9]{2,50}$")] = None
    """With `tokenEnv`: the id of the channel that the app posts to."""
    api: SlackAddress = SLACK_API
    """With `tokenEnv`: the address of Slack's Web API."""

    @model_validator(mode="after")
    def _complete(self) -> "Slack":
        if (self.token_env is None) != (self.channel is None):
            raise ValueError("`tokenEnv` and `channel` go together; write both, or neither")
        return self


_SECURED: dict[str, JsonValue] = {
    "anyOf": [{"required": ["to"]}, {"required": ["toGroups"]}],
    "dependentRequired": {"username": ["passwordEnv"], "passwordEnv": ["username"]},
    "if": {"properties": {"tls": {"const": "none"}}, "required": ["tls"]},
    "then": {
        "properties": {
            "host": {
                "description": "A server on this machine.",
                "pattern": r"^(localhost|127\.[0-9.]+|::1)$",
            }
        }
    },
}


class Mail(Strict):
    """A mail server, and who gets the messages."""

    model_config = ConfigDict(json_schema_extra=_SECURED)

    host: Annotated[str, Field(min_length=1, max_length=255)]
    """The server."""
    port: Annotated[int | None, Field(ge=1, le=65_535)] = None
    """Its port (default: 587, with `tls: tls` 465, with `tls: none` 25)."""
    tls: Tls = "starttls"
    """How the connection is secured; `none` only with a server on this machine."""
    username: Annotated[str, Field(min_length=1, max_length=320)] | None = None
    """Who logs in (default: no one)."""
    password_env: Variable | None = None
    """The environment variable that holds the password."""
    from_: Annotated[_MailTo, Field(alias="from")]
    """The sender of the messages."""
    to: _MailList = []
    """Who gets every message of the channel."""
    to_groups: Annotated[dict[str, _MailList], Field(max_length=MAX_GROUPS)] = {}
    """Further recipients of the approvals of this group; those without a group reach all."""
    links: bool = False
    """Send each address a link of its own, to a page that decides in its name, for its groups in
    `toGroups`, without signing in."""

    @model_validator(mode="after")
    def _complete(self) -> "Mail":
        if not self.to and not any(self.to_groups.values()):
            raise ValueError("no recipients; add them to `to` or `toGroups`")
        if (self.username is None) != (self.password_env is None):
            raise ValueError("`username` and `passwordEnv` go together; write both, or neither")
        return self


class Channel(OneOf):
    """One channel to notify people, and the events that it sends."""

    one_of = ("webhook", "mail", "slack")

    webhook: Webhook | None = None
    """A program, over HTTP."""
    mail: Mail | None = None
    """People, by mail."""
    slack: Slack | None = None
    """People, in a channel of Slack or of what is compatible with it."""
    groups: Annotated[list[str], Field(max_length=MAX_GROUPS)] = []
    """Send only the approvals of these groups, or without groups (default: all)."""
    on: Annotated[list[NewsKind], Field(min_length=1)] = EVERY_KIND
    """What is sent: that a call is pending, that it still is, that no one decided in time, that
    someone did, that a budget has come to the agent's `onThreshold`."""
    content: Content = "brief"
    """How much is sent: `full` with the arguments and the model's reasons, `brief` without,
    `none` nothing but that there is something, and where."""


class Notifiers(SettingsFile):
    """`notify.yaml`: where the inbox is, and the channels by name."""

    inbox: Annotated[str, Field(json_schema_extra={"pattern": _ADDRESS}, max_length=2_000)]
    """Where people reach the inbox: what links begin with."""
    channels: Annotated[dict[_Name, Channel], Field(min_length=1, max_length=MAX_CHANNELS)]
    """The channels, each under a name of your own."""


class Listener(Lenient):
    """What a run knows of a channel."""

    name: str
    groups: list[str] = []
    on: list[NewsKind] = []
    to_groups: list[str] = []
    full: bool = False


class PostedMessage(Lenient):
    """A message of a Slack app about a question, which later news of it update."""

    channel: str
    """The channel's id."""
    ts: str
    """The message's id in it."""


class News(Lenient):
    """One notification about one question.

    It is sent twice where it is not known whether it arrived: `id` is the same then.
    """

    id: str
    """Of this news; who has had one with it already may drop it."""
    about: str
    """Of the question: the same for all notifications about it."""
    kind: NewsKind
    """What happened: it was asked, asked again, no one decided in time, or someone did; or a budget
    is used to its threshold, and there is nothing to decide."""
    at: str
    """When."""
    reminder: int = 0
    """How often it has been asked again."""
    workflow_id: str
    """The run."""
    agent: str | None = None
    """Whose run it is; none: it is a single call."""
    principal: str | None = None
    """On whose behalf it acts."""
    waiting: PendingApproval
    """The call, as it is shown; what is long is cut."""
    shown: list[tuple[str, str]] = []
    """Its arguments as the inbox shows them, by title: `["Amount", "€249.00"]`; an object of a
    list, an item of a loop and a call of a plan are one each. Only with the content `full`."""
    forwarded: list[str] = []
    """The groups that it is forwarded to, where that is the news."""
    absences: list[Absence] = []
    """The people of its groups who are away now; their substitutes may be no approvers."""
    lapse: Lapse
    """What becomes of it where no one decides: it is denied, the run fails, it is run, it
    is given up, the run ends."""
    decided: Decided | None = None
    """The decision that ended the wait, where one did."""
    link: str | None = None
    """Where it is decided, or where its outcome is shown."""
    posted: PostedMessage | None = None
    """The message about it that a Slack app has posted; only in news for its channel."""

    @property
    def is_over(self) -> bool:
        return self.kind in ("expired", "decided", "threshold")

    def to_json(self) -> dict[str, Any]:
        """Return the news, and the call as the query `approvals` shows it."""
        return {**super().to_json(), "waiting": self.waiting.to_json()}
