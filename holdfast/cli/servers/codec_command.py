"""`holdfast codec`: the endpoint with which Temporal's UI shows encrypted runs.

It listens on this machine. For other machines it is behind a proxy with https, whose address is its
`--url`: decrypted data is not sent over plain http.
"""

import os
from collections.abc import Sequence
from typing import Final

from holdfast.cli.parser import NAME, Commands, add_listening
from holdfast.client.connection import client_converter
from holdfast.client.errors import DONE, wrong_command
from holdfast.runtime.command_line import read_by
from holdfast.runtime.encryption.codec import CONVERTER_VARIABLE, VARIABLE
from holdfast.runtime.secrets import HOW_TO_SET, shared_secret
from holdfast.runtime.storage import locations
from holdfast.web.http.origins import read_origin

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
    add_listening(parser, DEFAULT_PORT)
    add("--url", **url, help="its public address behind a proxy")
    text = "the variable that holds its secret (default: %(default)s)"
    add("--token-env", **NAME, default=TOKEN_VARIABLE, help=text)
    text = "the worker's store (default: HOLDFAST_STORE, or that of --dev)"
    location = read_by(locations.parse_store_location)
    add("--store", metavar="PLACE", type=location, action="append", default=[], help=text)
    parser.set_defaults(command=codec)


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
    # Imported here: the other commands need no HTTP server, and start sooner.
    from holdfast.web.codec.endpoint import serve_codec
    from holdfast.web.http.serving import check_private

    check_private(host, url, "`--url https://…`")
    secret = shared_secret(token_env)
    if not secret:
        wrong = f"the variable {token_env}, which is to hold the endpoint's secret, is not set"
        raise wrong_command(wrong, HOW_TO_SET)
    file = encryption or os.environ.get(VARIABLE)
    if not (file or os.environ.get(CONVERTER_VARIABLE)):
        raise wrong_command("no keys are named", f"name them with `--encryption` or {VARIABLE}")
    converter = client_converter(file, "`--encryption`" if encryption else VARIABLE)
    assert converter.payload_codec is not None  # there is one with and without keys
    place = store[0] if store else locations.reader_store_location(os.environ)
    served = converter.payload_codec, secret, frozenset(origins)
    await serve_codec(*served, place, host, port, url)
    return DONE
