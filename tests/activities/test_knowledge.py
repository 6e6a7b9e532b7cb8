"""`fetch_knowledge`: texts, files and addresses, within bounds and off no beaten path."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError

from holdfast.activities import knowledge
from holdfast.activities.knowledge import FetchKnowledgeActivity
from holdfast.catalog.builtin_tools import MAX_KNOWLEDGE_BYTES
from holdfast.catalog.endpoints import http_client
from holdfast.runtime.addresses import AddressPrefix

URL = "https://docs.acme.org/guide/returns"
TEXT = {"content-type": "text/plain; charset=utf-8"}

Handler = Callable[[httpx.Request], Any]


async def fetched(handler: Handler, url: str = URL) -> str:
    transport = httpx.MockTransport(handler)
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as http:
        prefixes = [AddressPrefix.read("https://docs.acme.org/guide")]
        return await FetchKnowledgeActivity(http, None, prefixes).fetch_knowledge({"url": url})


async def answered(status: int = 200, content: Any = b"", **headers: str) -> str:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    body = streamed(content) if isinstance(content, bytes) else content
    return await fetched(lambda _: httpx.Response(status, headers=said, content=body))


async def streamed(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def refusal(status: int = 200, content: Any = b"", **headers: str) -> ApplicationError:
    with pytest.raises(ApplicationError) as refused:
        await answered(status, content, **headers)
    assert refused.value.type == "tool_error"
    return refused.value


@pytest.fixture
def library(tmp_path: Path) -> FetchKnowledgeActivity:
    (tmp_path / "handbook.md").write_text("Be kind.\r\nAlways.", encoding="utf-8")
    return FetchKnowledgeActivity(http_client(), tmp_path, [])


async def test_a_text_is_given_as_it_is(library: FetchKnowledgeActivity) -> None:
    assert await library.fetch_knowledge({"text": '{"_result": 1}'}) == '{"_result": 1}'


async def test_a_file_is_read_when_it_is_asked_for(
    library: FetchKnowledgeActivity, tmp_path: Path
) -> None:
    assert await library.fetch_knowledge({"file": "handbook.md"}) == "Be kind.\nAlways."
    (tmp_path / "handbook.md").write_text("Be swift.")
    assert await library.fetch_knowledge({"file": "handbook.md"}) == "Be swift."


@pytest.mark.parametrize("file", ["gone.md", "../handbook.md", "later.md"])
async def test_a_file_that_is_not_there_any_more_or_was_moved_out_is_final(
    library: FetchKnowledgeActivity, tmp_path: Path, file: str
) -> None:
    (tmp_path / "later.md").symlink_to("/etc/hostname")
    with pytest.raises(ApplicationError, match="cannot be read: ") as refused:
        await library.fetch_knowledge({"file": file})
    assert refused.value.non_retryable
    assert str(tmp_path) not in str(refused.value)


async def test_a_worker_without_a_catalog_reads_no_file() -> None:
    with pytest.raises(ApplicationError, match="cannot be read here"):
        await FetchKnowledgeActivity(http_client(), None, []).fetch_knowledge(
            {"file": "handbook.md"}
        )


@pytest.mark.parametrize(
    ("content_type", "content", "text"),
    [
        ("text/plain", "Grüße".encode(), "Grüße"),
        ("text/plain", b"\xef\xbb\xbfHello", "Hello"),
        ("text/html; charset=ISO-8859-1", "Grüße".encode("latin-1"), "Grüße"),
        ('text/plain; charset="utf-16"', "Grüße".encode("utf-16"), "Grüße"),
        ("application/json", b'{"_result": {}}', '{"_result": {}}'),
        ("application/problem+json", b"{}", "{}"),
        ("application/yaml", b"a: 1", "a: 1"),
    ],
)
async def test_an_address_gives_text_in_its_own_encoding(
    content_type: str, content: bytes, text: str
) -> None:
    assert await answered(content=content, content_type=content_type) == text


async def test_it_is_asked_for_as_it_is_and_with_nothing_of_ours() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, headers=TEXT, content=streamed(b"x"))

    await fetched(answer, f"{URL}?page=2")
    [request] = asked
    assert (request.method, str(request.url)) == ("GET", f"{URL}?page=2")
    assert request.headers["accept-encoding"] == "identity"
    assert not {"authorization", "cookie"} & set(request.headers)


@pytest.mark.parametrize(
    ("content_type", "reason"),
    [
        ("image/png", "is no text but `image/png`"),
        ("application/octet-stream", "is no text"),
        ("text/plain; charset=idna", "an encoding that is not read: `idna`"),
        ("text/plain; charset=zlib", "an encoding that is not read: `zlib`"),
        ("text/plain; charset=nonsense", "an encoding that is not read: `nonsense`"),
        ("text/plain", "is not in utf-8, which its `content-type` names"),
    ],
)
async def test_what_is_no_text_is_refused(content_type: str, reason: str) -> None:
    error = await refusal(content=b"\xff\xfe\xff", content_type=content_type)
    assert reason in error.message
    assert error.non_retryable


async def test_content_without_a_type_is_refused() -> None:
    assert "is no text" in (await refusal(content=b"x")).message


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://169.254.169.254/latest", "http://169.254.169.254/latest"),
        ("https://ann:pass@x.org/y?sig=1#z", "https://x.org/y"),
    ],
)
async def test_a_redirect_is_reported_without_secrets_and_not_followed(
    location: str, told: str
) -> None:
    error = await refusal(302, location=location)
    assert f"has moved to `{told}`; redirects are not followed" in str(error)
    assert error.non_retryable


async def test_what_is_too_large_is_not_read_to_its_end() -> None:
    sent: list[int] = []

    async def endless() -> Any:
        while True:
            sent.append(len(sent))
            yield b"x" * 50_000

    error = await refusal(content=endless(), content_type="text/plain")
    assert f"more than the {MAX_KNOWLEDGE_BYTES} bytes" in error.message
    assert error.non_retryable
    assert len(sent) < 10


async def test_what_is_sent_compressed_all_the_same_is_refused() -> None:
    bomb = gzip.compress(b"x" * 1_000_000)
    error = await refusal(content=bomb, content_type="text/plain", content_encoding="gzip")
    assert "was sent as `gzip`" in error.message


@pytest.mark.parametrize(
    ("status", "again"), [(400, False), (404, False), (408, True), (429, True), (503, True)]
)
async def test_what_passes_is_tried_again(status: int, again: bool) -> None:
    error = await refusal(status)
    assert f"{URL} answered {status}" in error.message
    assert error.non_retryable is not again


@pytest.mark.parametrize(("after", "seconds"), [("7", 7), ("3600", 60)])
async def test_a_server_sets_the_delay_and_no_call_waits_for_long(after: str, seconds: int) -> None:
    assert (await refusal(429, retry_after=after)).next_retry_delay == timedelta(seconds=seconds)


async def test_a_broken_connection_is_tried_again_and_reported_without_the_query() -> None:
    def broken(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    with pytest.raises(ApplicationError, match=f"{URL} cannot be read: no route") as refused:
        await fetched(broken, f"{URL}?token=secret")
    assert not refused.value.non_retryable


async def test_a_server_that_drips_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge, "MAX_FETCH_SECONDS", 0.01)

    async def slow(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("it was waited for")

    with pytest.raises(ApplicationError, match="took more than") as refused:
        await fetched(slow)
    assert not refused.value.non_retryable


async def test_what_the_operator_does_not_allow_is_not_asked_for() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise AssertionError("it was asked for")

    with pytest.raises(ApplicationError, match="does not allow") as refused:
        await fetched(answer, "https://docs.acme.org/other")
    assert refused.value.non_retryable


async def test_a_source_of_a_later_version_is_none() -> None:
    with pytest.raises(ApplicationError, match="nothing to fetch"):
        await FetchKnowledgeActivity(http_client(), None, []).fetch_knowledge({"bucket": "x"})


async def test_the_workers_client_keeps_no_cookies() -> None:
    async with http_client() as http:
        request = httpx.Request("GET", URL)
        response = httpx.Response(200, headers={"set-cookie": "a=b"}, request=request)
        http.cookies.extract_cookies(response)
        assert not list(http.cookies.jar)
