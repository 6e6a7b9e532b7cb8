"""Whose certificates a worker trusts where it asks over HTTPS."""

import ssl
from functools import cache

import httpx


@cache
def trusted_certificates() -> ssl.SSLContext:
    """httpx's own choice: `SSL_CERT_FILE` or `SSL_CERT_DIR`, else the certificates of `certifi`.

    They are read once, for every client: that takes longer than all else a worker loads.
    """
    return httpx.create_ssl_context()
