"""Temporal is found as every Temporal program finds it, and given up in time."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client import connection
from tests.cli.conftest import Holdfast


async def test_no_server_is_one_line_and_3(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")

    said = await holdfast("list")

    assert (said.code, said.out) == (3, "")
    assert said.err == (
        "holdfast: no Temporal server answers at 127.0.0.1:1; "
        "start one (holdfast worker --dev) or set TEMPORAL_ADDRESS\n"
    )


async def test_a_server_that_says_nothing_is_given_up_in_time(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{silent.getsockname()[1]}")
        said = await holdfast("list")

    assert said.code == 3
    assert "no Temporal server answers at" in said.err


async def test_a_namespace_that_is_not_there_is_3(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nowhere")

    for words in (("list",), ("watch", "x"), ("approvals",), ("run", "x", "--input", "y")):
        said = await holdfast(*words)
        assert (said.code, said.err) == (
            3,
            "holdfast: Namespace nowhere is not found; set TEMPORAL_NAMESPACE\n",
        )


async def test_settings_that_cannot_be_read_are_2(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "temporal.toml"
    settings.write_text("this is no TOML")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(settings))

    said = await holdfast("list")

    assert said.code == 2
    assert "Temporal's settings cannot be read" in said.err
    assert said.err.count("\n") == 1


async def test_a_profile_of_temporal_toml_is_taken(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "temporal.toml"
    settings.write_text('[profile.other]\naddress = "127.0.0.1:2"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(settings))
    monkeypatch.setenv("TEMPORAL_PROFILE", "other")
    monkeypatch.delenv("TEMPORAL_ADDRESS")

    assert "at 127.0.0.1:2;" in (await holdfast("list")).err


def test_the_program_exits_with_the_code_however_the_client_ends() -> None:
    """A failed connection used to abort the interpreter in two of five exits."""
    command = [sys.executable, "-m", "holdfast", "list"]
    for _ in range(5):
        ended = subprocess.run(
            command, env={"TEMPORAL_ADDRESS": "127.0.0.1:1"}, capture_output=True, check=False
        )
        assert (ended.returncode, ended.stderr.count(b"\n")) == (3, 1)
