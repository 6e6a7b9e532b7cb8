"""What is on its way is read from the heartbeat of its own activity, and of no other (§11)."""

from dataclasses import replace
from typing import Any

import pytest
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.command_errors import EncryptedError
from holdfast.client.connection import _Told
from holdfast.client.stream.heartbeats import (
    MAX_UPDATE_BYTES,
    AnswerProgress,
    CallProgress,
    read_answer_progress,
    update_in,
)
from holdfast.runtime.encryption.codec import EncryptionCodec, KeylessCodec
from holdfast.schemas import names
from tests.encryption.keys import NEW, ring

CONVERTER = pydantic_data_converter


async def activity(activity_id: str, *details: Any, of: str = "pay") -> PendingActivityInfo:
    """An activity in its second attempt that has told this last."""
    made = PendingActivityInfo(activity_id=activity_id, attempt=2)
    made.activity_type.name = of
    made.heartbeat_details.payloads.extend(await CONVERTER.encode(details))
    return made


@pytest.mark.parametrize("activity_id", ["t1c2", "t1c2-again", "t1c2-again3"])
async def test_a_call_is_known_by_its_id_also_when_it_is_carried_out_again(
    activity_id: str,
) -> None:
    told = await update_in(await activity(activity_id, {"step": 1}), CONVERTER)
    assert told == CallProgress("t1c2", 2, {"step": 1})


@pytest.mark.parametrize("activity_id", ["t1", "t1c2-before", "1", "notify-t1c2"])
async def test_what_carries_out_no_call_tells_of_none(activity_id: str) -> None:
    assert await update_in(await activity(activity_id, "here"), CONVERTER) is None


async def test_what_is_too_long_to_be_told_again_and_again_is_left_out() -> None:
    long = await activity("t1c1", "x" * MAX_UPDATE_BYTES)
    assert await update_in(long, CONVERTER) is None
    assert await update_in(await activity("t1c1"), CONVERTER) is None


async def test_of_a_call_that_the_model_answers_the_text_is_told_and_nothing_else() -> None:
    said = {"text": "I thi", "offset": 3, "attempt": 4, "turn": 1, "call": "t1c1", "calls": []}
    told = await update_in(await activity("t1c1", said, of=names.GENERATE), CONVERTER)
    assert told == CallProgress("t1c1", 4, {"text": "I thi", "offset": 3})
    other = await activity("t1c1", {"tokens": 3}, of=names.GENERATE)
    assert await update_in(other, CONVERTER) is None


async def test_what_others_wrote_in_their_own_way_is_passed_over() -> None:
    strange = await activity("t1c1", "here")
    strange.heartbeat_details.payloads[0].metadata["encoding"] = b"others/own"
    assert await update_in(strange, CONVERTER) is None


async def test_what_cannot_be_read_without_a_key_is_no_silence() -> None:
    secret = await activity("t1c1", "here")
    sealed = await EncryptionCodec(ring(NEW)).encode(secret.heartbeat_details.payloads)
    secret.heartbeat_details.payloads[0].CopyFrom(sealed[0])
    with pytest.raises(EncryptedError, match="no keys are set here"):
        await update_in(secret, replace(CONVERTER, payload_codec=_Told(KeylessCodec())))


SAID = {"text": "Hi", "offset": 3, "attempt": 2}


async def test_a_heartbeat_says_of_what_its_answer_is() -> None:
    brief = await activity("7", SAID, of=names.GENERATE)
    others = [await activity("t1c1", SAID), await activity("8", "here", of=names.GENERATE)]
    assert await read_answer_progress([brief, *others], CONVERTER) == AnswerProgress(
        "7/2", 2, "Hi", 3, []
    )
    calls = [{"tool": "pay"}]
    more = {"calls": calls, "composed": True, "turn": 4, "call": "t4c1", "summary": True}
    whole = await activity("7", {**SAID, **more}, of=names.GENERATE)
    told = AnswerProgress("7/2", 2, "Hi", 3, calls, True, 4, "t4c1", True)
    assert await read_answer_progress([others[0], whole], CONVERTER) == told


@pytest.mark.parametrize("details", ["Hi", {}, {**SAID, "offset": "3"}, {"text": "Hi"}])
async def test_what_another_version_tells_is_no_answer(details: Any) -> None:
    assert await read_answer_progress([], CONVERTER) is None
    silent = await activity("7", of=names.GENERATE)
    assert await read_answer_progress([silent], CONVERTER) is None
    other = await activity("7", details, of=names.GENERATE)
    assert await read_answer_progress([other], CONVERTER) is None
