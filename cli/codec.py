"""`holdfast codec`: the endpoint with which Temporal's UI shows encrypted runs.

It listens on this machine. For others it stands behind a proxy that speaks https, whose address is
its `--url`: what it shows does not travel in the open.
"""

import os
import socket
from argparse import ArgumentTypeError
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Final

from cli.references import References
from encryption.access import MIN_SECRET_CHARS, Access, check_secret
from encryption.codec import VARIABLE
from encryption.origins import is_loopback, own_origins, read_origin
from remote.connection import load_codec
from remote.errors import DONE, wrong_command
from schemas.wording import misfit
from storage.places import Place, of_reader, opened, read_place
from storage.store import StoreError

TOKEN_VARIABLE: Final = "HOLDFAST_CODEC_TOKEN"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8234


def origin(text: str) -> str:
    """An origin, as browsers write it: an argparse `type`."""
    try:
        return read_origin(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{misfit(text)}; {error}") from error


def address(text: str) -> str:
    """An address of this machine: an argparse `type`."""
    try:
        return str(ip_address(text))
    except ValueError:
        reason = f"{misfit(text)}; write an address of this machine, such as {DEFAULT_HOST}"
        raise ArgumentTypeError(reason) from None


def port(text: str) -> int:
    """A port, of which 0 is any free one: an argparse `type`."""
    if text.isdecimal() and int(text) < 65536:
        return int(text)
    raise ArgumentTypeError(f"{misfit(text)}; a port is a number up to 65535; 0 is any free one")


def place(text: str) -> Place | None:
    """Where a store is: an argparse `type`."""
    try:
        return read_place(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{misfit(text)}; {error}") from error


async def codec(
    *,
    encryption: str | None,
    origins: Sequence[str],
    host: str,
    port: int,
    url: str | None,
    token_env: str,
    store: Sequence[Place | None],
) -> int:
    """Serve the endpoint until it is stopped; the exit code.

    Raises:
        CommandError: a setting is wrong, or the port is taken.
    """
    if not is_loopback(host) and (url is None or not url.startswith("https:")):
        todo = "put a proxy with https in front of it, and name its address: `--url https://…`"
        raise wrong_command(f"on {host}, what it shows would travel in the open", todo)
    # The other commands do without a server of HTTP, and start sooner.
    from cli.serving import serve

    secret = _secret(token_env)
    file = encryption or os.environ.get(VARIABLE)
    if not file:
        raise wrong_command("no keys are named", f"name them with `--encryption` or {VARIABLE}")
    keys = load_codec(file, "`--encryption`" if encryption else VARIABLE)
    async with _references(store) as references:
        with _listening(host, port) as listening:
            own = own_origins(host, listening.getsockname()[1], url)
            access = Access(secret, frozenset(origins), own)
            await serve(keys, access, references, listening)
    return DONE


def _secret(variable: str) -> str:
    secret = os.environ.get(variable, "").strip()
    todo = f"set it to a text of at least {MIN_SECRET_CHARS} characters: openssl rand -hex 32"
    if not secret:
        wrong = f"the variable {variable}, which is to hold the endpoint's secret, is not set"
        raise wrong_command(wrong, todo)
    try:
        check_secret(secret)
    except ValueError as error:
        wrong = f"the secret in the variable {variable} does not fit: {error}"
        raise wrong_command(wrong, todo) from None
    return secret


@asynccontextmanager
async def _references(named: Sequence[Place | None]) -> AsyncIterator[References | None]:
    """What reads the store that was named, or that of this folder's worker; None without one."""
    try:
        place = named[0] if named else of_reader(os.environ)
        if place is None:
            yield None
            return
        async with opened(place, writing=False) as store:
            yield References(store)
    except StoreError as error:
        raise wrong_command(error.wrong, error.todo) from None


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        todo = "stop what listens there, or choose another `--port`"
        why = os.strerror(error.errno or 0)
        raise wrong_command(f"{host} port {port} cannot be had: {why}", todo) from None
