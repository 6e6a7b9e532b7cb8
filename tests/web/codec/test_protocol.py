"""What the codec endpoint (§13) opens and answers within bounds, for any caller."""

import json
from collections.abc import Sequence

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from holdfast.runtime.encryption.codec import DecryptError
from holdfast.web import codec
from holdfast.web.http.problems import RefusedRequest
from tests.web.codec.serving import written

BODY = json.dumps(written([Payload(data=b"1")] * 5)).encode()


class SizedCodec(PayloadCodec):
    """Opens each payload as one of so many bytes; with none, it refuses each for its own reason."""

    def __init__(self, size_bytes: int = 0) -> None:
        self._size_bytes, self.opened = size_bytes, 0

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        self.opened += 1
        if not self._size_bytes:
            raise DecryptError(f"the key {self.opened} is not here", "add it")
        return [Payload(data=bytes(self._size_bytes))]


async def test_the_log_has_a_bounded_number_of_reasons(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(codec, "MAX_TOLD_REASONS", 3)
    await codec.Protocol(SizedCodec()).answer("decode", BODY, keeps_references=False)
    assert len([record for record in caplog.records if record.name == "holdfast"]) == 3


async def test_no_more_is_opened_than_one_answer_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_ANSWER_BYTES", 1_000)
    sized = SizedCodec(600)
    with pytest.raises(RefusedRequest, match="too large for one answer"):
        await codec.Protocol(sized).answer("decode", BODY, keeps_references=False)
    assert sized.opened == 2
