"""The MCP servers of `servers.yaml`. The library is imported only if there are some."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import read_source
from holdfast.runtime.text_safety import extra_command
from holdfast.schemas.settings.servers import Server, Servers
from holdfast.validation.problems import ValueProblem

# The values of these fields may hold a key.
_SECRET = frozenset({"url", "headersEnv", "args", "envFrom", "auth", "principalTokens"})


def load_servers(file: Path | None) -> dict[str, Server]:
    """Load the servers of a file, by name.

    Raises:
        LoadError: the file does not load, or the library is not installed.
    """
    if file is None:
        return {}
    source = read_source(file)
    if isinstance(source.value, dict):
        source.value.pop("$schema", None)
    servers = source.parse_as(Servers, _hide_value).root
    try:
        import_module("mcp")
    except ImportError as error:
        reason = f"MCP servers need the package {error.name}, which is not installed"
        fault = ValueProblem((), reason, extra_command("mcp"))
        raise LoadError([source.problem(fault)]) from None
    return servers


def _hide_value(fault: ValueProblem) -> ValueProblem:
    """Remove the value from a problem if it may hold a key."""
    is_shown = _SECRET.isdisjoint(fault.where) or not fault.reason.endswith("does not fit")
    return fault if is_shown else replace(fault, reason="the value does not fit")
