"""Explain why Temporal cannot be reached, in the same words for the worker and the commands.

The SDK's errors are written for programmers. Here each becomes a problem and the setting that
fixes it. The caller that connects reads the settings; this module only words their errors.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.schemas.phrases import closest_names, quote_value, suggest_names

CONFIG_FILE: Final = "TEMPORAL_CONFIG_FILE"
_FIX_SETTINGS: Final = "fix temporal.toml or the TEMPORAL_ variables"
_TLS_PAIR: Final = "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"
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


class ConnectionProblem(NamedTuple):
    """A problem and its fix; `in_settings` is true if no request was sent to a server."""

    reason: str
    fix: str
    in_settings: bool = False


# A part of the SDK's text, its meaning, and what to do about it.
_REASONS: Final = (
    (r"dns error|failed to lookup", "its name is not known", "check TEMPORAL_ADDRESS"),
    (
        r"InvalidContentType",
        "it does not speak TLS",
        "unset TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
    ),
    (
        r"h2 protocol error|http2 error",
        "what answers there does not speak Temporal's gRPC",
        "set TEMPORAL_ADDRESS to the server's own port, 7233 by default (its UI has another), or"
        " TEMPORAL_TLS=true where it wants TLS",
    ),
    (
        r"[Ii]nvalid peer certificate|UnknownIssuer|UnknownCA",
        "its certificate is not one to trust",
        "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the certificate of who issued it",
    ),
)
_IN_SETTINGS: Final = (
    (r"both client cert and private key", "TLS has a certificate or a key alone", _TLS_PAIR),
    (r"Invalid headers", "a TEMPORAL_GRPC_META_ variable makes no header", ""),
)


def settings_problem(
    error: Exception, environ: Mapping[str, str], profiles: Callable[[], Iterable[str]]
) -> ConnectionProblem:
    """Explain why the settings cannot be read; `profiles` returns the existing profiles."""
    if isinstance(error, OSError):
        wrong = (
            f"{error.filename}, which Temporal's settings name, cannot be read: {error.strerror}"
        )
        return ConnectionProblem(wrong, _FIX_SETTINGS, True)
    profile = re.match(r"Profile '(.*)' not found", str(error))
    if profile is not None:
        nothing = f"there is none: check {CONFIG_FILE}"
        fix = suggest_names(profile.group(1), profiles(), nothing)
        return ConnectionProblem(
            f"TEMPORAL_PROFILE: no profile {quote_value(profile.group(1))}", fix, True
        )
    wrong = f"Temporal's settings cannot be read: {_toml(error, environ)}"
    return ConnectionProblem(wrong, _FIX_SETTINGS, True)


def address_problem(address: str) -> ConnectionProblem | None:
    """Explain why an address is invalid, or return None."""
    if "://" in address:
        meant = address.partition("://")[2].partition("/")[0]
        return _no_address(address, "it has a scheme", meant)
    host, colon, port = address.rpartition(":")
    if not colon:
        return _no_address(address, "it has no port", f"{address}:7233")
    if not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        return _no_address(address, f"its port is no number up to {_MAX_PORT}", f"{host}:7233")
    return None


def connection_problem(address: str, error: BaseException, todo: str) -> ConnectionProblem:
    """Explain why a connection failed; `todo` is the fix if no server answers at the address."""
    text = " ".join(str(error).split()).removeprefix("Failed client connect: ")
    wrong = f"no Temporal server answers at {address}"
    if not text or "ConnectionRefused" in text:
        return ConnectionProblem(wrong, todo)
    for pattern, reason, fix in _REASONS:
        if re.search(pattern, text):
            return ConnectionProblem(f"{wrong}: {reason}", fix)
    for pattern, reason, setting in _IN_SETTINGS:
        if re.search(pattern, text):
            fix = f"set both {setting}" if setting else "rename or unset it"
            return ConnectionProblem(reason, fix, True)
    return ConnectionProblem(f"{wrong} ({text[:_MAX_QUOTED_CHARS]})", todo)


def settings_warnings(
    environ: Mapping[str, str], exists: Callable[[str], bool], read_strictly: Callable[[], object]
) -> Iterator[str]:
    """Yield warnings about settings that Temporal programs ignore.

    `exists` returns whether there is a file. `read_strictly` raises if `temporal.toml` has an
    unknown field.
    """
    file = environ.get(CONFIG_FILE)
    if file and not exists(file):
        yield f"{CONFIG_FILE}: there is no file {file}; its settings are not there"
    for name in environ:
        meant = closest_names(name, _VARIABLES, _NEARLY) if name.startswith("TEMPORAL_") else []
        if meant and name not in _VARIABLES and not name.startswith("TEMPORAL_GRPC_META_"):
            yield f"the variable {name} is not read; {suggest_names(name, meant)}"
    try:
        read_strictly()
    except (OSError, RuntimeError, ValueError) as error:
        yield f"{_toml(error, environ)}; that is passed over"


def _no_address(address: str, reason: str, meant: str) -> ConnectionProblem:
    wrong = f"TEMPORAL_ADDRESS: {quote_value(address)} is no address: {reason}"
    return ConnectionProblem(wrong, f"write HOST:PORT, such as {meant}", True)


def _toml(error: Exception, environ: Mapping[str, str]) -> str:
    """Return the message about a TOML file with its name, without the excerpt."""
    text = str(error).removeprefix("Configuration loading error: ").strip()
    found = re.match(r"TOML parse error at line (\d+), column \d+\n.*\n(.+)", text, re.DOTALL)
    file = environ.get(CONFIG_FILE) or "temporal.toml"
    message = f"{file}: line {found.group(1)}: {found.group(2)}" if found else text
    return " ".join(message.split())[:_MAX_QUOTED_CHARS]
