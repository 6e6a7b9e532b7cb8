"""`holdfast inbox`: the pages where people decide on pending approvals.

It listens on this machine, for the user who starts it. For other people, it is behind a proxy with
https, and they sign in.
"""

import os
from collections.abc import Sequence
from typing import Final

from holdfast.cli.parser import Commands, add_listening, add_person
from holdfast.cli.prompts.answers import Approver
from holdfast.cli.servers.mcp_command import add_catalog, load_catalog
from holdfast.client.errors import DONE

DEFAULT_PORT: Final = 8235
SETTINGS_VARIABLE: Final = "HOLDFAST_INBOX"


def add_parser(commands: Commands) -> None:
    """Add `inbox`."""
    text = "serve the pages where people decide on pending approvals"
    parser = commands.add_parser("inbox", help=text, description=f"{text.capitalize()}.")
    text = f"its settings, inbox.yaml (default: {SETTINGS_VARIABLE})"
    parser.add_argument("--settings", metavar="FILE", help=text)
    add_listening(parser, DEFAULT_PORT)
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
    from holdfast.web.app import serve_inbox
    from holdfast.web.auth.sessions import Person

    await serve_inbox(
        settings or os.environ.get(SETTINGS_VARIABLE),
        "`--settings`" if settings else SETTINGS_VARIABLE,
        host,
        port,
        Person(approver.name or "", tuple(approver.groups)),
        approver.signer,
        lambda: load_catalog(given)[0] if any(given.values()) else None,
        is_user_given=bool(approver.by or approver.groups),
    )
    return DONE
