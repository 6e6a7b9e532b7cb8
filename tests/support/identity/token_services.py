"""Token services of clouds on loopback, and the check of a signature as Amazon makes it."""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

SOON, LATER = timedelta(minutes=1), timedelta(hours=6)
# What would lead a library to other credentials than those of a test.
_CLOUDS = re.compile(r"(AWS|GOOGLE|GCE|GCLOUD|AZURE|IDENTITY|MSI|CLOUDSDK)_")


class TokenService:
    """Gives tokens, `token-1-…`, `token-2-…` and so on, as the service of each cloud does.

    The first ones are valid for the times in `lifetimes`, all others for hours. With a `failure`,
    it answers with that status.
    """

    def __init__(self) -> None:
        self.url = ""
        self.lifetimes: list[timedelta] = []
        self.given = 0
        self.failure: int | None = None

    def answer(self, path: str) -> tuple[int, Any]:
        if self.failure is not None:
            return self.failure, {"error": "invalid_grant", "error_description": "no such key"}
        self.given += 1
        lifetime = self.lifetimes.pop(0) if self.lifetimes else LATER
        ends = datetime.now(UTC) + lifetime
        token = f"token-{self.given}-Xy7Zq9"
        if path.startswith("/aws"):
            return 200, {
                "AccessKeyId": f"AKIA{self.given}",
                "SecretAccessKey": secret_of(f"AKIA{self.given}"),
                "Token": token,
                "Expiration": ends.isoformat().replace("+00:00", "Z"),
            }
        told = {"access_token": token, "token_type": "Bearer", "resource": "x"}
        if path.startswith("/google"):
            return 200, told | {"expires_in": int(lifetime.total_seconds())}
        return 200, told | {"expires_on": str(int(ends.timestamp()))}

    def set_up(self, cloud: str, patch: pytest.MonkeyPatch, folder: Path) -> None:
        """Set the environment of a machine in this cloud."""
        forget_clouds(patch)
        if cloud == "aws":
            patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{self.url}/aws")
        elif cloud == "google":
            file = folder / "service-account.json"
            file.write_text(json.dumps(_service_account(f"{self.url}/google")))
            patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        else:
            patch.setenv("IDENTITY_ENDPOINT", f"{self.url}/azure")
            patch.setenv("IDENTITY_HEADER", "header-of-the-machine")
            patch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")


def forget_clouds(patch: pytest.MonkeyPatch) -> None:
    """Remove every way to credentials from the environment."""
    for name in [each for each in os.environ if _CLOUDS.match(each)]:
        patch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, os.devnull)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("NO_GCE_CHECK", "true")
    patch.setenv("CLOUDSDK_CONFIG", os.devnull)


def secret_of(access_key: str) -> str:
    return f"secret-of-{access_key}/Qr5"


def _service_account(token_uri: str) -> dict[str, str]:
    key = rsa.generate_private_key(65537, 2048)
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account",
        "client_email": "holdfast@acme.iam.gserviceaccount.com",
        "private_key": encoded.decode(),
        "private_key_id": "1",
        "project_id": "acme",
        "token_uri": token_uri,
    }


@contextmanager
def serving_http(answer: Any) -> Iterator[str]:
    """Serve what `answer` returns of a path, headers and body: a status, and bytes or JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            status, value = answer(self.path, self.headers, self.rfile.read(length))
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def token_service() -> Iterator[TokenService]:
    service = TokenService()
    with serving_http(lambda path, _headers, _body: service.answer(path)) as service.url:
        yield service


def signer(url: str, headers: httpx.Headers, body: bytes) -> tuple[str, str]:
    """The access key and the region of a signed request, once its signature has been checked.

    As in "Create a signed AWS API request" of the IAM user guide, step by step.
    """
    form = r"(\S+) Credential=(\S+), SignedHeaders=(\S+), Signature=(\w+)"
    found = re.fullmatch(form, headers["authorization"])
    assert found
    algorithm, credential, names, signature = found.groups()
    access_key, *scope = credential.split("/")
    address = httpx.URL(url)
    # Each segment is encoded twice.
    path = quote(address.raw_path.decode().partition("?")[0], safe="/~")
    signed = "".join(f"{name}:{headers[name].strip()}\n" for name in names.split(";"))
    digest = hashlib.sha256(body).hexdigest()
    canonical = "\n".join(["POST", path, address.query.decode(), signed, names, digest])
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([algorithm, headers["x-amz-date"], "/".join(scope), hashed])
    key = f"AWS4{secret_of(access_key)}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    assert hmac.new(key, text.encode(), "sha256").hexdigest() == signature
    assert {"host", "x-amz-date", "x-amz-security-token", "content-type"} <= set(names.split(";"))
    assert scope[2:] == ["bedrock", "aws4_request"]
    return access_key, scope[1]
