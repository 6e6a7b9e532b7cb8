"""Texts of MCP servers: resources as knowledge, and prompts as instructions."""

from mcp import Client
from mcp_types import (
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from pydantic import TypeAdapter

from holdfast.catalog.builtin_tools import MAX_KNOWLEDGE_BYTES

_RESOURCE: TypeAdapter[ReadResourceResult | InputRequiredResult] = TypeAdapter(
    ReadResourceResult | InputRequiredResult
)
_PROMPT: TypeAdapter[GetPromptResult | InputRequiredResult] = TypeAdapter(
    GetPromptResult | InputRequiredResult
)


async def read_resource(uri: str, client: Client) -> str:
    """Return the text of a resource.

    Raises:
        ValueError: it is no text, or has too much of it.
    """
    request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
    result = await client.session.send_request(request, _RESOURCE)
    if isinstance(result, InputRequiredResult):
        raise ValueError("it requires the answer of a person")
    texts = [each.text for each in result.contents if isinstance(each, TextResourceContents)]
    if len(texts) < len(result.contents):
        raise ValueError("it is no text")
    return _bounded(texts)


async def read_prompt(name: str, client: Client) -> str:
    """Return the texts of a prompt without arguments, as one.

    Raises:
        ValueError: as `read_resource`.
    """
    request = GetPromptRequest(params=GetPromptRequestParams(name=name))
    result = await client.session.send_request(request, _PROMPT)
    if isinstance(result, InputRequiredResult):
        raise ValueError("it requires the answer of a person")
    contents = [each.content for each in result.messages if each.role == "user"]
    texts = [each.text for each in contents if isinstance(each, TextContent)]
    if len(texts) < len(result.messages):
        raise ValueError("it has other messages than texts of the user")
    return _bounded(texts)


def _bounded(texts: list[str]) -> str:
    text = "\n\n".join(texts)
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_KNOWLEDGE_BYTES:
        raise ValueError(f"it has {size_bytes} bytes, more than {MAX_KNOWLEDGE_BYTES}")
    if not text.strip():
        raise ValueError("it is empty")
    return text
