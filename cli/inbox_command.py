"""`holdfast inbox`: the pages where people decide on pending approvals.

It listens on this machine, for the user who starts it. For other people, it is behind a proxy with
https, and they sign in.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.cli.listen_address import (
    check_private,
    environment_secret,
    open_listener,
    public_origin,
)
from holdfast.cli.prompts.answers import user_name
from holdfast.client.command_errors import DONE, wrong_command, wrong_settings
from holdfast.client.connection import connect
from holdfast.client.signing import load_signer
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.web.http.origins import is_loopback, own_origins

if TYPE_CHECKING:
    from holdfast.web.auth.auth_middleware import SignInSetup
    from holdfast.web.auth.sessions import TextSealer

DEFAULT_PORT: Final = 8235
SETTINGS_VARIABLE: Final = "HOLDFAST_INBOX"
SECRET_VARIABLE: Final = "HOLDFAST_INBOX_SECRET"
# Each page that is open holds one for what changes.
MAX_CONNECTIONS: Final = 2_000


async def inbox(
    *,
    settings: str | None,
    host: str,
    port: int,
    by: str | None,
    groups: Sequence[str],
    key: str | None,
    kid: str | None,
) -> int:
    """Serve the inbox until it is stopped; the exit code.

    Raises:
        CommandError: a setting is wrong, Temporal does not answer, or the port is taken.
    """
    # The other commands do without a server of HTTP, and start sooner.
    from holdfast.cli.serving import serve
    from holdfast.web.app import application
    from holdfast.web.auth.auth_middleware import AuthMiddleware, RequestAccess
    from holdfast.web.auth.sessions import TextSealer
    from holdfast.web.monitoring import InboxHealth, export_metrics
    from holdfast.web.services import Services

    signer, seal = load_signer(key, kid), TextSealer(environment_secret(SECRET_VARIABLE) or None)
    async with _entrance(settings, seal, by, groups) as entrance:
        _check_place(entrance, host)
        programs = entrance.settings.programs
        parts = Services(
            await connect(),
            signer,
            entrance.settings.temporal_ui,
            takes_definitions=programs.definitions,
            takes_principals=programs.principals,
        )
        async with export_metrics(parts.client, os.environ):
            with open_listener(host, port) as socket:
                own = own_origins(host, socket.getsockname()[1], entrance.settings.url)
                access = RequestAccess(own, entrance.method, entrance.bearer)
                await serve(
                    AuthMiddleware(application(parts), access, InboxHealth(parts.client)),
                    socket,
                    _ready(entrance, own),
                    stopping=access.stopping,
                    most_connections=MAX_CONNECTIONS,
                )
    return DONE


@asynccontextmanager
async def _entrance(
    settings: str | None, seal: "TextSealer", by: str | None, groups: Sequence[str]
) -> AsyncIterator["SignInSetup"]:
    from holdfast.web.auth.auth_middleware import open_sign_in
    from holdfast.web.auth.link import LinkOwner

    file = settings or os.environ.get(SETTINGS_VARIABLE)
    path = None if file is None else Path(file)
    name = by or user_name() or ""
    opening = open_sign_in(path, os.environ, seal, LinkOwner(name, tuple(groups)))
    try:
        async with opening as opened:
            if opened.link is not None:
                _check_whose(seal, name, groups)
            elif by or groups:
                todo = "leave out --by and --groups"
                raise wrong_command("the settings say how it is known who decides", todo)
            yield opened
    except LoadError as error:
        named_by = "`--settings`" if settings else SETTINGS_VARIABLE
        raise wrong_settings(named_by, error.problems) from None


def _check_whose(seal: "TextSealer", name: str, groups: Sequence[str]) -> None:
    """Check that the user of the link has a name that can be shown."""
    from holdfast.web.auth.sessions import build_person
    from holdfast.web.http.problems import RefusedRequest

    if not name:
        raise wrong_command("the system does not say who you are", "name yourself with --by NAME")
    try:
        build_person(seal, name, groups, "link")
    except RefusedRequest as refused:
        raise wrong_command(*refused.sentence.split("; ", 1)) from None


def _check_place(entrance: "SignInSetup", host: str) -> None:
    """Refuse a link for other machines, and http beyond this machine."""
    url = entrance.settings.url
    if entrance.link is not None and (url is not None or not is_loopback(host)):
        wrong = "the holder of its link would decide in your name, from anywhere"
        raise wrong_command(wrong, "have people sign in: `oidc` or `proxy` in its `--settings`")
    check_private(host, url, "`url: https://…` in its `--settings`")


def _ready(entrance: "SignInSetup", own: frozenset[str]) -> str:
    at = public_origin(own)
    where = at if entrance.link is None else entrance.link.address(at)
    return f"inbox ready: {where}"
