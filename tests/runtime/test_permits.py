"""Permits: each is for one use, and for no other."""

from dataclasses import replace

import pytest
from temporalio.api.common.v1 import Header, Payload

from holdfast.runtime.identity.permits import PermittedUse
from holdfast.schemas import names
from tests.encryption.keys import NEW, OLD, ring

JSON = {"encoding": b"json/plain"}
PAID = Payload(metadata=JSON, data=b'{"amount":5}')
USE = PermittedUse("activity", "default", "run", "0190", "t1c1", "pay", [PAID])
OTHERS = [
    replace(USE, kind="result"),
    replace(USE, namespace="other"),
    replace(USE, workflow_id="run-2"),
    replace(USE, run_id="0191"),
    replace(USE, id="t1c2"),
    replace(USE, type="refund"),
    replace(USE, workflow_id="r", run_id="un0190"),
    replace(USE, payloads=[Payload(metadata=JSON, data=b'{"amount":6}')]),
    replace(USE, payloads=[Payload(metadata={"encoding": b"binary/plain"}, data=PAID.data)]),
    replace(USE, payloads=[PAID, PAID]),
    replace(USE, payloads=[Payload(metadata=JSON, data=b'{"amount"'), Payload(data=b":5}")]),
    replace(USE, payloads=[]),
]


@pytest.mark.parametrize("other", OTHERS)
def test_it_fits_one_use(other: PermittedUse) -> None:
    signature = USE.sign(ring(NEW))

    assert USE.is_signed(ring(NEW), signature)
    assert not other.is_signed(ring(NEW), signature)


def test_the_newest_key_signs_and_every_key_verifies() -> None:
    before, after = USE.sign(ring(OLD)), USE.sign(ring(NEW, OLD))

    assert after == USE.sign(ring(NEW))
    assert USE.is_signed(ring(NEW, OLD), before)
    assert not USE.is_signed(ring(NEW), before)
    assert not USE.is_signed(ring(NEW, OLD), b"")


def test_what_a_store_notes_on_a_payload_does_not_matter() -> None:
    noted = Payload(metadata={**JSON, names.FOR_STORE: b"true"}, data=PAID.data)

    assert replace(USE, payloads=[noted]).is_signed(ring(NEW), USE.sign(ring(NEW)))


def test_it_takes_at_most_64_bytes_of_an_event() -> None:
    permit = USE.sign(ring(NEW))
    header = Header(fields={names.PERMIT: Payload(data=permit)})
    bare, signed = Payload(), Payload(metadata={names.PERMIT: permit})

    assert header.ByteSize() <= 64
    assert signed.ByteSize() - bare.ByteSize() <= 64
