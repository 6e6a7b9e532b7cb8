"""The activity `fetch_knowledge`: the knowledge of an agent, read when a call requests it.

A text is returned as it is, a file of the catalog is read, an address that the operator allows is
fetched, a resource is read from its MCP server. All are returned as text, never as JSON: an object
from elsewhere could claim to be more than a result.
"""

import asyncio
import codecs
import re
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from temporalio import activity

from holdfast.activities.ssrf_guard import NoPublicAddressError
from holdfast.catalog.builtin_tools import MAX_KNOWLEDGE_BYTES, read_knowledge
from holdfast.catalog.mcp_tools import MCP, Listing, is_mcp
from holdfast.providers.model_errors import RETRIED_STATUS
from holdfast.runtime.addresses import AddressError, AddressPrefix, allowed_address, display_address
from holdfast.runtime.http_post import request_error, retry_delay
from holdfast.runtime.settings_files.file_problems import UnreadableError
from holdfast.schemas import names
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.tool import KnowledgeSource

# Less than the 30 seconds of an attempt.
MAX_FETCH_SECONDS = 25
FETCH_TIMEOUT = httpx.Timeout(10)
# A call waits no longer, whatever a server requests.
MAX_RETRY_DELAY = timedelta(minutes=1)
_TEXT = re.compile(r"text/.+|application/(.+\+)?(json|xml|yaml)|application/x-yaml")
# By Python's names. It has others that are slow, or no encodings of text.
_CHARSETS = re.compile(
    r"ascii|utf-(8|16|32)(-[bl]e)?|iso(8859|2022).*|cp\d+|koi8-[rtu]|gb.+|big5.*|euc_.+"
    r"|shift_jis.*|mac-.+|tis-620"
)

# An error for the model.
_error = partial(request_error, ErrorCode.TOOL_ERROR)


class FetchKnowledgeActivity:
    """Fetches from the catalog of one worker, and from the addresses that it allows."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        folder: Path | None,
        prefixes: Collection[AddressPrefix],
        list_tools: Callable[[Collection[str]], Awaitable[Listing]] | None = None,
    ) -> None:
        self._http, self._list_tools = http, list_tools
        self._folder = folder
        self._prefixes = prefixes

    @activity.defn(name=names.FETCH_KNOWLEDGE)
    async def fetch_knowledge(self, source: dict[str, Any]) -> str:
        """Return the text of a `schemas.tool.KnowledgeSource`.

        Raises:
            ApplicationError: of type `tool_error`, retried or not: the source cannot be read.
        """
        match KnowledgeSource.read(source):
            case KnowledgeSource(text=str(text)):
                return text
            case KnowledgeSource(file=str(file)):
                if self._folder is None:
                    raise _error(f"the file {quote_value(file)} cannot be read here")
                try:
                    return await asyncio.to_thread(read_knowledge, self._folder, file)
                except UnreadableError as error:
                    reason = f"the file {quote_value(file)} cannot be read: {error.reason}"
                    raise _error(reason) from None
            case KnowledgeSource(url=str(url)) if is_mcp(url):
                # No other program can start a local activity, and read what this worker may.
                if self._list_tools is None or not activity.info().is_local:
                    raise _error(f"the resource {quote_value(url)} cannot be read here")
                [found] = (await self._list_tools([url.removeprefix(MCP)])).values()
                if isinstance(found, str):
                    raise _error(found)
                return found[0].description or ""
            case KnowledgeSource(url=str(url)):
                return await self._url(url)
            case _:
                raise _error("there is nothing to fetch")

    async def _url(self, text: str) -> str:
        try:
            url = allowed_address(text, self._prefixes)
        except AddressError as error:
            raise _error(str(error)) from None
        where = display_address(url)
        headers = {
            "accept": "text/*, application/json, application/xml, application/yaml",
            # The size of a compressed text is unknown.
            "accept-encoding": "identity",
        }
        try:
            async with (
                asyncio.timeout(MAX_FETCH_SECONDS),
                self._http.stream(
                    "GET", url, headers=headers, timeout=FETCH_TIMEOUT, follow_redirects=False
                ) as response,
            ):
                _check_status(response, where)
                charset = _charset_of(response, where)
                data = bytearray()
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > MAX_KNOWLEDGE_BYTES:
                        limit = f"the {MAX_KNOWLEDGE_BYTES} bytes that are read"
                        raise _error(f"{where} has more than {limit}")
            return data.decode(charset).removeprefix("\ufeff")
        except TimeoutError:
            raise _error(f"{where} took more than {MAX_FETCH_SECONDS} s", retried=True) from None
        except NoPublicAddressError as error:
            raise _error(f"{where} cannot be read: {error}") from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise _error(f"{where} cannot be read: {reason}", retried=True) from None
        except UnicodeDecodeError:
            raise _error(f"{where} is not in {charset}, which its `content-type` names") from None


def _check_status(response: httpx.Response, where: str) -> None:
    status = response.status_code
    if response.is_success:
        return
    if response.is_redirect:
        to = response.next_request
        moved = f" to {quote_value(display_address(to.url))}" if to is not None else ""
        raise _error(f"{where} has moved{moved}; redirects are not followed: name that address")
    again = status in RETRIED_STATUS or status >= 500
    delay = retry_delay(response.headers, datetime.now(UTC)) if again else None
    delay = min(delay, MAX_RETRY_DELAY) if delay is not None else None
    raise _error(
        f"{where} answered {status} {response.reason_phrase}".strip(), retried=again, delay=delay
    )


def _charset_of(response: httpx.Response, where: str) -> str:
    headers = Message()
    headers["content-type"] = response.headers.get("content-type", "application/octet-stream")
    if not _TEXT.fullmatch(headers.get_content_type()):
        raise _error(f"{where} is no text but {quote_value(headers.get_content_type())}")
    coding = response.headers.get("content-encoding", "identity")
    if coding != "identity":
        raise _error(
            f"{where} was sent as {quote_value(coding)}, although the request does not accept that"
        )
    charset = headers.get_content_charset("utf-8")
    try:
        name = codecs.lookup(charset).name
    except LookupError:
        name = ""
    if not _CHARSETS.fullmatch(name):
        raise _error(f"{where} is in an encoding that is not read: {quote_value(charset)}")
    return name
