"""The SDK's walks over payloads are skipped only where they change nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
import temporalio.bridge.worker as bridge
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import DataConverter, PayloadCodec

from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from holdfast.runtime.data_converter import data_converter, with_encryption, with_store
from holdfast.runtime.encryption.codec import DecryptError, KeylessCodec
from holdfast.runtime.storage.folder import FolderStore

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"Text"')
LIKE_A_MARK = Payload(metadata={"encoding": b"json/plain"}, data=b'"binary/encrypted"')
ENCRYPTED = Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"old"})
REFERENCE = Payload(metadata={"encoding": b"json/external-storage-reference"}, data=b"{}")
REFERENCE.external_payloads.add().size_bytes = 5


class UpperCase(PayloadCodec):
    """A codec of another plugin."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata=each.metadata, data=each.data.upper()) for each in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata=each.metadata, data=each.data.lower()) for each in payloads]


class OwnCodec(KeylessCodec):
    """A codec that is derived from ours."""


class OwnConverter(DataConverter):
    """A converter that may walk in another way."""


UPPER_CASE = replace(data_converter, payload_codec=UpperCase())
EFFECTIVE = {
    "codec": UPPER_CASE,
    "composed codec": with_encryption(UPPER_CASE, None),
    "derived codec": replace(data_converter, payload_codec=OwnCodec()),
    "derived converter": OwnConverter(),
    "store": with_store(data_converter, FolderStore(Path("store"))),
}


class Walked(Exception):
    """A walk began."""


@pytest.fixture
def no_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each walk of the SDK raise `Walked`."""

    def walk(*_: object, **__: object) -> NoReturn:
        raise Walked

    monkeypatch.setattr(bridge, "CommandAwarePayloadVisitor", walk)


@pytest.fixture(autouse=True)
def installed() -> None:
    """Install the workaround, as a worker does."""
    workflow_runner()


async def decoded(payload: Payload, converter: DataConverter) -> Payload:
    """Return a result of an activity as a workflow receives it."""
    activation = WorkflowActivation()
    activation.jobs.add().resolve_activity.result.completed.result.CopyFrom(payload)
    await bridge.decode_activation(
        activation, converter, decode_headers=False, storage_concurrency_limit=1
    )
    return activation.jobs[0].resolve_activity.result.completed.result


async def encoded(payload: Payload, converter: DataConverter) -> Payload:
    """Return an argument of an activity as the server receives it."""
    completion = WorkflowActivationCompletion()
    completion.successful.commands.add().schedule_activity.arguments.append(payload)
    await bridge.encode_completion(
        completion, converter, encode_headers=False, storage_concurrency_limit=1
    )
    return completion.successful.commands[0].schedule_activity.arguments[0]


@pytest.mark.parametrize("converter", [data_converter, DataConverter()], ids=["ours", "sdk"])
async def test_without_a_codec_and_a_store_no_payload_is_walked_over(
    converter: DataConverter, no_walks: None
) -> None:
    assert await decoded(PLAIN, converter) == PLAIN
    assert await encoded(PLAIN, converter) == PLAIN


@pytest.mark.parametrize("name", EFFECTIVE)
async def test_with_anything_that_may_change_a_payload_all_are_walked_over(
    name: str, no_walks: None
) -> None:
    for walk in (decoded, encoded):
        with pytest.raises(Walked):
            await walk(PLAIN, EFFECTIVE[name])


async def test_a_codec_of_another_plugin_encodes_and_decodes() -> None:
    assert (await encoded(PLAIN, UPPER_CASE)).data == b'"TEXT"'
    assert (await decoded(PLAIN, UPPER_CASE)).data == b'"text"'


async def test_what_cannot_be_read_without_keys_or_a_store_is_an_error_with_its_cause() -> None:
    with pytest.raises(DecryptError, match="encrypted with the key `old`"):
        await decoded(ENCRYPTED, data_converter)
    with pytest.raises(RuntimeError, match="TMPRL1105"):
        await decoded(REFERENCE, data_converter)
    assert await decoded(LIKE_A_MARK, data_converter) == LIKE_A_MARK
