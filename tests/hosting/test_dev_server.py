"""Ports of a development server."""

import socket

from holdfast.hosting.dev_server import HOST, free_port


def test_a_free_port_is_the_preferred_one_or_none_of_outgoing_connections() -> None:
    preferred = free_port()
    assert free_port(preferred) == preferred
    with socket.socket() as taken:
        taken.bind((HOST, preferred))
        other = free_port(preferred)
    assert other != preferred
    assert free_port() not in {preferred, other}, "its server has not started yet"
    assert max(other, preferred) < 32_768
