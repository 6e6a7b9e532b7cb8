"""The way to Temporal: found as every Temporal program finds it, and given up in time."""

import asyncio
import os
import sys

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig

from cli.errors import UNREACHABLE, WRONG_COMMAND, CommandError
from cli.text import one_line
from schemas import reaching
from schemas.reaching import Trouble

CONNECT_TIMEOUT_SECONDS = 5
_DEFAULT_ADDRESS = "localhost:7233"
_START_ONE = "start one (python worker.py --dev) or set TEMPORAL_ADDRESS"
_WARNING_CHARS = 500


async def connect() -> Client:
    """A client for the server that the environment or `temporal.toml` names.

    What is passed over in the settings is told on standard error.

    Raises:
        CommandError: the settings cannot be read, or no server answers within 5 s.
    """
    settings = _settings()
    address = settings.setdefault("target_host", _DEFAULT_ADDRESS)
    if (trouble := reaching.of_address(address)) is not None:
        raise _command_error(trouble)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            return await Client.connect(**settings, data_converter=pydantic_data_converter)
    except (TimeoutError, RuntimeError, ValueError) as error:
        raise _command_error(reaching.of_connection(address, error, _START_ONE)) from error


def _settings() -> ClientConnectConfig:
    try:
        settings = ClientConfig.load_client_connect_config()
    except (OSError, RuntimeError, ValueError) as error:
        trouble = reaching.of_settings(error, os.environ, lambda: ClientConfig.load().profiles)
        raise _command_error(trouble) from error
    for warning in reaching.warnings(os.environ, os.path.exists, _read_strictly):
        print(f"holdfast: {one_line(warning, _WARNING_CHARS)}", file=sys.stderr)
    return settings


def _read_strictly() -> ClientConfig:
    return ClientConfig.load(config_file_strict=True)


def _command_error(trouble: Trouble) -> CommandError:
    code = WRONG_COMMAND if trouble.in_settings else UNREACHABLE
    return CommandError(trouble.wrong, trouble.todo, code)
