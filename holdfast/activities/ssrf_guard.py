"""Requests for knowledge, over connections to addresses that were checked first.

An operator allows names, and the owner of a name decides for each request where it leads: to the
worker's own machine, its network, or the metadata service of a cloud. So the name is resolved here,
once for a request; addresses that are not public are left out; and the connection goes to one of
the others, which cannot change in between. The request and the check of the server's certificate
still use the name.

An operator who allows an address, or `localhost`, or a network (`--knowledge-network`), allows
where it leads. Where the environment has a proxy for the address, the proxy resolves the name and
connects: its own rules apply.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from urllib.request import getproxies, proxy_bypass

import httpx

from holdfast.catalog.endpoints import trusted_certificates
from holdfast.runtime.addresses import AddressError
from holdfast.schemas.phrases import quote_value

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_TRIED_ADDRESSES = 4
MAX_CONNECTIONS = 100
_PORTS = {"http": 80, "https": 443}
# Of IPv4 through IPv6, the last four bytes are the address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Services of clouds at addresses that count as public: Azure's, and Oracle's among the protocols'.
_OF_CLOUDS = (ipaddress.IPv4Network("168.63.129.16/32"), ipaddress.IPv4Network("192.0.0.0/24"))


def read_network(text: str) -> Network:
    """Read a network, such as `10.0.0.0/8`.

    Raises:
        AddressError: the text is no network.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        fix = "write an address and how many of its bits count, like 10.0.0.0/8"
        raise AddressError(f"{quote_value(text)} is no network", fix) from None


def is_public(address: Address) -> bool:
    """Report whether the address belongs to one machine of the internet."""
    if isinstance(address, ipaddress.IPv4Address):
        if any(address in network for network in _OF_CLOUDS):
            return False
    else:
        if address.is_site_local:
            return False
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
        if any(each is not None and not is_public(each) for each in inner):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


class NoPublicAddressError(httpx.ConnectError):
    """A name that leads to no allowed address."""


class PinnedTransport(httpx.AsyncBaseTransport):
    """Sends each request to a checked address, by the transport `inner`.

    `inner` must not reuse connections: a connection belongs to an address, and would be used for
    every name that leads there, though the certificate was checked for one.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        networks: Collection[Network] = (),
        proxies: Mapping[str, httpx.AsyncBaseTransport] = MappingProxyType({}),
    ) -> None:
        self._inner, self._networks, self._proxies = inner, networks, proxies

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; httpx calls this.

        Raises:
            NoPublicAddressError: the name leads to no allowed address.
            httpx.HTTPError: the request failed.
        """
        host = request.url.host
        proxy = self._proxies.get(request.url.scheme) or self._proxies.get("all")
        if proxy is not None and not proxy_bypass(host):
            return await proxy.handle_async_request(request)
        is_name = host != "localhost"
        with suppress(ValueError):
            ipaddress.ip_address(host)
            is_name = False
        if not is_name:
            return await self._inner.handle_async_request(request)
        failed: httpx.ConnectError | httpx.ConnectTimeout = NoPublicAddressError(
            "its name leads to no public address; if it is to be read all the same, have the worker"
            " started with the `--knowledge-network` of its address"
        )
        url, name = request.url, request.url.raw_host.decode("ascii")
        try:
            found = await _resolved(name, url.port or _PORTS[url.scheme])
        except OSError as error:
            raise httpx.ConnectError(f"its name is not known: {error.strerror}") from None
        addresses = [
            text
            for text in found
            if is_public(address := ipaddress.ip_address(text))
            or any(address in network for network in self._networks)
        ]
        for text in addresses[:MAX_TRIED_ADDRESSES]:
            # The name is in its headers and in TLS.
            pinned = httpx.Request(
                request.method,
                url.copy_with(host=text),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": name},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
        raise failed

    async def aclose(self) -> None:
        """Close the connections; httpx calls this."""
        for each in (self._inner, *self._proxies.values()):
            await each.aclose()


def knowledge_client(networks: Collection[Network] = ()) -> httpx.AsyncClient:
    """Return the client for knowledge from public addresses and these networks."""
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
    open_transport = partial(
        httpx.AsyncHTTPTransport, verify=trusted_certificates(), limits=limits, trust_env=False
    )
    proxies = {
        scheme: open_transport(proxy=url if "://" in url else f"http://{url}")
        for scheme, url in getproxies().items()
        if scheme in ("http", "https", "all")
    }
    transport = PinnedTransport(open_transport(), networks, proxies=proxies)
    return httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)


async def _resolved(host: str, port: int) -> Collection[str]:
    """Return the addresses of a host, in the order in which they are tried."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A zone belongs to this machine, and is no part of an address.
    return list(dict.fromkeys(str(where[0]).partition("%")[0] for *_, where in found))
