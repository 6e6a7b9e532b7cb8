"""The address, the port and the public names of a server."""

import os
import socket
from argparse import ArgumentParser
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

from holdfast.client.errors import wrong_command
from holdfast.runtime.command_line import read_by, read_port

DEFAULT_HOST: Final = "127.0.0.1"


def add_listening(parser: ArgumentParser, port: int) -> None:
    """Add the options `--host` and `--port`, with this default port."""
    text = "default: %(default)s"
    parser.add_argument(
        "--host", metavar="IP", type=read_by(_address), default=DEFAULT_HOST, help=text
    )
    parser.add_argument("--port", metavar="N", type=read_port, default=port, help=text)


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"write an address of this machine, such as {DEFAULT_HOST}") from None


def check_private(host: str, url: str | None, named_by: str) -> None:
    """Check that a server for other machines is behind https; `named_by` is the setting of `url`.

    Raises:
        HoldfastError: it is not.
    """
    if not ip_address(host).is_loopback and (url is None or not url.startswith("https:")):
        todo = f"put a proxy with https in front of it, and name its address: {named_by}"
        raise wrong_command(f"on {host}, what it shows would be sent unencrypted", todo)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        HoldfastError: the port is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family)
    except OSError as error:
        todo = "stop what listens there, or choose another `--port`"
        why = os.strerror(error.errno or 0)
        raise wrong_command(f"{host} port {port} is not available: {why}", todo) from None
    # Its connections have this option, too. asyncio sets it only for sockets that it has made, and
    # without it a response of two parts waits some 40 ms for the receiver to acknowledge the first.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def public_origin(own: Collection[str]) -> str:
    """Return the origin to print: that of the proxy, where there is one."""
    return min(own, key=lambda each: (not each.startswith("https:"), each))
