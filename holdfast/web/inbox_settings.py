"""`inbox.yaml`, read and checked as a whole before the first request.

Each problem has its fix. Only the provider is not contacted before a sign-in: the inbox starts
while it is down.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from holdfast.runtime.addresses import AddressError, parse_secure_address
from holdfast.runtime.identity.key_sets import OPTION, LiveKeySet, load_key_sets
from holdfast.runtime.secrets import MIN_SHARED_CHARACTERS
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import Source, read_source
from holdfast.schemas.settings.inbox import InboxSettings, Organization
from holdfast.schemas.settings.keys import AUDIENCES
from holdfast.validation.problems import ValueProblem
from holdfast.web.http.origins import read_address
from holdfast.web.pages import HOLDFAST, LOGO_TYPES, MAX_LOGO_BYTES, Branding


@dataclass(frozen=True)
class LoadedInboxSettings:
    """The settings of the file, and what they refer to: keys, the client secret, the logo."""

    settings: InboxSettings = field(default_factory=InboxSettings)
    keys: Sequence[LiveKeySet] = ()
    secret: str | None = field(default=None, repr=False)
    brand: Branding = HOLDFAST


def load_inbox_settings(
    file: Path, environ: Mapping[str, str], http: httpx.AsyncClient
) -> LoadedInboxSettings:
    """Return the settings of a file.

    Raises:
        LoadError: the settings cannot be used.
    """
    source = read_source(file)
    settings = source.parse_as(InboxSettings)
    problems = source.problems(_faults(settings, environ))
    keys: Sequence[LiveKeySet] = ()
    try:
        if settings.tokens is not None:
            home = None if settings.oidc is None else settings.oidc.issuer
            keys = _keys(settings.tokens, source, http, home)
    except LoadError as error:
        problems += error.problems
    brand = HOLDFAST
    try:
        if settings.organization is not None:
            brand = _brand(settings.organization, Path(source.file).parent)
    except (OSError, ValueError) as error:
        fix = f"name a PNG, SVG or WebP file of at most {MAX_LOGO_BYTES // 1000} KB"
        problems += source.problems([ValueProblem(("organization", "logo"), str(error), fix)])
    audiences = {*AUDIENCES.values(), *(each.settings.audience for each in keys)}
    if settings.oidc is not None and settings.oidc.client_id in audiences:
        reason, fix = "is an `audience` of tokens", "write an `audience` of their own in `tokens`"
        problems += source.problems([ValueProblem(("oidc", "clientId"), reason, fix)])
    if problems:
        raise LoadError(problems)
    variable = settings.oidc.client_secret_env if settings.oidc else None
    url = None if settings.url is None else read_address(settings.url)
    secret = None if variable is None else environ[variable].strip()
    return LoadedInboxSettings(settings.model_copy(update={"url": url}), keys, secret, brand)


def _faults(said: InboxSettings, environ: Mapping[str, str]) -> Iterator[ValueProblem]:
    """Yield the problems that validation by the model does not find."""
    if said.url is not None:
        try:
            read_address(said.url)
        except ValueError as error:
            yield ValueProblem(("url",), "it cannot be used for sign-in", str(error))
    slack, todo = said.slack, "set it to that of the Slack app"
    if slack is not None:
        yield from _unset(("slack", "signingSecretEnv"), slack.signing_secret_env, environ, todo)
        yield from _unset(("slack", "tokenEnv"), slack.token_env, environ, todo)
        if 0 < len(environ.get(slack.signing_secret_env, "").strip()) < MIN_SHARED_CHARACTERS:
            reason = f"its secret has fewer than {MIN_SHARED_CHARACTERS} characters"
            yield ValueProblem(("slack", "signingSecretEnv"), reason, todo)
    if said.oidc is None:
        return
    try:
        parse_secure_address(said.oidc.issuer)
    except AddressError as error:
        yield ValueProblem(("oidc", "issuer"), error.reason, error.fix)
    where, fix = ("oidc", "clientSecretEnv"), "set it to the inbox's secret at the provider"
    yield from _unset(where, said.oidc.client_secret_env, environ, fix)


def _unset(
    where: tuple[str, ...], variable: str | None, environ: Mapping[str, str], fix: str
) -> Iterator[ValueProblem]:
    if variable is not None and not environ.get(variable, "").strip():
        yield ValueProblem(where, f"the variable {variable} is not set", fix)


def _brand(organization: Organization, folder: Path) -> Branding:
    brand = Branding(organization.name, organization.color or "")
    if organization.logo is None:
        return brand
    file = folder / organization.logo
    with file.open("rb") as opened:
        logo = opened.read(MAX_LOGO_BYTES + 1)
    if not 0 < len(logo) <= MAX_LOGO_BYTES or file.suffix.lower() not in LOGO_TYPES:
        raise ValueError(f"`{organization.logo}` is no logo")
    return replace(brand, logo=logo, logo_type=LOGO_TYPES[file.suffix.lower()])


def _keys(
    place: str, source: Source, http: httpx.AsyncClient, home: str | None
) -> Sequence[LiveKeySet]:
    is_address = place.startswith(("http://", "https://"))
    place = place if is_address else str(Path(source.file).parent / place)
    try:
        keys = load_key_sets(place, http, home=home)
    except LoadError as error:
        # A problem of the worker's option is one of this file.
        line = source.line(("tokens",))
        raise LoadError(
            [
                replace(each, file=source.file, line=line, field="tokens")
                if each.file == OPTION
                else each
                for each in error.problems
            ]
        ) from None
    if not any("inbox" in each.settings.for_ for each in keys):
        fix = "name a file with a set that is for `inbox`"
        fault = ValueProblem(("tokens",), "no key set is for the tokens of programs", fix)
        raise LoadError([source.problem(fault)])
    return keys
