"""The certificate authorities that a worker trusts for HTTPS requests."""

import ssl
from functools import cache

import httpx


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return httpx's default context: `SSL_CERT_FILE`, `SSL_CERT_DIR`, or `certifi`.

    It is created once, for every client: reading the certificates takes longer than loading all
    else in a worker.
    """
    return httpx.create_ssl_context()
