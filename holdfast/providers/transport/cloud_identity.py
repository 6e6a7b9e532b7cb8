"""The identity that a worker has in a cloud, which authorizes its requests in place of a key.

Each cloud's own library finds credentials where all programs find them, and renews them before
they expire. It is called for each request, in a thread: it may wait for a token service.
"""

import asyncio
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx

from holdfast.providers.base import NoCredentials
from holdfast.providers.transport.error_response import shortened
from holdfast.runtime.secrets import Secrets
from holdfast.schemas.settings.endpoints import AwsAuth, AzureAuth, Endpoint

# The longest wait for credentials. Azure's library tries several sources, one after the other.
MAX_CREDENTIALS_SECONDS = 60.0
_MAX_REASON_CHARACTERS = 500
# The libraries' errors that a retry fixes only in the first moments of a machine.
_MISSING = (
    *("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "NoRegionError"),
    *("DefaultCredentialsError", "CredentialUnavailableError", "ClientAuthenticationError"),
)
_REGION = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

# Returns the headers of a request, and the secrets that they are made of.
Sign = Callable[[httpx.Request], tuple[dict[str, str], list[str]]]


class CloudIdentity:
    """Adds the headers that prove the worker's identity to requests.

    `values` are the secrets in them, which are removed from everything that leaves the worker, as
    are those before the last renewal: they may still be valid.
    """

    def __init__(self, cloud: str, sign: Sign, secrets: Secrets) -> None:
        self.cloud = cloud
        self.values: list[str] = []
        self._former: list[str] = []
        self._sign = sign
        self._secrets = secrets
        self._lock = asyncio.Lock()

    async def authorize(self, request: httpx.Request) -> None:
        """Add the headers to the request.

        Raises:
            NoCredentials: the library has none, or cannot renew them.
        """
        try:
            async with asyncio.timeout(MAX_CREDENTIALS_SECONDS), self._lock:
                headers, values = await asyncio.to_thread(self._sign, request)
        except Exception as error:
            kind, reason = type(error).__name__, shortened(str(error), _MAX_REASON_CHARACTERS)
            why = f"there are no {self.cloud} credentials: {kind}: {reason}"
            raise NoCredentials(why, is_missing=kind in _MISSING) from None
        if values != self.values:
            self._secrets.learn(values, forgotten=self._former)
            self._former, self.values = self.values, values
        request.headers.update(headers)


def cloud_identity(endpoint: Endpoint, secrets: Secrets) -> CloudIdentity | None:
    """Return the identity that authorizes requests to the endpoint, if its `auth` names one."""
    match endpoint.auth:
        case None:
            return None
        case AwsAuth() as auth:
            sign = _aws_signature(auth, httpx.URL(endpoint.base_url or "").host)
            return CloudIdentity("AWS", sign, secrets)
        case AzureAuth() as auth:
            return CloudIdentity("Azure", _azure_token(auth.scope), secrets)
    return CloudIdentity("Google", _google_token(), secrets)


def _aws_signature(auth: AwsAuth, host: str) -> Sign:
    """Sign requests (Signature Version 4) with the credentials of the AWS command line."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import NoCredentialsError, NoRegionError
    from botocore.session import Session

    session = Session(profile=auth.profile)
    found = _REGION.search(host)
    own_region = auth.region or (found[1] if found else None)

    def sign(request: httpx.Request) -> tuple[dict[str, str], list[str]]:
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        region = own_region or session.get_config_variable("region")
        if region is None:
            raise NoRegionError
        frozen = credentials.get_frozen_credentials()
        content = {"content-type": request.headers["content-type"]}
        signed = AWSRequest(request.method, str(request.url), content, request.content)
        SigV4Auth(frozen, "bedrock", region).add_auth(signed)
        return dict(signed.headers.items()), [frozen.secret_key, frozen.token or ""]

    return sign


def _google_token() -> Sign:
    """Send an access token of Google's Application Default Credentials."""
    import google.auth
    from google.auth.transport.requests import Request

    @cache
    def found() -> Any:
        return google.auth.default(scopes=[_GOOGLE_SCOPE])[0]

    def sign(_: httpx.Request) -> tuple[dict[str, str], list[str]]:
        if not found().valid:
            found().refresh(Request())
        headers: dict[str, str] = {}
        found().apply(headers)
        return headers, [found().token]

    return sign


def _azure_token(scope: str) -> Sign:
    """Send a token of Microsoft Entra, of Azure's default chain of credentials."""
    from azure.identity import DefaultAzureCredential

    found = cache(DefaultAzureCredential)

    def sign(_: httpx.Request) -> tuple[dict[str, str], list[str]]:
        token = found().get_token(scope).token
        return {"authorization": f"Bearer {token}"}, [token]

    return sign
