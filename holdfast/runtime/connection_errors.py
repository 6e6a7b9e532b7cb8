"""Read Temporal's settings, and explain why it cannot be reached, to the worker and the commands.

The SDK's errors are written for programmers. Here each becomes a problem and the setting that
fixes it.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError

from holdfast.schemas.phrases import did_you_mean, quote_value, suggest_names
from holdfast.validation.problems import FixableError

CONFIG_FILE: Final = "TEMPORAL_CONFIG_FILE"
_FIX_SETTINGS: Final = "fix temporal.toml or the TEMPORAL_ variables"
_MAX_QUOTED_CHARS: Final = 300
_MAX_PORT: Final = 65535
_NEARLY: Final = 0.85
_TLS = ("CLIENT_CERT", "CLIENT_KEY", "SERVER_CA_CERT")
_VARIABLES: Final = (
    *("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_PROFILE"),
    *(CONFIG_FILE, "TEMPORAL_TLS", "TEMPORAL_TLS_SERVER_NAME"),
    "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION",
    *(f"TEMPORAL_TLS_{what}_{how}" for what in _TLS for how in ("PATH", "DATA")),
)


class TemporalConnectionError(FixableError):
    """No connection; `in_settings` is true if no request was sent to a server."""

    def __init__(self, reason: str, fix: str, *, in_settings: bool = False) -> None:
        super().__init__(reason, fix)
        self.in_settings = in_settings


# A part of the SDK's text, its meaning, and what to do about it.
_REASONS: Final = (
    (r"dns error|failed to lookup", "its name is not known", "check TEMPORAL_ADDRESS"),
    (
        r"InvalidContentType",
        "it does not use TLS",
        "unset TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
    ),
    (
        r"h2 protocol error|http2 error|connection closed|broken pipe",
        "the server there does not use Temporal's gRPC",
        "set TEMPORAL_ADDRESS to the server's own port, 7233 by default (its UI has another), or"
        " TEMPORAL_TLS=true where it requires TLS",
    ),
    (
        r"[Ii]nvalid peer certificate|UnknownIssuer|UnknownCA",
        "its certificate is not trusted",
        "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the certificate of who issued it",
    ),
)
_IN_SETTINGS: Final = (
    (
        r"both client cert and private key",
        "TLS has only one of certificate and key",
        "set both TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH",
    ),
    (r"Invalid headers", "a TEMPORAL_GRPC_META_ variable makes no header", "rename or unset it"),
)


def read_settings(warn: Callable[[str], None]) -> ClientConnectConfig:
    """Read the address of Temporal and the credentials as every Temporal program does.

    `warn` is called with a message about each setting that is ignored.

    Raises:
        TemporalConnectionError: the settings cannot be read.
    """
    try:
        settings = ClientConfig.load_client_connect_config()
    except (OSError, RuntimeError, ValueError) as error:
        raise TemporalConnectionError(*_reason_and_fix(error), in_settings=True) from error
    file = os.environ.get(CONFIG_FILE)
    if file and not Path(file).exists():
        warn(f"{CONFIG_FILE}: there is no file {file}; its settings are not used")
    for name in os.environ:
        meant = did_you_mean(name, _VARIABLES, _NEARLY) if name.startswith("TEMPORAL_") else ""
        if meant and name not in _VARIABLES and not name.startswith("TEMPORAL_GRPC_META_"):
            warn(f"the variable {name} is not read; {meant}")
    try:
        ClientConfig.load(config_file_strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        warn(f"{_toml(error)}; it is ignored")
    settings.setdefault("target_host", "localhost:7233")
    return settings


@asynccontextmanager
async def explain_failure(address: str, timeout_seconds: float, todo: str) -> AsyncIterator[None]:
    """Connect to an address within a time; `todo` is the fix if no server answers there.

    Raises:
        TemporalConnectionError: the address is invalid, or the connection failed.
    """
    _check_address(address)
    try:
        async with asyncio.timeout(timeout_seconds):
            yield
    except (TimeoutError, RuntimeError, ValueError, RPCError) as error:
        raise _connection_error(address, error, todo) from error


def _reason_and_fix(error: Exception) -> tuple[str, str]:
    if isinstance(error, OSError):
        named = f"{error.filename}, which Temporal's settings name,"
        return f"{named} cannot be read: {error.strerror}", _FIX_SETTINGS
    found = re.match(r"Profile '(.*)' not found", str(error))
    if found is None:
        return f"Temporal's settings cannot be read: {_toml(error)}", _FIX_SETTINGS
    profile, known = found.group(1), ClientConfig.load().profiles
    fix = suggest_names(profile, known, f"there is none: check {CONFIG_FILE}")
    return f"TEMPORAL_PROFILE: no profile {quote_value(profile)}", fix


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if "://" in address:
        reason, meant = "it has a scheme", address.partition("://")[2].partition("/")[0]
    elif not colon:
        reason, meant = "it has no port", f"{address}:7233"
    elif not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        reason, meant = f"its port is no number up to {_MAX_PORT}", f"{host}:7233"
    else:
        return
    wrong = f"TEMPORAL_ADDRESS: {quote_value(address)} is no address: {reason}"
    raise TemporalConnectionError(wrong, f"write HOST:PORT, such as {meant}", in_settings=True)


def _connection_error(address: str, error: BaseException, todo: str) -> TemporalConnectionError:
    text = " ".join(str(error).split()).removeprefix("Failed client connect: ")
    wrong = f"no Temporal server answers at {address}"
    if not text or "ConnectionRefused" in text:
        return TemporalConnectionError(wrong, todo)
    for pattern, reason, fix in _REASONS:
        if re.search(pattern, text):
            return TemporalConnectionError(f"{wrong}: {reason}", fix)
    for pattern, reason, fix in _IN_SETTINGS:
        if re.search(pattern, text):
            return TemporalConnectionError(reason, fix, in_settings=True)
    return TemporalConnectionError(f"{wrong} ({text[:_MAX_QUOTED_CHARS]})", todo)


def _toml(error: Exception) -> str:
    """Return the message about a TOML file with its name, without the excerpt."""
    text = str(error).removeprefix("Configuration loading error: ").strip()
    found = re.match(r"TOML parse error at line (\d+), column \d+\n.*\n(.+)", text, re.DOTALL)
    file = os.environ.get(CONFIG_FILE) or "temporal.toml"
    message = f"{file}: line {found.group(1)}: {found.group(2)}" if found else text
    return " ".join(message.split())[:_MAX_QUOTED_CHARS]
