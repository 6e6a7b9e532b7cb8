"""Requests for knowledge, over connections to addresses that were looked at first.

An operator allows names. What a name leads to, whoever has it says anew each time: a public name
can be made to lead to the worker's own machine, to its network, or to where a cloud tells a machine
its keys. So the name is looked up here, once for a request; what is no public address is left out;
and the connection goes to one of those that remain, which nobody can exchange in between. The name
still stands in the request and in what the server's certificate has to prove.

An operator who names an address, or `localhost`, has named where that leads; and so has one who
names its network (`--knowledge-network`). Where the environment has a proxy for the address, the
proxy looks the name up and connects: what it may reach is its own to say.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Self
from urllib.request import getproxies

import httpx

from holdfast.runtime.addresses import AddressError
from holdfast.runtime.tls import trusted_certificates
from holdfast.schemas.phrases import quote_value

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Gives the addresses of a host, in the order in which they are to be tried.
ResolveHost = Callable[[str, int], Awaitable[Collection[str]]]

MAX_TRIED_ADDRESSES = 4
MAX_CONNECTIONS = 100
# Where IPv4 is reached through IPv6, the last four bytes are the address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def read_network(text: str) -> Network:
    """A network, such as `10.0.0.0/8`.

    Raises:
        AddressError: it is none.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        mend = "write an address and how many of its bits count, like 10.0.0.0/8"
        raise AddressError(f"{quote_value(text)} is no network", mend) from None


def is_public(address: Address) -> bool:
    """Whether the address is one of the internet's, which belongs to one machine there."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
        if any(each is not None and not is_public(each) for each in inner):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


class NoPublicAddressError(httpx.ConnectError):
    """A name that leads to no address that requests may go to."""


class PinnedTransport(httpx.AsyncBaseTransport):
    """Sends each request to an address that was looked at, by the transport `inner`.

    `inner` must keep no connections: one belongs to an address, and would be used for every name
    that leads there, though it was proved for one.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        networks: Collection[Network] = (),
        look_up: ResolveHost | None = None,
    ) -> None:
        self._inner = inner
        self._networks = networks
        self._look_up = look_up or _looked_up

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; httpx calls this.

        Raises:
            HiddenError: the name leads to nothing that is allowed.
            httpx.HTTPError: the request failed.
        """
        host = request.url.host
        if _address(host) is not None or host == "localhost":
            return await self._inner.handle_async_request(request)
        failed: httpx.ConnectError | httpx.ConnectTimeout = NoPublicAddressError(
            "its name leads to no public address; if it is to be read all the same, have the worker"
            " started with the `--knowledge-network` of its address"
        )
        for address in await self._allowed(request.url):
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
        raise failed

    async def aclose(self) -> None:
        """Close the connections; httpx calls this."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def _allowed(self, url: httpx.URL) -> list[str]:
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        try:
            found = await self._look_up(url.raw_host.decode("ascii"), port)
        except OSError as error:
            raise httpx.ConnectError(f"its name is not known: {error.strerror}") from None
        return [text for text in found if self._is_allowed(text)][:MAX_TRIED_ADDRESSES]

    def _is_allowed(self, text: str) -> bool:
        address = ipaddress.ip_address(text)
        return is_public(address) or any(address in network for network in self._networks)


def knowledge_client(networks: Collection[Network] = ()) -> httpx.AsyncClient:
    """The client that knowledge is fetched with; besides public addresses, from these networks."""
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
    direct = httpx.AsyncHTTPTransport(verify=trusted_certificates(), limits=limits, trust_env=False)
    through = {
        pattern: None
        if proxy is None
        else httpx.AsyncHTTPTransport(
            verify=trusted_certificates(), limits=limits, trust_env=False, proxy=proxy
        )
        for pattern, proxy in proxies_of(getproxies()).items()
    }
    return httpx.AsyncClient(
        transport=PinnedTransport(direct, networks),
        mounts=through,
        follow_redirects=False,
        trust_env=False,
    )


def proxies_of(said: Mapping[str, str]) -> dict[str, str | None]:
    """Which proxy is for which addresses, as the environment says it; None: none is.

    `said` has the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` by their first
    word, as Python gathers them.
    """
    excepted = [host for each in said.get("no", "").split(",") if (host := each.strip())]
    if "*" in excepted:
        return {}
    through: dict[str, str | None] = {
        f"{scheme}://": said[scheme] if "://" in said[scheme] else f"http://{said[scheme]}"
        for scheme in ("http", "https", "all")
        if said.get(scheme)
    }
    return through | {_pattern(host): None for host in excepted}


def _pattern(host: str) -> str:
    """How httpx writes the addresses of a host of `no_proxy`, those below it included."""
    if "://" in host:
        return host
    address = _address(host)
    if address is not None and address.version == 6:
        return f"all://[{host}]"
    return f"all://{host}" if address is not None or host == "localhost" else f"all://*{host}"


def _pinned(request: httpx.Request, address: str) -> httpx.Request:
    """The same request, to the address; the name stays in it, and in what TLS asks for."""
    name = request.url.raw_host.decode("ascii")
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": name},
    )


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


async def _looked_up(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A zone is of this machine, and no part of an address.
    return list(dict.fromkeys(str(where[0]).partition("%")[0] for *_, where in found))
