"""The way to Temporal: found as every Temporal program finds it, and given up in time."""

import asyncio

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig

from cli.errors import UNREACHABLE, CommandError, wrong_command

CONNECT_TIMEOUT_SECONDS = 5
_DEFAULT_ADDRESS = "localhost:7233"


async def connect() -> Client:
    """A client for the server that the environment or `temporal.toml` names.

    Raises:
        CommandError: the settings cannot be read, or no server answers within 5 s.
    """
    settings = _settings()
    address = settings.setdefault("target_host", _DEFAULT_ADDRESS)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            return await Client.connect(**settings, data_converter=pydantic_data_converter)
    except (TimeoutError, RuntimeError, ValueError) as error:
        wrong = f"no Temporal server answers at {address}{_why(error)}"
        todo = "start one (temporal server start-dev) or set TEMPORAL_ADDRESS"
        raise CommandError(wrong, todo, UNREACHABLE) from error


def _settings() -> ClientConnectConfig:
    try:
        return ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError) as error:
        todo = "mend temporal.toml or the TEMPORAL_ variables"
        raise wrong_command(f"Temporal's settings cannot be read: {error}", todo) from error


def _why(error: BaseException) -> str:
    """The reason in few words, where it is not simply that nobody listens."""
    text = str(error)
    if not text or "ConnectionRefused" in text:
        return ""
    return f" ({text.removeprefix('Failed client connect: ')})"
