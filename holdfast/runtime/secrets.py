"""The secrets of the worker, and their removal from texts.

Keys are read where they are used and are stored nowhere. But a server may repeat the key that it
received, and a tool may raise an error with values of the environment. So everything that leaves
the worker (results, errors and heartbeats of activities, and the log) is searched for the known
secrets: the values of the variables that the settings name for secrets or that have the name of a
secret, and the passwords in addresses.

A text is changed only if it holds a secret. Short and plain values are not searched for: removing
`ollama` or `password` from every text would garble it.
"""

import base64
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from holdfast.validation.problems import FixableError

REPLACED = "[secret]"
MIN_SECRET_CHARACTERS = 8
# Of a secret that two programs share.
MIN_SHARED_CHARACTERS = 16
HOW_TO_SET = (
    f"set it to a text of at least {MIN_SHARED_CHARACTERS} characters: openssl rand -hex 32"
)
# Even words longer than this are a secret: several words make a passphrase.
MIN_PLAIN_CHARACTERS = 20
MAX_SECRET_CHARACTERS = 10_000
MAX_SECRETS = 200
# Of a key with several lines (PEM), each line of this length is a secret by itself.
_MIN_LINE_CHARACTERS = 32

_SECRET_NOUN = r".*(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?"
_SECRET_WORD = re.compile(rf"{_SECRET_NOUN}|PASS|AUTH|AUTHORIZATION|PAT|COOKIE|SIG|SIGNATURE")
# Even an address is a secret under such a name: that of a webhook. `AUTH` may be an issuer's.
_SECRET_NAME = re.compile(rf"{_SECRET_NOUN}[_\d]*", re.IGNORECASE)
# A name that ends in one of these is the name of something that is not secret itself.
_OPEN_WORD = re.compile(
    r"PATH|FILE|DIR|FOLDER|SOCK|ID|IDS|NAME|URL|URI|HOST|PORT|TYPE|MODE|ENV|TTL|TIMEOUT|LENGTH"
    r"|ALGORITHM|VERSION|SCOPE|SCOPES|PUBLIC"
)
# The values of these variables are addresses, files and switches.
_OWN_SETTINGS = frozenset({"HOLDFAST_KEYS", "HOLDFAST_PRINCIPAL_TOKENS"})
_NUMBER = re.compile(r"[-+.\d\seE]+")
# No path ends in the padding of base64.
_PATH = re.compile(r"(~\w*|\.\.?)?/[\w./@:,()+=~ -]*(?<!=)")
# So many letters of both cases and digits are a key, which may begin as a path does.
_RANDOM = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{12}"
)
# Thirty-two bytes, as an encryption key is written, whatever the name of its variable.
_KEY = re.compile(r"[0-9A-Fa-f]{64}|[A-Za-z0-9+/_-]{43}=?")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^/\s@'\"<>]+@")

logger = logging.getLogger("holdfast")


def shared_secret(variable: str, least: int = MIN_SHARED_CHARACTERS) -> str:
    """Return the secret that programs share in a variable; empty where it is not set.

    Raises:
        FixableError: it cannot be one; the message does not repeat it.
    """
    secret = os.environ.get(variable, "").strip()
    if re.fullmatch(rf"[!-~]{{{least},}}|", secret):
        return secret
    reason = "it has other characters than a header can carry"
    if len(secret) < least:
        reason = f"it has fewer than {least} characters"
    fix = f"set it to a text of at least {least} characters: openssl rand -hex 32"
    raise FixableError(f"the secret in the variable {variable} does not fit: {reason}", fix)


class Secrets:
    """The secrets of one worker, each in every form in which it may be written."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: list[str] = []
        self._forms: tuple[str, ...] = ()
        self._written: tuple[bytes, ...] = ()
        self._by_beginning: dict[str, list[str]] = {}
        self.learn(values)

    def learn(self, values: Iterable[str], forgotten: Iterable[str] = ()) -> None:
        """Add values, except for short and plain ones, in place of those to be forgotten."""
        parts = [part for value in values for part in _parts(value)]
        gone = {part for value in forgotten for part in _parts(value)}.difference(parts)
        kept = (each for each in self._values if each not in gone)
        # The newest first, which are in use.
        found = list(dict.fromkeys([*parts, *kept]))
        if len(found) > MAX_SECRETS:
            logger.warning(
                "%s secrets are known, and %s removed from texts", len(found), MAX_SECRETS
            )
        self._values = found[:MAX_SECRETS]
        forms = {form for value in self._values for form in _forms(value)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        written = {each for form in self._forms for each in _written(form)}
        self._written = tuple(sorted(written, key=len, reverse=True))
        beginnings = {form[0]: [each for each in forms if each[0] == form[0]] for form in forms}
        self._by_beginning = beginnings

    def clean(self, text: str) -> str:
        """Return the text without the secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, REPLACED)
        return text

    def clean_for_operator(self, text: str) -> str:
        """Return the text without the secrets, and without passwords in addresses."""
        return _USER_OF_ADDRESS.sub(f"{REPLACED}@", self.clean(text))

    def occur_in(self, data: bytes) -> bool:
        """Return whether a secret occurs in the data, as JSON or as it is."""
        return any(form in data for form in self._written)

    def clean_value(self, value: Any) -> Any:
        """Return the JSON value without the secrets, in its keys too."""
        match value:
            case str():
                return self.clean(value)
            case dict():
                return {self.clean(key): self.clean_value(each) for key, each in value.items()}
            case list():
                return [self.clean_value(each) for each in value]
            case _:
                return value

    def clean_bytes(self, data: bytes) -> bytes:
        for form in self._written:
            data = data.replace(form, REPLACED.encode())
        return data

    def partial_suffix_length(self, text: str) -> int:
        """Return how many of the last characters may be the beginning of a secret."""
        longest = len(self._forms[0]) if self._forms else 0
        for start in range(max(0, len(text) - longest + 1), len(text)):
            forms = self._by_beginning.get(text[start], ())
            if any(form.startswith(text[start:]) for form in forms):
                return len(text) - start
        return 0


class StreamRedactor:
    """Redact a text that arrives in pieces: a secret may be spread over several."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""

    def redact_next(self, piece: str) -> str:
        """Return the text that can be shown now, without what may be the beginning of a secret."""
        text = self._secrets.clean(self._held + piece)
        end = len(text) - self._secrets.partial_suffix_length(text)
        self._held = text[end:]
        return text[:end]


def environment_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables with secret names, and passwords in addresses."""
    for name, value in environ.items():
        is_address = _ADDRESS.fullmatch(value)
        if is_address:
            yield from address_secrets(value)
        is_secret = _SECRET_NAME.fullmatch(name) if is_address else is_secret_name(name)
        if _KEY.fullmatch(value) or (is_secret and name not in _OWN_SETTINGS):
            yield value


def is_secret_name(name: str) -> bool:
    """Return whether a variable, header or parameter of this name is likely a secret."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name.upper()) if word]
    if not words or _OPEN_WORD.fullmatch(words[-1]):
        return False
    return any(_SECRET_WORD.fullmatch(word) for word in words)


def address_secrets(text: str) -> Iterator[str]:
    """Yield the credentials of an address, and query parameters with secret names."""
    try:
        address = urlsplit(text)
        user, password = address.username or "", address.password or ""
    except ValueError:
        return
    yield from (password, unquote(password)) if password else (user, unquote(user))
    if password:
        pair = f"{unquote(user)}:{unquote(password)}"
        yield from (pair, base64.b64encode(pair.encode()).decode())
    for parameter in address.query.split("&"):
        name, _, value = parameter.partition("=")
        if is_secret_name(name):
            yield from (value, unquote(value))


def header_secrets(name: str, value: str) -> Iterator[str]:
    """Yield the secrets of a header: `Bearer KEY` holds KEY, and `Basic …` a password."""
    if not is_secret_name(name):
        return
    credential = value.rpartition(" ")[2]
    yield from (value, credential)
    if value.lower().startswith("basic "):
        try:
            pair = base64.b64decode(credential, validate=True).decode()
        except ValueError:
            return
        yield from (pair, pair.partition(":")[2])


def _parts(value: str) -> Iterator[str]:
    """Yield the value if it is distinctive, and each of its long and distinctive lines."""
    value = value.strip()
    if _is_telling(value):
        yield value
    is_pem = value.startswith("-----BEGIN")  # its lines may begin as a path does
    for line in map(str.strip, value.splitlines()):
        # The first and last lines of PEM are the same in every key.
        is_of_all = len(line) < _MIN_LINE_CHARACTERS or line.startswith("-----")
        if not is_of_all and (is_pem or _is_telling(line)):
            yield line


def _is_telling(value: str) -> bool:
    if not MIN_SECRET_CHARACTERS <= len(value) <= MAX_SECRET_CHARACTERS:
        return False
    # A path is only the place of a secret, and a number may occur anywhere.
    if _NUMBER.fullmatch(value):
        return False
    if _PATH.fullmatch(value):
        with suppress(OSError):  # it is too long
            if not _RANDOM.search(value) or Path(value).exists():
                return False
    has_digit = any(char.isdigit() for char in value)
    is_mixed = value.lower() != value != value.upper()
    return has_digit or is_mixed or len(value) >= MIN_PLAIN_CHARACTERS


def _forms(value: str) -> Iterator[str]:
    yield value
    yield from (quote(value), quote(value, safe=""), repr(value)[1:-1])
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    # In base64 at each offset, without characters that depend on neighbours.
    data = value.encode("utf-8", "replace")
    for before in range(3):
        shifted = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        core = shifted[first:last]
        yield from (core, core.replace("+", "-").replace("/", "_"))


def _written(form: str) -> Iterator[bytes]:
    yield form.encode("utf-8", "surrogatepass")
    yield json.dumps(form)[1:-1].encode()
    yield json.dumps(form, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
