"""Whose certificates a worker trusts where it asks over HTTPS."""

import ssl
from functools import cache

import httpx


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return httpx's default context: `SSL_CERT_FILE`, `SSL_CERT_DIR`, or `certifi`.

    They are read once, for every client: that takes longer than all else a worker loads.
    """
    return httpx.create_ssl_context()
