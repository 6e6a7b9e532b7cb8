"""`holdfast codec`: the endpoint with which Temporal's UI shows encrypted runs.

It listens on this machine. For others it stands behind a proxy that speaks https, whose address is
its `--url`: what it shows does not travel in the open.
"""

import os
from argparse import ArgumentTypeError
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from google.protobuf.json_format import Parse, ParseError
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import PayloadCodec

from holdfast.cli.listen_address import (
    HOW_TO_SET,
    check_private,
    environment_secret,
    open_listener,
    public_origin,
)
from holdfast.client.command_errors import DONE, wrong_command
from holdfast.client.connection import load_codec
from holdfast.runtime.encryption.codec import VARIABLE, DecryptError
from holdfast.runtime.storage.locations import (
    StoreLocation,
    open_store_at,
    parse_store_location,
    reader_store_location,
)
from holdfast.runtime.storage.store import Store, StoreDriver, StoreError
from holdfast.schemas import names
from holdfast.schemas.phrases import misfit_reason
from holdfast.web.http.origins import own_origins

_TYPE = ExternalStorageReference.DESCRIPTOR.full_name.encode()

TOKEN_VARIABLE: Final = "HOLDFAST_CODEC_TOKEN"
DEFAULT_PORT: Final = 8234


class StoredReferences(PayloadCodec):
    """Puts what a store has in the place of each reference to it."""

    def __init__(self, store: Store) -> None:
        self._driver = StoreDriver(store)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Leave them as they are: only workers put anything into the store."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Replace the references among the payloads by their content.

        Raises:
            DecryptError: the store does not have it.
        """
        return [await self._fetched(payload) for payload in payloads]

    async def _fetched(self, payload: Payload) -> Payload:
        if payload.metadata.get("messageType") != _TYPE:
            return payload
        try:
            reference = Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
        except (ParseError, UnicodeDecodeError):
            raise DecryptError("this is no reference to a store", "see who has sent it") from None
        if reference.driver_name != names.STORE:
            wrong = f"this is in another store, {reference.driver_name!r}"
            raise DecryptError(wrong, "ask for it where that is")
        try:
            return await self._driver.fetch(reference.claim_data.get("sha256", ""))
        except StoreError as error:
            raise DecryptError(error.reason, error.fix) from None


def store_location(text: str) -> StoreLocation | None:
    """Where a store is: an argparse `type`."""
    try:
        return parse_store_location(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{misfit_reason(text)}; {error}") from error


async def codec(
    *,
    encryption: str | None,
    origins: Sequence[str],
    host: str,
    port: int,
    url: str | None,
    token_env: str,
    store: Sequence[StoreLocation | None],
) -> int:
    """Serve the endpoint until it is stopped; the exit code.

    Raises:
        CommandError: a setting is wrong, or the port is taken.
    """
    check_private(host, url, "`--url https://…`")
    # The other commands do without a server of HTTP, and start sooner.
    from holdfast.cli.serving import serve
    from holdfast.web.codec.endpoint import CodecAccess, CodecEndpoint
    from holdfast.web.codec.protocol import Protocol

    secret = _secret(token_env)
    file = encryption or os.environ.get(VARIABLE)
    if not file:
        raise wrong_command("no keys are named", f"name them with `--encryption` or {VARIABLE}")
    keys = load_codec(file, "`--encryption`" if encryption else VARIABLE)
    async with _references(store) as references:
        with open_listener(host, port) as socket:
            own = own_origins(host, socket.getsockname()[1], url)
            access = CodecAccess(secret, frozenset(origins), own)
            pages = f"{public_origin(own)} for {', '.join(sorted(access.origins))}"
            endpoint = CodecEndpoint(Protocol(keys, references), access)
            await serve(endpoint.app(), socket, f"codec endpoint ready: {pages}; sign in there")
    return DONE


def _secret(variable: str) -> str:
    if secret := environment_secret(variable):
        return secret
    wrong = f"the variable {variable}, which is to hold the endpoint's secret, is not set"
    raise wrong_command(wrong, HOW_TO_SET)


@asynccontextmanager
async def _references(
    named: Sequence[StoreLocation | None],
) -> AsyncIterator[StoredReferences | None]:
    """What reads the store that was named, or that of this folder's worker; None without one."""
    try:
        place = named[0] if named else reader_store_location(os.environ)
        if place is None:
            yield None
            return
        async with open_store_at(place, writing=False) as store:
            yield StoredReferences(store)
    except StoreError as error:
        raise wrong_command(error.reason, error.fix) from None
