"""Notifiers that do not load: channels without a way, in the open, and to nobody."""

from tests.contract.wrong_inputs.loading import ARGUMENTS, Wrong


def notifiers(name: str, desk: str, *says: str, editor: bool, **environment: str) -> Wrong:
    """A file with one channel, `desk`, which begins on its line 3; lines begin behind its name."""
    text = f"inbox: https://inbox.example\nchannels:\n  desk:\n{desk}"
    lines = [f"notify.yaml:{line}" for line in says]
    arguments = (*ARGUMENTS, "--notifiers", "notify.yaml")
    return Wrong(name, {"notify.yaml": text}, lines, editor, arguments, environment)


def webhook(said: str) -> str:
    return f"    webhook:\n      url: https://ops.example/hook\n      {said}\n"


def mail(said: str) -> str:
    return f"    mail:\n      host: mail.example\n      from: desk@acme.org\n      {said}\n"


NOTIFIERS = [
    notifiers(
        "a channel without a way",
        "    on: [asked]\n",
        "3: `channels.desk`: a channel has one way; write one of `webhook`, `mail` and `slack`",
        editor=True,
    ),
    notifiers(
        "a channel with two ways",
        "    slack: {urlEnv: SLACK_URL}\n    mail: {host: h, from: a@b.org, to: [c@b.org]}\n",
        "3: `channels.desk`: a channel has one way; write one of `webhook`, `mail` and `slack`",
        editor=True,
    ),
    notifiers(
        "a channel for what never happens",
        "    slack: {urlEnv: SLACK_URL}\n    on: [asked, denied]\n",
        "5: `channels.desk.on[1]`: `denied` does not fit; did you mean `decided`?",
        editor=True,
    ),
    notifiers(
        "a secret in the place of its name",
        webhook("secretEnv: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=="),
        "6: `channels.desk.webhook.secretEnv`: this names no environment variable; write the name "
        "of the environment variable that holds it, never the value",
        editor=True,
    ),
    notifiers(
        "a secret that nobody can sign with",
        webhook("secretEnv: HOOK_SECRET"),
        "6: `channels.desk.webhook.secretEnv`: the variable HOOK_SECRET holds no secret to sign "
        "with; it begins with `whsec_`, and goes on in base64",
        editor=False,
        HOOK_SECRET="hush hush 1",
    ),
    notifiers(
        "an address of Slack that goes in the open",
        "    slack:\n      urlEnv: SLACK_URL\n",
        "5: `channels.desk.slack.urlEnv`: the variable SLACK_URL holds no address; write https://… "
        "in it",
        editor=False,
        SLACK_URL="http://hooks.slack.example/services/T0/B0/x",
    ),
    notifiers(
        "mail to nobody",
        mail("tls: tls"),
        "4: `channels.desk.mail`: nobody gets the messages; say who, in `to` or `toGroups`",
        editor=True,
    ),
    notifiers(
        "mail in the open",
        mail("to: [ada@acme.org]\n      tls: none"),
        "8: `channels.desk.mail.tls`: mail would go in the open; write `tls: starttls` or `tls: "
        "tls`; `none` is for a server on this machine",
        editor=True,
    ),
    notifiers(
        "mail to what is no address",
        mail("to: [ada@acme.org, ada]"),
        "7: `channels.desk.mail.to[1]`: `ada` is no mail address; write it like desk@acme.org",
        editor=True,
    ),
    notifiers(
        "a login without a password",
        mail("to: [ada@acme.org]\n      username: desk"),
        "4: `channels.desk.mail`: `username` and `passwordEnv` go together; write both, or neither",
        editor=True,
    ),
    notifiers(
        "a field of a channel misspelt",
        "    slack: {urlEnv: SLACK_URL}\n    group: [finance]\n",
        "5: unknown field `group`; did you mean `groups`?",
        editor=True,
    ),
]
NOTIFIER_FILES = [
    Wrong(
        "notifiers without a way back",
        {"notify.yaml": "inbox: inbox.example\nchannels: {desk: {slack: {urlEnv: SLACK_URL}}}\n"},
        ["notify.yaml:1: `inbox`: `inbox.example` is no web address; write https://…"],
        arguments=("--notifiers", "notify.yaml"),
    ),
    Wrong(
        "notifiers that are not there",
        {},
        ["notify.yml: there is no such file; check the path"],
        arguments=[*ARGUMENTS, "--notifiers", "notify.yml"],
    ),
]
