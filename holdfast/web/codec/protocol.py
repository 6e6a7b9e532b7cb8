"""Temporal's protocol for remote codecs: payloads in Protobuf's JSON, decoded and encoded.

A payload that cannot be decrypted is returned unchanged, as is an unencrypted one: of an event with
ten payloads, Temporal's UI shows the other nine. The log has the reason.

    decode      replaces a reference to a store by its content, unless `preserveStorageRefs=true`
    download    the same, and missing content is an error
    encode      stores nothing: stores contain only what workers pass to themselves
"""

import asyncio
import json
import logging
from collections.abc import Sequence

from google.protobuf.json_format import MessageToJson, Parse, ParseDict, ParseError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import PayloadCodec

from holdfast.runtime.encryption.codec import DecryptError
from holdfast.runtime.storage.store import Store, StoreError
from holdfast.schemas import names
from holdfast.web.http.problems import RefusedRequest

MAX_PAYLOADS = 1_000
# Payloads that are decompressed or read from a store are larger than the request.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_TOLD_REASONS = 100
_TYPE = ExternalStorageReference.DESCRIPTOR.full_name.encode()

logger = logging.getLogger("holdfast")


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


class Protocol:
    """A codec, and a codec that replaces references to a store by their content.

    `stored` raises `DecryptError` for what the store does not have.
    """

    def __init__(self, codec: PayloadCodec, stored: PayloadCodec | None = None) -> None:
        self._codec, self._stored = codec, stored
        self._told: set[str] = set()

    async def answer(self, verb: str, body: bytes, *, keeps_references: bool) -> str:
        """Return the response of the endpoint to `verb`.

        Raises:
            RefusedRequest: the verb does not exist, or it fails.
        """
        payloads = await asyncio.to_thread(_read, body)
        match verb:
            case "encode":
                found = await self._codec.encode(payloads)
            case "decode":
                found = await self._opened(payloads, None if keeps_references else self._stored)
            case "download" if self._stored is not None:
                found = await self._opened(payloads, self._stored, all_or_none=True)
            case "download":
                raise RefusedRequest(
                    404, "this endpoint has no store; start it with `--store PLACE`"
                )
            case _:
                raise RefusedRequest(404, "this endpoint has only decode, encode and download")
        return await asyncio.to_thread(MessageToJson, Payloads(payloads=found), indent=None)

    async def _opened(
        self, payloads: Sequence[Payload], stored: PayloadCodec | None, *, all_or_none: bool = False
    ) -> list[Payload]:
        found: list[Payload] = []
        for payload in payloads:
            try:
                opened = [payload] if stored is None else await stored.decode([payload])
                found += await self._codec.decode(opened)
            except DecryptError as error:
                # Once for each reason: a page of the UI requests a hundred payloads of one key.
                reason = str(error)
                if reason not in self._told and len(self._told) < MAX_TOLD_REASONS:
                    self._told.add(reason)
                    logger.warning("a payload could not be read: %s", reason)
                if all_or_none:
                    sentence = "that cannot be read; see the log of this endpoint"
                    raise RefusedRequest(502, sentence) from None
                found.append(payload)
            if sum(len(each.data) for each in found) > MAX_ANSWER_BYTES:
                raise RefusedRequest(
                    413, "these payloads are too large for one answer; request fewer"
                )
        return found


def _read(body: bytes) -> list[Payload]:
    # The response never quotes the invalid body, which may be secret.
    misread = RefusedRequest(400, 'write {"payloads": […]}, as JSON of Protobuf')
    try:
        value = json.loads(body)
        if len(value.get("payloads", [])) > MAX_PAYLOADS:
            raise RefusedRequest(413, f"send at most {MAX_PAYLOADS} payloads at a time")
        # A newer UI may send fields that are unknown here.
        return [*ParseDict(value, Payloads(), ignore_unknown_fields=True).payloads]
    except (ValueError, ParseError, RecursionError, AttributeError, TypeError):
        raise misread from None
