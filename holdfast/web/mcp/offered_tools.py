"""The tools that the MCP server offers: agents and tools of a catalog, and three to follow runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from mcp_types import Tool as McpTool
from mcp_types import ToolAnnotations
from pydantic import Field

from holdfast.catalog.loader import Catalog
from holdfast.client.errors import read_input, wrong_command
from holdfast.client.start import StartRequest
from holdfast.providers.base import short_name
from holdfast.providers.tool_schemas import arguments_schema
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import Strict
from holdfast.schemas.run import CallRequest, RunRequest
from holdfast.schemas.tool import ANONYMOUS, ResolvedTool

# A client cancels a request after a minute.
MAX_WAIT_SECONDS: Final = 45.0
START, WAIT, SHOW = "start_run", "wait_run", "show_run"
# In place of the result, if the run has not finished.
_UNFINISHED: Final[Any] = {
    "type": "object",
    "properties": {"run": {"type": "string"}, "status": {"type": "string"}},
    "required": ["run", "status"],
}
ArgumentsT = TypeVar("ArgumentsT", bound=Strict)


class StartArguments(Strict):
    """Start a run of another tool of this server; return its id, and do not wait."""

    tool: str
    arguments: dict[str, Any] = {}


class ShowArguments(Strict):
    """Show the state of a run, its pending approvals and its last events."""

    run: Annotated[str, Field(min_length=1)]


class WaitArguments(ShowArguments):
    """Wait for the result of a run that has not finished, or for its next approval request."""

    seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = MAX_WAIT_SECONDS


_OWN: Final[Mapping[str, type[Strict]]] = {
    START: StartArguments,
    WAIT: WaitArguments,
    SHOW: ShowArguments,
}


@dataclass(frozen=True)
class OfferedTool:
    """An agent or a tool of the catalog; if `is_wrapped`, its input is the argument `input`."""

    listed: McpTool
    definition: ResolvedAgent | ResolvedTool
    is_wrapped: bool = False

    def start_request(
        self, arguments: Mapping[str, Any], principal: Mapping[str, Any] | None, **more: Any
    ) -> StartRequest:
        """Return the start of a run with these arguments.

        Raises:
            HoldfastError: they do not fit a request.
        """
        model: type[CallRequest | RunRequest] = CallRequest
        fields: dict[str, Any] = {"tool": self.definition.name, "arguments": {**arguments}}
        if isinstance(self.definition, ResolvedAgent):
            model, content = RunRequest, arguments.get("input") if self.is_wrapped else arguments
            fields = {"agent": self.definition.name, "input": content}
        if principal is not None:
            fields["principal"] = principal
        request = read_arguments(model, fields)
        if isinstance(request, RunRequest) and (lack := request.lack_of_input()):
            raise wrong_command(lack, "write the task as `input`")
        return StartRequest.of(request, fields, started_by="`holdfast mcp`", **more)


def read_arguments(model: type[ArgumentsT], given: Mapping[str, Any]) -> ArgumentsT:
    """Return the arguments of a call, or raise `HoldfastError`: they do not fit."""
    return read_input(model, given, "call", "see the tool's schema")


def own_tools() -> list[McpTool]:
    """Return the tools that start and follow runs."""
    return [
        McpTool(
            name=name,
            description=model.__doc__,
            input_schema=model.model_json_schema(),
            annotations=ToolAnnotations(read_only_hint=name != START),
        )
        for name, model in _OWN.items()
    ]


def offered_tools(catalog: Catalog) -> dict[str, OfferedTool]:
    """Return the agents and the tools of a catalog, by the names that MCP clients use."""
    tools = catalog.definitions.tools.values()
    # A model answers the calls of the others.
    callable_tools = [each for each in tools if not each.latent and each.delegate != ANONYMOUS]
    definitions: list[ResolvedAgent | ResolvedTool] = [*catalog.agents.values(), *callable_tools]
    found: dict[str, OfferedTool] = {}
    for each in definitions:
        name = short_name(each.name)
        while name in {*_OWN, *found}:
            kind = "agent" if isinstance(each, ResolvedAgent) else "tool"
            name = short_name(f"{kind}_{name}")
        found[name] = _offered(name, each)
    return found


def _offered(name: str, definition: ResolvedAgent | ResolvedTool) -> OfferedTool:
    label, hints, is_wrapped = None, None, False
    if isinstance(definition, ResolvedTool):
        schema, label = {"type": "object", **definition.parameters}, definition.label
        # What a delegate does, the calls of its agent declare.
        if definition.delegate is None or definition.side_effects:
            hints = ToolAnnotations(
                read_only_hint=not definition.side_effects,
                destructive_hint=definition.side_effects,
                idempotent_hint=definition.idempotent,
            )
    else:
        wanted = {"type": "string"} if definition.input is None else definition.input
        is_wrapped = not (isinstance(wanted, dict) and wanted.get("type") == "object")
        wrapped = {"type": "object", "properties": {"input": wanted}, "required": ["input"]}
        schema = wrapped if is_wrapped else {**wanted}  # type: ignore[dict-item]
    output = None  # older revisions of the protocol have objects alone
    match definition.output:
        case dict(own) if own.get("type") == "object":
            # References in it are relative to it.
            root = {"$id": f"urn:holdfast:output:{name}"} if "$ref" in str(own) else {}
            output = {"type": "object", "anyOf": [{**root, **own}, _UNFINISHED]}
    description = definition.description or f"Run {definition.name}."
    schema, description = arguments_schema("mcp", schema, description)
    listed = McpTool(
        name=name,
        title=label,
        description=description,
        input_schema=schema,
        output_schema=output,
        annotations=hints,
    )
    return OfferedTool(listed, definition, is_wrapped)
