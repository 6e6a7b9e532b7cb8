"""Messages to a run that is running."""

import threading

from tests.cli.conftest import Holdfast, Start
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call


async def listening(run: Run) -> Run:
    async def listens() -> bool:
        status = await run.status()
        return bool(status["status"] == "awaiting_message")

    await eventually(listens)
    return run


async def test_a_conversation_answers_until_it_is_closed(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch([Answer("Hello."), Answer("Fine, thanks.")])
    run = await listening(await backend.start(conversation=True))

    answered = await holdfast("send", run.id, "How are you?")
    closed = await holdfast("close", run.id)

    assert (answered.code, answered.out) == (0, "Fine, thanks.\n")
    assert closed.code == 0
    assert (await run.result())["status"] == "completed"


async def test_a_run_without_conversation_reports_how_to_be_sent_messages(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch([Answer("", [call("pay", amount=5)]), Answer("Paid.")])
    run = await backend.start(["pay"])
    await run.waiting()

    refused = await holdfast("send", run.id, "Hurry.")
    steered = await holdfast("send", run.id, "Hurry.", "--steer")
    await run.decide("t1c1", "deny")
    await run.result()

    assert refused.code == 2
    assert f"holdfast send {run.id} TEXT --steer" in refused.err
    assert steered.code == 0
    said = [entry["message"].get("content") for entry in await run.context() if "message" in entry]
    assert "Hurry." in said


async def test_a_watch_shows_how_to_continue_a_conversation(
    launch: Launch, holdfast: Holdfast, start: Start
) -> None:
    backend = await launch([Answer("Hello.")])
    run = await listening(await backend.start(conversation=True))

    watch = start("watch", run.id)
    await watch.until(f"It waits for a message: holdfast send {run.id} TEXT")
    assert (await holdfast("close", run.id)).code == 0
    assert await watch.ended() == 0


async def test_no_such_run_is_4_for_every_message(holdfast: Holdfast) -> None:
    for words in (("send", "nothing", "x"), ("close", "nothing"), ("cancel", "nothing")):
        said = await holdfast(*words)
        assert (said.code, said.err) == (
            4,
            "holdfast: there is no run nothing; holdfast list shows the runs\n",
        )


async def test_cancelling_an_ended_run_is_refused(launch: Launch, holdfast: Holdfast) -> None:
    backend = await launch([Answer("Done.")])
    run = await backend.start()
    await run.result()

    assert (await holdfast("cancel", run.id)).out == f"{run.id} has ended already.\n"
    assert (await holdfast("close", run.id)).code == 4


async def test_ctrl_c_leaves_the_message_with_the_run(launch: Launch, start: Start) -> None:
    thinks = threading.Event()
    backend = await launch([Answer("Hello."), Answer("Fine, thanks.", hold=thinks)])
    run = await listening(await backend.start(conversation=True))
    sending = start("send", run.id, "How are you?")

    async def asked() -> bool:
        return backend.model.asked(2) > 0

    await eventually(asked)
    sending.interrupt()

    assert await sending.ended() == 130
    assert f"holdfast watch {run.id}" in sending.seen
    thinks.set()
    await run.handle.signal("close")
    assert (await run.result())["output"] == "Fine, thanks."


async def test_a_queued_message_is_shown_and_withdrawn_and_a_remark_is_for_people(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch([Answer("", [call("pay", amount=5)]), Answer("Paid.")])
    run = await backend.start(["pay"])
    await run.waiting()

    remark = await holdfast("send", run.id, "Ask the warehouse.", "--people")
    await holdfast("send", run.id, "Hurry.", "--follow-up")
    shown = await holdfast("show", run.id)
    withdrawn = await holdfast("withdraw", run.id, "1")
    again = await holdfast("withdraw", run.id, "1")
    await run.decide("t1c1", "deny")
    await run.result()

    assert (remark.code, "for people only" in remark.out) == (0, True)
    assert "remark user\n  Ask the warehouse." in shown.out
    assert "queued  message 1: Hurry." in shown.out
    assert withdrawn.out == f"Message 1 is withdrawn: {run.id} never reads it.\n"
    assert (again.code, "message 1 is not queued" in again.err) == (2, True)
    said = [entry["message"].get("content") for entry in await run.context() if "message" in entry]
    assert not {"Hurry.", "Ask the warehouse."} & set(said)
