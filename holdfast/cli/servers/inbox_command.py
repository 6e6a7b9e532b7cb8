"""`holdfast inbox`: the pages where people decide on pending approvals.

It listens on this machine, for the user who starts it. For other people, it is behind a proxy with
https, and they sign in.
"""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from holdfast.cli.parser import Commands, add_person
from holdfast.cli.prompts.answers import Approver
from holdfast.cli.servers import listen_address
from holdfast.cli.servers.mcp_command import add_catalog, load_catalog
from holdfast.client.connection import connect
from holdfast.client.errors import DONE, wrong_command, wrong_settings
from holdfast.runtime.secrets import shared_secret
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.schemas.internal.live_answer import VIEWERS_KEY
from holdfast.web.http.origins import own_origins

DEFAULT_PORT: Final = 8235
SETTINGS_VARIABLE: Final = "HOLDFAST_INBOX"
SECRET_VARIABLE: Final = "HOLDFAST_INBOX_SECRET"
# Each open page holds one, to receive changes.
MAX_CONNECTIONS: Final = 2_000


def add_parser(commands: Commands) -> None:
    """Add `inbox`."""
    text = "serve the pages where people decide on pending approvals"
    parser = commands.add_parser("inbox", help=text, description=f"{text.capitalize()}.")
    text = f"its settings, inbox.yaml (default: {SETTINGS_VARIABLE})"
    parser.add_argument("--settings", metavar="FILE", help=text)
    listen_address.add_listening(parser, DEFAULT_PORT)
    add_person(parser)
    add_catalog(parser)
    parser.set_defaults(command=inbox)


async def inbox(
    *,
    settings: str | None,
    host: str,
    port: int,
    approver: Approver,
    **given: str | Sequence[str] | None,
) -> int:
    """Serve the inbox until it is stopped."""
    # Imported here: the other commands need no HTTP server, and start sooner.
    from holdfast.cli.servers.serving import serve, server
    from holdfast.client.stream.local_viewer import local_viewer
    from holdfast.runtime.decision_links import LINK_SECRET, MIN_SECRET_CHARACTERS
    from holdfast.runtime.text_sealer import TextSealer
    from holdfast.web.api.openapi import DOCUMENT
    from holdfast.web.app import application
    from holdfast.web.auth import auth_middleware as auth
    from holdfast.web.auth.permissions import Permissions
    from holdfast.web.auth.sessions import build_person
    from holdfast.web.auth.sign_in import LinkSignIn
    from holdfast.web.decision_links import DecisionPages
    from holdfast.web.http.problems import RefusedRequest
    from holdfast.web.live_answers import with_live_answers
    from holdfast.web.monitoring import InboxHealth, export_metrics
    from holdfast.web.services import Services
    from holdfast.web.slack.actions import SlackActions

    seal = TextSealer(shared_secret(SECRET_VARIABLE) or None)
    file, name = settings or os.environ.get(SETTINGS_VARIABLE), approver.name or ""
    path, link = Path(file) if file else None, LinkSignIn(seal, name, approver.groups)
    async with AsyncExitStack() as stack:
        others = await stack.enter_async_context(auth.http_client())
        try:
            access = auth.read_access(path, os.environ, seal, link, others)
        except LoadError as error:
            named_by = "`--settings`" if settings else SETTINGS_VARIABLE
            raise wrong_settings(named_by, error.problems) from None
        chosen = access.settings
        url = chosen.url
        if access.method is not link:
            if approver.by or approver.groups:
                todo = "leave out --by and --groups"
                raise wrong_command("the settings define who decides", todo)
        elif not name:
            todo = "name yourself with --by NAME"
            raise wrong_command("the operating system does not report your name", todo)
        else:
            try:
                build_person(seal, name, approver.groups, "link")
            except RefusedRequest as refused:
                raise wrong_command(*refused.sentence.split("; ", 1)) from None
            if url is not None or not ip_address(host).is_loopback:
                wrong = "the holder of its link would decide in your name, from anywhere"
                todo = "have people sign in: `oidc` or `proxy` in its `--settings`"
                raise wrong_command(wrong, todo)
        listen_address.check_private(host, url, "`url: https://…` in its `--settings`")
        parts = Services(
            await connect(),
            approver.signer,
            chosen.temporal_ui,
            chosen.programs,
            Permissions(chosen.permissions),
            load_catalog(given)[0] if any(given.values()) else None,
        )
        await stack.enter_async_context(export_metrics(parts.pending, os.environ))
        socket = stack.enter_context(listen_address.open_listener(host, port))
        own = own_origins(host, socket.getsockname()[1], url)
        public = [DOCUMENT] if chosen.openapi == "public" else []
        at, health = listen_address.public_origin(own), InboxHealth(parts.client.temporal)
        more = []
        if chosen.slack is not None:
            more += SlackActions(parts, chosen.slack, os.environ, others).routes
        if link_secret := shared_secret(LINK_SECRET, MIN_SECRET_CHARACTERS):
            more += DecisionPages(parts, link_secret).routes
        app = auth.AuthMiddleware(application(parts, *more), access, own, health, public)
        key = shared_secret(VIEWERS_KEY)
        await stack.enter_async_context(local_viewer(parts.client.live))
        served = with_live_answers(app, parts.client.live, key) if key else app
        http = server(served, MAX_CONNECTIONS, sockets=bool(key))
        shown = link.address(at) if access.method is link else at
        await serve(http, socket, f"inbox ready: {shown}", access.stopping)
    return DONE
