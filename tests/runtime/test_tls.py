"""A worker connects by HTTPS to no server whose certificate it has no reason to trust (§12)."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.activities.ssrf_guard import knowledge_client
from holdfast.catalog.endpoints import http_client, trusted_certificates

HERE = "127.0.0.1"
CLIENTS = [http_client, lambda: knowledge_client([ip_network("127.0.0.0/8")])]
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi"


@pytest.fixture(autouse=True)
def read_again() -> Iterator[None]:
    """Undo what other tests have made a worker trust, and what these do."""
    trusted_certificates.cache_clear()
    yield
    trusted_certificates.cache_clear()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that its own key has signed, with that key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    alternatives = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HERE))])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    built = built.public_key(key.public_key()).serial_number(x509.random_serial_number())
    built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    signed = built.add_extension(alternatives, critical=False).sign(key, hashes.SHA256())
    file = tmp_path / "here.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture
async def url(certificate: Path) -> AsyncIterator[str]:
    """A server with that certificate."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HELLO)
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(answer, HERE, 0, ssl=context)
    async with server:
        yield f"https://{HERE}:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize("client", CLIENTS, ids=["models", "knowledge"])
async def test_an_untrusted_certificate_is_refused_and_one_s_own_is_taken(
    client: Callable[[], httpx.AsyncClient],
    url: str,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with client() as http:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await http.get(url)

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    trusted_certificates.cache_clear()
    async with client() as http:
        assert (await http.get(url)).text == "hi"
