"""The log of a run as AG-UI events: texts, attempts, ids, and the forms of interrupts."""

from typing import Any

import pytest

from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.runtime.narration.phrases import QUESTIONS
from holdfast.schemas.decision import Kind, PendingApproval
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.agui import Thread, interrupt_of

USER = {"id": "m1", "role": "user", "content": "Go."}
START = {"n": 2, "type": "turn_start", "turn": 1}


def message(n: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"n": n, "type": "message", "message": {"role": role, "content": content, **more}}


def written(text: str, attempt: int = 1) -> AnswerProgress:
    return AnswerProgress(f"1/{attempt}", attempt, text, 0, [], turn=1)


def started(*own: dict[str, Any]) -> Thread:
    """A thread in its first turn."""
    thread = Thread([*own])
    for record in (message(1, "user", "Go."), START):
        list(thread.read(record))
    return thread


def text_of(events: list[dict[str, Any]]) -> list[str]:
    return [event.get("delta", event["type"]) for event in events]


def test_a_text_is_sent_as_it_is_written_and_never_twice() -> None:
    thread = started()

    sent = [*thread.write(written("It ")), *thread.write(written("It is"))]
    sent += thread.read(message(3, "assistant", "It is on its way."))
    sent += thread.write(written("It is on its way."))

    assert text_of(sent) == ["It ", "is", " on its way."]
    assert {event["messageId"] for event in sent} == {"holdfast:turn-1"}


def test_another_attempt_takes_the_place_of_the_text_before() -> None:
    thread = started(USER)

    sent = [*thread.write(written("I think")), *thread.write(written("No", attempt=2))]
    sent += thread.read(message(3, "assistant", "Yes."))

    assert text_of(sent) == [
        "I think",
        *["MESSAGES_SNAPSHOT", "No"],
        *["MESSAGES_SNAPSHOT", "Yes."],
    ]
    assert sent[1]["messages"] == sent[3]["messages"] == [USER]
    assert thread.snapshot()["messages"][1] == {
        "id": "holdfast:turn-1",
        "role": "assistant",
        "content": "Yes.",
    }


def test_a_composed_answer_is_sent_as_people_read_it() -> None:
    thread = started()

    sent = [*thread.write(written('{"output": "Y'))]
    sent += thread.read(message(3, "assistant", '{"output": "Yes."}', said="Yes."))

    assert text_of(sent) == ["Yes."]


def test_a_message_of_the_client_keeps_its_id_and_is_there_until_the_run_has_read_it() -> None:
    more = {"id": "m2", "role": "user", "content": "Also this."}
    thread = started(USER, more)
    thread.new = {"m2"}
    before = thread.snapshot()["messages"]
    list(thread.read(message(3, "user", "Also this.")))
    list(thread.read(message(4, "user", "From the inbox.")))

    assert before == [USER, more]
    assert thread.snapshot()["messages"][:2] == [USER, more]
    assert [each["id"] for each in thread.snapshot()["messages"]] == ["m1", "m2", "holdfast:n4"]


def test_no_id_of_a_client_is_taken_for_one_of_ours() -> None:
    thread = started({**USER, "id": "turn-1"})
    list(thread.read(message(3, "assistant", "Yes.")))

    ids = [each["id"] for each in thread.snapshot()["messages"]]
    assert ids == ["turn-1", "holdfast:turn-1"]


def test_a_message_that_a_client_sent_twice_is_in_its_thread_once() -> None:
    more = {"id": "m2", "role": "user", "content": "Also this."}
    thread = started(USER, more, {**more})
    thread.new = {"m2"}

    assert thread.snapshot()["messages"] == [USER, more]
    list(thread.read(message(3, "user", "Also this.")))
    assert thread.snapshot()["messages"] == [USER, more]


def test_a_notice_is_sent_as_a_custom_event() -> None:
    thread = started()

    sent = [*thread.read({"n": 3, "type": "notice", "text": "small/script answers from now on"})]

    value = {"text": "small/script answers from now on"}
    assert sent == [{"type": "CUSTOM", "name": "holdfast:notice", "value": value}]
    assert thread.position == 3


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("call", {"approved", "editedArgs", "result"}),
        ("plan", {"approved", "editedArgs"}),
        ("budget", {"approved", "editedArgs"}),
        ("input", {"result"}),
        ("reconcile", {"result"}),
        ("principal_expired", set()),
    ],
)
def test_an_interrupt_has_the_form_of_its_answer_and_the_digest(
    kind: Kind, fields: set[str]
) -> None:
    times = {"requestedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-02T00:00:00Z"}
    one = {"callId": "t1c1", "kind": kind, "tool": "pay", "label": "Pay", "arguments": {"sum": 5}}
    waiting = PendingApproval.read({**one, **times, "digest": "d", "nonce": "n"})

    made = interrupt_of("run/1", waiting)

    assert SelectedCall.parse(made["id"]) == SelectedCall("run/1", "t1c1", "d", "n")
    properties = made["responseSchema"]["properties"]
    assert properties.keys() == fields | {"decision", "reason"}
    verdicts = [option.verdict for option in QUESTIONS[kind].choices if option.verdict]
    assert properties["decision"] == {"enum": verdicts}
    assert ("toolCallId" in made) == (kind in ("call", "input"))
    assert "Pay (t1c1)" in made["message"]
