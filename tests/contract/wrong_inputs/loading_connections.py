"""Endpoints, keys and notification channels that do not load."""

from collections.abc import Sequence

from tests.contract.wrong_inputs.loading import ARGUMENTS, WrongInput, endpoints

ENDPOINTS = [
    endpoints(
        "a provider that is unknown",
        "m: {provider: telepathy, baseUrl: 'http://localhost:8080/v1'}\n",
        "1: `m.provider`: `telepathy` does not fit; write `openai`, `openai-responses`, "
        "`anthropic`, `ollama`, `gemini`, `bedrock` or `script`",
    ),
    endpoints(
        "no address", "m: {provider: openai}\n", "1: `m`: provider `openai` needs `baseUrl`; add it"
    ),
    endpoints(
        "an address without its scheme",
        "m: {provider: openai, baseUrl: 'localhost:8080/v1'}\n",
        "1: `m.baseUrl`: this is no address; write it whole, like "
        "https://api.openai.com/v1 or http://localhost:8080/v1",
    ),
    endpoints(
        "a script without its file",
        "m: {provider: script}\n",
        "1: `m`: provider `script` needs `file`; add it: its answers in YAML or JSON",
    ),
    endpoints(
        "a key beside an identity",
        "m: {provider: openai, baseUrl: 'http://localhost', apiKeyEnv: K, auth: {type: aws}}\n",
        "1: `m`: `auth` and `apiKeyEnv` exclude each other; remove one of them",
    ),
    endpoints(
        "an identity for a script",
        "m: {provider: script, file: script.yaml, auth: {type: aws}}\n",
        "1: `m`: `auth` and `provider: script` exclude each other; remove one of them",
    ),
    endpoints(
        "a key in place of its variable",
        "m: {provider: openai, baseUrl: 'http://localhost', apiKeyEnv: sk-proj-4711}\n",
        "1: `m.apiKeyEnv`: this names no environment variable; write the name of the one "
        "that holds it, never the value",
    ),
    endpoints(
        "a key",
        "m: {provider: openai, baseUrl: 'http://localhost', apiKey: sk-proj-4711}\n",
        "1: unknown field `apiKey`; did you mean `apiKeyEnv`?",
    ),
    endpoints(
        "a key in a list of headers",
        "m: {provider: openai, baseUrl: 'http://localhost', headers: ['X-Key: sk-proj-4711']}\n",
        "1: `m.headers`: the value does not fit; write an object",
    ),
    endpoints(
        "a password in an address",
        "m: {provider: openai, baseUrl: 'https://ann:4711@gateway.acme.org/v1'}\n",
        "1: `m.baseUrl`: the address holds a user's name or password; remove the part "
        "before the `@`; `headersEnv: {authorization: VARIABLE}` has it sent, as `Basic …`, "
        "from the environment",
    ),
    endpoints(
        "a header's value in place of its variable",
        "m: {provider: openai, baseUrl: 'http://localhost', headersEnv: {x-key: sk-proj-4711}}\n",
        "1: `m.headersEnv.x-key`: this names no environment variable; write the name of the one "
        "that holds it, never the value",
    ),
    endpoints(
        "one endpoint without a name",
        "provider: openai\nbaseUrl: http://localhost\n",
        "1: endpoints are listed by name; write each under a name of your own, `NAME: "
        "{provider: …}`, and let agents name it",
    ),
]


PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n"


def _row(
    name: str, file: str, text: str, *says: str, editor: bool | None, options: Sequence[str] = ()
) -> WrongInput:
    lines = [f"{file}:{line}" for line in says]
    return WrongInput(name, {file: text}, lines, editor, (*ARGUMENTS, "--keys", file, *options))


def keys(name: str, text: str, *says: str, editor: bool = True) -> WrongInput:
    """The file that names key sets; the lines begin behind its name."""
    return _row(name, "keys.yaml", text, *says, editor=editor)


def key_file(name: str, file: str, text: str, *says: str) -> WrongInput:
    """A file with keys."""
    return _row(name, file, text, *says, editor=None)


KEYS = [
    keys(
        "a key set without keys",
        "people: {issuer: acme}\n",
        "1: `people`: `file` or `url` is missing; add one of them",
    ),
    keys(
        "a key set in two places",
        "people: {file: a.json, url: 'https://id.example/jwks.json'}\n",
        "1: `people`: `file` and `url` exclude each other; keep one of them",
    ),
    keys(
        "a key set from anybody on the way",
        "people:\n  url: http://id.example/jwks.json\n",
        "2: `people.url`: data sent by `http` can be changed in transit; write https://…",
        editor=False,
    ),
    keys(
        "a leeway for clocks that are not checked",
        "people:\n  url: https://id.example/jwks.json\n  leeway: 1h\n",
        "3: `people.leeway`: clocks differ by less; write at most 10m",
        editor=False,
    ),
]
KEY_FILES = [
    key_file(
        "a key set whose file is not there",
        "keys.yaml",
        "people:\n  file: people.json\n",
        "2: `people.file`: there is no file `people.json`; write its path as seen from the folder "
        "of this file",
    ),
    key_file(
        "a private key",
        "key.pem",
        PEM,
        "1: this is a private key; write its public key here; replace the key,"
        " since it is no longer secret",
    ),
    key_file(
        "a shared secret",
        "keys.json",
        '{"keys": [\n  {"kty": "oct", "k": "c2VjcmV0"}\n]}\n',
        "2: `keys[0]`: this is a shared secret (kty `oct`); take it out, and have the signer "
        "use a key pair: Ed25519 or RSA",
    ),
    WrongInput(
        "tokens wanted of everybody, and nothing to check them with",
        {},
        [
            "--principal-tokens: there are no keys to check them with; name some with `--keys`, of "
            "which a set is for `principals`",
        ],
        arguments=[*ARGUMENTS, "--principal-tokens"],
    ),
    WrongInput(
        "keys that are not there",
        {},
        ["keys.yml: there is no such file; check the path"],
        arguments=["--keys", "keys.yml"],
    ),
]


def notifiers(name: str, desk: str, *says: str, editor: bool, **environment: str) -> WrongInput:
    """A file with one channel, `desk`, which begins on its line 3; lines begin behind its name."""
    text = f"inbox: https://inbox.example\nchannels:\n  desk:\n{desk}"
    lines = [f"notify.yaml:{line}" for line in says]
    arguments = (*ARGUMENTS, "--notifiers", "notify.yaml")
    return WrongInput(name, {"notify.yaml": text}, lines, editor, arguments, environment)


def webhook(said: str) -> str:
    return f"    webhook:\n      url: https://ops.example/hook\n      {said}\n"


def mail(said: str) -> str:
    return f"    mail:\n      host: mail.example\n      from: desk@acme.org\n      {said}\n"


NOTIFIERS = [
    notifiers(
        "a channel without a way",
        "    on: [asked]\n",
        "3: `channels.desk`: `webhook` or `mail` or `slack` is missing; add one of them",
        editor=True,
    ),
    notifiers(
        "a secret in the place of its name",
        webhook("secretEnv: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=="),
        "6: `channels.desk.webhook.secretEnv`: this names no environment variable; write the name "
        "of the one that holds it, never the value",
        editor=True,
    ),
    notifiers(
        "a secret that no one can sign with",
        webhook("secretEnv: HOOK_SECRET"),
        "6: `channels.desk.webhook.secretEnv`: the variable HOOK_SECRET holds no secret to sign "
        "with; it begins with `whsec_`, and continues in base64",
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
        "mail to no one",
        mail("tls: tls"),
        "4: `channels.desk.mail`: no recipients; add them to `to` or `toGroups`",
        editor=True,
    ),
    notifiers(
        "mail in the open",
        mail("to: [ada@acme.org]\n      tls: none"),
        "8: `channels.desk.mail.tls`: mail would be sent unencrypted; write `tls: starttls` or"
        " `tls: tls`; `none` is for a server on this machine",
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
]
NOTIFIER_FILES = [
    WrongInput(
        "notifiers without a way back",
        {"notify.yaml": "inbox: inbox.example\nchannels: {desk: {slack: {urlEnv: SLACK_URL}}}\n"},
        ["notify.yaml:1: `inbox`: `inbox.example` is no web address; write https://…"],
        arguments=("--notifiers", "notify.yaml"),
    ),
    WrongInput(
        "notifiers that are not there",
        {},
        ["notify.yml: there is no such file; check the path"],
        arguments=[*ARGUMENTS, "--notifiers", "notify.yml"],
    ),
]
