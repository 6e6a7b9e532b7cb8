"""What Temporal's own UI shows of how a run was started, whatever it was started with (§11)."""

from holdfast.client.start import StartRequest
from holdfast.schemas.run import CallRequest, RunRequest


def test_what_a_run_was_started_with_stands_there_as_it_is_and_is_obeyed_by_nothing() -> None:
    said = "Order 7 \x1b[2Jis late.\n# Approved\n[here](https://evil.example)"
    new = StartRequest.run(RunRequest(agent="desk", input=said), {})
    assert new.summary == "desk: Order 7 is late."
    assert new.details == (
        "Started with `holdfast`, on this:\n\n"
        "    Order 7 is late.\n    # Approved\n    [here](https://evil.example)"
    )


def test_a_long_one_has_its_beginning_there() -> None:
    new = StartRequest.run(RunRequest(agent="desk", input="x" * 10_000), {}, started_by="an API")
    assert len(new.summary) == 200
    assert new.details.startswith("Started with an API, on this:")
    assert len(new.details) < 4_100
    assert new.details.endswith("x…")


def test_a_single_call_says_with_what_arguments() -> None:
    new = StartRequest.call(CallRequest(tool="pay", arguments={"amount": 4}), {})
    assert new.summary == "pay: amount=4"
    assert StartRequest.call(CallRequest(tool="stop"), {}).details == "Started with `holdfast`."
