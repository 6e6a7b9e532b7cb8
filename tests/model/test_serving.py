"""The local model's own server: what is wrong with it is reported in a line that helps."""

import socket

import pytest

from examples.local_model import serve

pytestmark = [pytest.mark.model, pytest.mark.timeout(60)]


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind((serve.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = f"no server came up on {serve.HOST}:{port}: is the port taken"
        with pytest.raises(serve.NotServedError, match=said), serve.serve(port):
            pytest.fail("it was served all the same")


def test_missing_weights_are_reported_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    with pytest.raises(serve.NotServedError, match=r"weights .* are not installed: `make demo"):
        serve.start(0)
