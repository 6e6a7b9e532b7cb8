"""Skip the SDK's six walks over the payloads of an activation where they change nothing.

The SDK visits each payload of an activation, and of its completion, for a codec, for an external
storage and for the references of one: six walks over the messages, in Python. Without a codec and a
storage none of them changes a byte, and they take a millisecond of a turn (a third of a replay).

The converter that decides is the one with which the SDK would walk: the worker's own, after every
plugin. A payload that needs one of the walks, or fails in it with an error that names the cause, is
found by its mark in the bytes of the activation. A text that has such a mark only costs the walks.

Private: `decode_activation` and `encode_completion` of `temporalio.bridge.worker`,
`_CommandAwareDataConverter`, and what references have in `temporalio.converter._extstore`.
"""

from typing import Any, Final

import temporalio.bridge.worker as bridge
from temporalio.converter import DataConverter, _extstore
from temporalio.worker._workflow import _CommandAwareDataConverter

from holdfast.runtime.encryption.codec import ENCRYPTED, KeylessCodec

_MARKS: Final = (
    ENCRYPTED,
    _extstore._REFERENCE_ENCODING,
    _extstore._REFERENCE_MESSAGE_TYPE,
    b"__temporal_external_storage_reference",  # of an encoded one, since 1.35
)
_decode, _encode = bridge.decode_activation, bridge.encode_completion


def skip_idle_passes() -> None:
    """Skip them in all workers of this process; where they have an effect, the SDK's own run."""
    bridge.decode_activation, bridge.encode_completion = _decode_activation, _encode_completion


def _is_idle(converter: DataConverter) -> bool:
    return (
        type(converter) in (DataConverter, _CommandAwareDataConverter)
        and converter.external_storage is None
        and (converter.payload_codec is None or type(converter.payload_codec) is KeylessCodec)
    )


async def _decode_activation(
    activation: Any, data_converter: DataConverter, *more: Any, **settings: Any
) -> Any:
    if _is_idle(data_converter):
        data = activation.SerializeToString()
        if not any(mark in data for mark in _MARKS):
            return _extstore.StorageOperationMetrics()
    return await _decode(activation, data_converter, *more, **settings)


async def _encode_completion(
    completion: Any, data_converter: DataConverter, *more: Any, **settings: Any
) -> Any:
    if _is_idle(data_converter):
        return _extstore.StorageOperationMetrics()
    return await _encode(completion, data_converter, *more, **settings)
