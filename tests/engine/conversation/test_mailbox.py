"""The mailbox: no message to a run is lost, and each one is read in its time."""

from pydantic import TypeAdapter

from holdfast.schemas.message import Delivered
from holdfast.workflows.engine.run_messages import MAX_KNOWN, MAX_KNOWN_CHARACTERS, Mailbox


def box_of(*deliveries: str) -> Mailbox:
    box = Mailbox()
    for number, delivery in enumerate(deliveries, start=1):
        assert box.put(Delivered(content=str(number), delivery=delivery)) == number  # type: ignore[arg-type]  # a table
    return box


def contents(messages: list[Delivered]) -> list[object]:
    return [message.content for message in messages]


def test_received_is_the_number_up_to_which_all_are_received() -> None:
    """Else the sender of the follow-up would receive the answer to something else."""
    box = box_of("steer", "followUp", "steer")
    assert box.heard == 0

    box.take(ending=False)
    assert box.heard == 1

    box.take(ending=True)
    assert box.heard == 3


def test_what_comes_again_under_its_id_is_the_same_message() -> None:
    box = Mailbox()
    first = box.put(Delivered(content="go on"), "u1")
    stored = TypeAdapter(Mailbox)
    again = stored.validate_json(stored.dump_json(box, by_alias=True))

    assert "u1" in again.known
    assert again.put(Delivered(content="go on"), "u1") == first
    assert again.put(Delivered(content="go on"), "u2") == first + 1
    assert contents(again.take(ending=True)) == ["go on", "go on"]


def test_the_ids_that_are_kept_are_few_and_short() -> None:
    box = Mailbox()
    for n in range(MAX_KNOWN + 1):
        box.put(Delivered(content="go on"), f"u{n}")
    box.put(Delivered(content="go on"), "u" * (MAX_KNOWN_CHARACTERS + 1))

    assert list(box.known) == [f"u{n}" for n in range(1, MAX_KNOWN + 1)]
