"""`holdfast codec`: the endpoint with which Temporal's UI shows encrypted runs.

It listens on this machine. For other machines it is behind a proxy with https, whose address is its
`--url`: decrypted data is not sent over plain http.
"""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from google.protobuf.json_format import Parse, ParseError
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import PayloadCodec

from holdfast.cli.parser import NAME, Commands
from holdfast.cli.servers import listen_address
from holdfast.client.connection import client_converter
from holdfast.client.errors import DONE, wrong_command
from holdfast.runtime.command_line import read_by
from holdfast.runtime.encryption.codec import CONVERTER_VARIABLE, VARIABLE, DecryptError
from holdfast.runtime.secrets import HOW_TO_SET, shared_secret
from holdfast.runtime.storage import locations
from holdfast.runtime.storage.store import Store, StoreError
from holdfast.schemas import names
from holdfast.web.http.origins import own_origins, read_origin

_TYPE = ExternalStorageReference.DESCRIPTOR.full_name.encode()

TOKEN_VARIABLE: Final = "HOLDFAST_CODEC_TOKEN"
DEFAULT_PORT: Final = 8234


def add_parser(commands: Commands) -> None:
    """Add `codec`."""
    text = "serve the endpoint that decrypts runs for Temporal's UI"
    parser = commands.add_parser("codec", help=text, description=f"S{text[1:]}.")
    add = parser.add_argument
    add("--encryption", metavar="FILE", help="the worker's keys (default: HOLDFAST_ENCRYPTION)")
    text = "the address of Temporal's UI, such as http://127.0.0.1:8233; repeatable"
    url = {"metavar": "URL", "type": read_by(read_origin)}
    add("--origin", dest="origins", **url, action="append", required=True, help=text)
    listen_address.add_listening(parser, DEFAULT_PORT)
    add("--url", **url, help="its public address behind a proxy")
    text = "the variable that holds its secret (default: %(default)s)"
    add("--token-env", **NAME, default=TOKEN_VARIABLE, help=text)
    text = "the worker's store (default: HOLDFAST_STORE, or that of --dev)"
    location = read_by(locations.parse_store_location)
    add("--store", metavar="PLACE", type=location, action="append", default=[], help=text)
    parser.set_defaults(command=codec)


class StoredReferences(PayloadCodec):
    """Replaces references to a store by their content."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Leave them as they are: only workers put anything into the store."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Replace the references among the payloads by their content.

        Raises:
            DecryptError: the store does not have it.
        """
        return [
            await self._fetch(payload) if payload.metadata.get("messageType") == _TYPE else payload
            for payload in payloads
        ]

    async def _fetch(self, payload: Payload) -> Payload:
        try:
            reference = Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
        except (ParseError, UnicodeDecodeError):
            raise DecryptError("this is no reference to a store", "see who has sent it") from None
        if reference.driver_name != names.STORE:
            wrong = f"this is in another store, {reference.driver_name!r}"
            raise DecryptError(wrong, "request it from the endpoint of that store")
        try:
            return await self._store.fetch_payload(reference.claim_data.get("sha256", ""))
        except StoreError as error:
            raise DecryptError(error.reason, error.fix) from None


async def codec(
    *,
    encryption: str | None,
    origins: Sequence[str],
    host: str,
    port: int,
    url: str | None,
    token_env: str,
    store: Sequence[locations.StoreLocation | None],
) -> int:
    """Serve the endpoint until it is stopped."""
    listen_address.check_private(host, url, "`--url https://…`")
    # Imported here: the other commands need no HTTP server, and start sooner.
    from holdfast.cli.servers.serving import serve, server
    from holdfast.web.codec.endpoint import CodecEndpoint
    from holdfast.web.codec.protocol import Protocol

    secret = shared_secret(token_env)
    if not secret:
        wrong = f"the variable {token_env}, which is to hold the endpoint's secret, is not set"
        raise wrong_command(wrong, HOW_TO_SET)
    file = encryption or os.environ.get(VARIABLE)
    if not (file or os.environ.get(CONVERTER_VARIABLE)):
        raise wrong_command("no keys are named", f"name them with `--encryption` or {VARIABLE}")
    converter = client_converter(file, "`--encryption`" if encryption else VARIABLE)
    assert converter.payload_codec is not None  # there is one with and without keys
    async with AsyncExitStack() as stack:
        references = None
        place = store[0] if store else locations.reader_store_location(os.environ)
        if place is not None:
            opened = await stack.enter_async_context(locations.open_store_at(place, writing=False))
            references = StoredReferences(opened)
        socket = stack.enter_context(listen_address.open_listener(host, port))
        own = own_origins(host, socket.getsockname()[1], url)
        protocol = Protocol(converter.payload_codec, references)
        endpoint = CodecEndpoint(protocol, secret, frozenset(origins), own)
        shown = (
            f"{listen_address.public_origin(own)} for {', '.join(sorted(origins))}; sign in there"
        )
        await serve(server(endpoint.app()), socket, f"codec endpoint ready: {shown}")
    return DONE
