"""The entrance: the way in which people are known, and programs, as the settings say."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from holdfast.schemas.settings.inbox import InboxSettings
from holdfast.web.auth.auth_middleware import Way
from holdfast.web.auth.bearer import Bearer
from holdfast.web.auth.link import Link, LinkOwner
from holdfast.web.auth.oidc import SignIn
from holdfast.web.auth.oidc_provider import OidcProvider
from holdfast.web.auth.proxy import BehindProxy
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.inbox_settings import LoadedInboxSettings, load

# Of a provider, for metadata, keys and tokens.
HTTP_TIMEOUT_SECONDS: Final = 5


@dataclass(frozen=True)
class SignInSetup:
    """How people come in, and where they find the inbox; `link` where there is one."""

    said: InboxSettings
    way: Way
    bearer: Bearer
    link: Link | None


@asynccontextmanager
async def entrance(
    file: Path | None, environ: Mapping[str, str], seal: TextSealer, whose: LinkOwner
) -> AsyncIterator[SignInSetup]:
    """The entrance that the file describes; without `oidc` and `proxy`, a link for `whose` it is.

    Raises:
        SettingsError: the settings cannot be used.
    """
    async with httpx.AsyncClient(timeout=HTTP_TIMEOUT_SECONDS) as http:
        settings = LoadedInboxSettings() if file is None else load(file, environ, http)
        bearer = Bearer(seal, settings.keys)
        link = None if _has_way(settings.said) else Link(seal, whose)
        yield SignInSetup(settings.said, link or _way(settings, seal, http), bearer, link)


def _has_way(said: InboxSettings) -> bool:
    return said.oidc is not None or said.proxy is not None


def _way(settings: LoadedInboxSettings, seal: TextSealer, http: httpx.AsyncClient) -> Way:
    if settings.said.proxy is not None:
        return BehindProxy(seal, settings.said.proxy)
    assert settings.said.oidc is not None  # or there would be a link
    provider = OidcProvider(settings.said.oidc, settings.secret, http)
    return SignIn(seal, settings.said.oidc, provider)
