"""Requests go to an address that was looked at, and to no other that a name may lead to later."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError

from holdfast.activities import ssrf_guard
from holdfast.activities.knowledge import FetchKnowledgeActivity
from holdfast.activities.ssrf_guard import (
    MAX_TRIED_ADDRESSES,
    PinnedTransport,
    is_public,
    knowledge_client,
    read_network,
)
from holdfast.runtime.addresses import AddressError, AddressPrefix

PUBLIC, PUBLIC_6, PRIVATE = "93.184.216.34", "2606:2800:220:1::1", "10.1.2.3"
TEXT = {"content-type": "text/plain"}


class Dns:
    """Names, each with the addresses that it leads to when it is asked for the nth time."""

    def __init__(self, *answers: Collection[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Collection[str]:
        self.asked.append(f"{host}:{port}")
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


Answer = Callable[[httpx.Request], httpx.Response]


def hello(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers=TEXT, text="Hello")


class Net:
    """A network in which each request is answered, and looked at."""

    def __init__(self, answer: Answer = hello) -> None:
        self.requests: list[httpx.Request] = []
        self._answer = answer

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answer(request)

    @property
    def reached(self) -> list[str]:
        return [request.url.host for request in self.requests]


@asynccontextmanager
async def client(net: Net, dns: Dns, *networks: str) -> AsyncIterator[httpx.AsyncClient]:
    allowed = [read_network(each) for each in networks]
    transport = PinnedTransport(httpx.MockTransport(net), allowed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ssrf_guard, "_resolved", dns)
        async with httpx.AsyncClient(transport=transport) as http:
            yield http


async def test_a_request_goes_to_the_address_and_is_still_for_the_name() -> None:
    net, dns = Net(), Dns([PUBLIC])
    async with client(net, dns) as http:
        response = await http.get("https://docs.acme.org:8443/a%2Fb?q=1")
    [sent] = net.requests
    assert str(sent.url) == f"https://{PUBLIC}:8443/a%2Fb?q=1"
    assert sent.headers["host"] == "docs.acme.org:8443"
    assert sent.extensions["sni_hostname"] == "docs.acme.org"
    assert dns.asked == ["docs.acme.org:8443"]
    assert str(response.request.url) == "https://docs.acme.org:8443/a%2Fb?q=1"


async def test_a_name_that_leads_elsewhere_a_moment_later_is_not_asked_again() -> None:
    net, dns = Net(), Dns([PUBLIC], ["127.0.0.1"])
    async with client(net, dns) as http:
        await http.get("https://docs.acme.org/")
        assert net.reached == [PUBLIC]
        with pytest.raises(httpx.ConnectError, match="no public address"):
            await http.get("https://docs.acme.org/")
    assert net.reached == [PUBLIC]


@pytest.mark.parametrize(
    "address",
    [
        # Services of clouds.
        *("168.63.129.16", "192.0.0.192", "fec0::1", "64:ff9b::a83f:8110", "::ffff:168.63.129.16"),
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1"),
        *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        # IPv4 within IPv6.
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1", "2002:7f00:1::"),
        *("2002:a00:1::", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1"),
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
async def test_what_is_no_public_address_is_refused(address: str) -> None:
    assert not is_public(ip_address(address))
    net = Net()
    async with client(net, Dns([address])) as http:
        with pytest.raises(httpx.ConnectError, match="--knowledge-network"):
            await http.get("http://docs.acme.org/")
    assert net.reached == []


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_6, "8.8.8.8", "64:ff9b::808:808"])
async def test_what_is_one_is_asked(address: str) -> None:
    net = Net()
    async with client(net, Dns([address])) as http:
        await http.get("http://docs.acme.org/")
    assert net.reached == [address]


async def test_of_several_addresses_only_those_that_are_public_are_tried_and_not_many() -> None:
    def gone(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    net = Net(gone)
    many = [f"93.184.216.{n}" for n in range(9)]
    async with client(net, Dns([PRIVATE, *many])) as http:
        with pytest.raises(httpx.ConnectError, match="no route"):
            await http.get("http://docs.acme.org/")
    assert net.reached == many[:MAX_TRIED_ADDRESSES]


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    def half(request: httpx.Request) -> httpx.Response:
        if request.url.host == PUBLIC_6:
            raise httpx.ConnectTimeout("silent")
        return httpx.Response(200)

    net = Net(half)
    async with client(net, Dns([PUBLIC_6, PUBLIC])) as http:
        assert (await http.get("http://docs.acme.org/")).is_success
    assert net.reached == [PUBLIC_6, PUBLIC]


async def test_a_network_that_the_operator_names_may_be_led_to() -> None:
    net = Net()
    async with client(net, Dns([PRIVATE]), "10.1.0.0/16") as http:
        await http.get("http://wiki.acme.org/")
    async with client(net, Dns([PRIVATE]), "10.2.0.0/16", "fd00::/8") as http:
        with pytest.raises(httpx.ConnectError):
            await http.get("http://wiki.acme.org/")
    assert net.reached == [PRIVATE]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "10.1.2.3"])
async def test_an_address_itself_has_been_named(host: str) -> None:
    net, dns = Net(), Dns([])
    async with client(net, dns) as http:
        await http.get(f"http://{host}:8080/x")
    assert [str(request.url) for request in net.requests] == [f"http://{host}:8080/x"]
    assert dns.asked == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.1", "127.1"])
async def test_an_address_in_another_spelling_is_a_name_that_leads_there(host: str) -> None:
    async with knowledge_client() as http:
        with pytest.raises(httpx.ConnectError, match="no public address"):
            await http.get(f"http://{host}:9/x")


async def test_an_unknown_host_name_is_an_error_of_the_request() -> None:
    async with knowledge_client() as http:
        with pytest.raises(httpx.ConnectError, match="its name is not known"):
            await http.get("http://nobody.invalid/x")


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "acme.org", "", "10.0.0.0-9"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match="is no network; write an address"):
        read_network(text)


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy that answers by itself, and what it was asked for."""
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n")).strip())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.mark.parametrize(
    "variables",
    [
        {"HTTP_PROXY": "{0}", "ALL_PROXY": "http://proxy.invalid"},
        {"http_proxy": "{1}"},
        {"ALL_PROXY": "{0}", "HTTPS_PROXY": "http://proxy.invalid"},
    ],
)
async def test_where_there_is_a_proxy_it_gets_the_name_and_nothing_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    async def never(host: str, port: int) -> Any:
        raise AssertionError(f"{host} was looked up")

    monkeypatch.setattr(ssrf_guard, "_resolved", never)
    async with proxy() as (url, asked):
        # The proxy of a scheme comes first.
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value.format(url, url.removeprefix("http://")))
        monkeypatch.setenv("NO_PROXY", "other.invalid, direct.invalid,10.0.0.1")
        async with knowledge_client() as http:
            assert (await http.get("http://docs.invalid/x")).text == "hi"
            for host in ("direct.invalid", "of.direct.invalid"):
                with pytest.raises(AssertionError, match=f"{host} was looked up"):
                    await http.get(f"http://{host}/x")
    assert asked == [b"GET http://docs.invalid/x HTTP/1.1"]


async def test_the_certificate_has_to_prove_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssrf_guard, "_resolved", Dns(["127.0.0.1"]))
    seen: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: seen.append(name)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    async with server:
        inner = httpx.AsyncHTTPTransport(trust_env=False)
        transport = PinnedTransport(inner, [read_network("127.0.0.0/8")])
        async with httpx.AsyncClient(transport=transport) as http:
            with pytest.raises(httpx.ConnectError):
                await http.get(f"https://docs.acme.org:{port}/")
    assert seen == ["docs.acme.org"]


async def test_a_model_reads_that_a_name_leads_nowhere_and_it_is_not_tried_again() -> None:
    async with client(Net(), Dns([PRIVATE])) as http:
        fetch = FetchKnowledgeActivity(http, None, [AddressPrefix.read("https://docs.acme.org")])
        with pytest.raises(ApplicationError, match="leads to no public address") as refused:
            await fetch.fetch_knowledge({"url": "https://docs.acme.org/x?key=1"})
    assert refused.value.non_retryable
    assert PRIVATE not in refused.value.message
    assert "key=1" not in refused.value.message


async def test_no_connection_is_kept_for_another_name_that_leads_to_the_same_address() -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, knowledge_client() as http:
        for _ in range(2):
            assert (await http.get(url)).text == "hi"
    assert len(connections) == 2
