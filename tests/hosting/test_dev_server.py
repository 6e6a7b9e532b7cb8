"""Ports of a development server."""

import socket
import subprocess

import pytest

from holdfast.hosting import dev_server
from holdfast.hosting.dev_server import HOST, free_port, terminate_dev_servers
from holdfast.validation.problems import FixableError


def test_a_server_that_has_ended_is_terminated_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = subprocess.Popen(["true"], start_new_session=True)
    ended.wait()
    monkeypatch.setattr(dev_server, "_started", {ended.pid})
    terminate_dev_servers()


def test_a_free_port_is_the_preferred_one_or_none_of_outgoing_connections() -> None:
    preferred = free_port()
    assert free_port(preferred) == preferred
    with socket.socket() as taken:
        taken.bind((HOST, preferred))
        other = free_port(preferred)
    assert other != preferred
    assert free_port() not in {preferred, other}, "its server has not started yet"
    assert max(other, preferred) < 32_768


def test_that_no_port_is_free_is_a_problem_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_server, "_PORTS", range(20_000, 20_001))
    monkeypatch.setattr(dev_server, "_returned", {20_000})
    with pytest.raises(FixableError, match="no port from 20000 to 20000 is free"):
        free_port()
