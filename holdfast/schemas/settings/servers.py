"""MCP servers: the worker's own configuration, which no agent, run or model can change."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel, ValidationError, model_validator

from holdfast.schemas.base import SCHEMA_URI, Duration, OneOf, Variable
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import META_PROPERTIES, ToolDefinition

# Short enough for the names of its tools, which begin with it.
SERVER_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,39}$"
# The server itself, or the worker, determines the others.
_NOT_TO_OVERRIDE = (
    *("_tool", "_parameters", "_output", "_activity", "_delegate", "_person"),
    *("_scopes", "_instance"),
)
OVERRIDES = tuple(name for name in META_PROPERTIES if name not in _NOT_TO_OVERRIDE)
_OVERRIDES_SCHEMA: JsonValue = {"propertyNames": {"enum": [*OVERRIDES]}}
# Each applies beside one of `command` and `url`.
_OF_PROGRAM = ("args", "envFrom")
_OF_ADDRESS = ("headersEnv", "auth", "principalTokens")
_File = Annotated[str, Field(pattern="^/")]


class ClientAuth(OneOf):
    """The worker as a client of an authorization server (OAuth 2.1, client credentials)."""

    one_of = ("client_secret_env", "private_key_file")

    issuer: Annotated[str, Field(pattern=r"^https?://[^/@\s?#]+(/[^\s?#]*)?$")]
    """The authorization server; no other receives the secret."""
    client_id: Annotated[str, Field(min_length=1)]
    """The worker's name there."""
    client_secret_env: Variable | None = None
    """The environment variable that holds its secret."""
    private_key_file: _File | None = None
    """The file, by its full path, that holds its private key in PEM, in place of a secret."""


class Server(OneOf):
    """One MCP server: where it is or how it is started, and how far its hints are trusted."""

    one_of = ("url", "command")
    model_config = ConfigDict(
        json_schema_extra={
            "dependentSchemas": {
                "url": {"properties": dict.fromkeys(_OF_PROGRAM, False)},
                "command": {"properties": dict.fromkeys(_OF_ADDRESS, False)},
            }
        }
    )

    url: Annotated[str | None, Field(pattern=r"^https?://[^/@\s]+([/?]\S*)?$")] = None
    """Where it is (Streamable HTTP), such as https://shop.example/mcp."""
    headers_env: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")], Variable
    ] = {}
    """Headers of every request: of each, the environment variable that holds its value."""
    auth: ClientAuth | None = None
    """The worker's own identity, whose tokens the requests carry."""
    principal_tokens: _File | None = None
    """The folder, by its full path, with a token for each principal, which their calls carry."""
    command: Annotated[str | None, Field(min_length=1)] = None
    """The program that each worker starts, and uses by its standard input and output."""
    args: list[str] = []
    """The program's arguments, none of them secret."""
    env_from: list[Variable] = []
    """The variables of the worker's environment that the program receives."""
    protocol: Literal["auto", "legacy", "2026-07-28"] = "auto"
    """The revision of the protocol: that of 2026, an older one (`legacy`), or what it has."""
    timeout: Duration | None = None
    """How long one call may take (default: 30s)."""
    trusted: bool = False
    """Believe its hints that a tool has no side effects, or may be called twice."""
    overrides: dict[
        str, Annotated[dict[str, Any], Field(json_schema_extra={**_OVERRIDES_SCHEMA})]
    ] = {}
    """By the name of a tool: meta-properties, in place of its hints and our defaults."""

    @model_validator(mode="after")
    def _complete(self) -> "Server":
        other, unused = ("command", _OF_ADDRESS) if self.command else ("url", _OF_PROGRAM)
        written = self.model_dump(by_alias=True)
        for field in unused:
            if written[field]:
                raise ValueError(f"`{field}` does not apply beside `{other}`; leave it out")
        for tool, properties in self.overrides.items():
            for name in properties:
                if name not in OVERRIDES:
                    fix = suggest_names(name, OVERRIDES)
                    raise ValueError(f"`overrides` of `{tool}` cannot have `{name}`; {fix}")
            try:
                ToolDefinition.model_validate(properties, by_alias=True, by_name=False, strict=True)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                reason = f"`overrides` of `{tool}`: `{where}`: {first['msg']}"
                raise ValueError(f"{reason}; see the tool options") from None
        return self


class Servers(RootModel[dict[Annotated[str, Field(pattern=SERVER_NAME_PATTERN)], Server]]):
    """`servers.yaml`: MCP servers by name."""

    # What an editor checks the file with is no server.
    model_config = ConfigDict(json_schema_extra={"properties": {"$schema": SCHEMA_URI}})


McpLocked = dict[str, dict[str, str]]
"""The locked tools, by `SERVER/TOOL`: of each its digest, and short ones of its parts."""


class McpLock(RootModel[McpLocked]):
    """`mcp.lock.json`."""
