"""What people see of a worker's failures, and what becomes of what it has started."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast
from unittest.mock import Mock

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from holdfast.hosting import parent_watchdog
from holdfast.hosting.monitoring.worker_telemetry import log_to_stderr
from holdfast.hosting.process_exit import SIGNALS, run_until_stopped
from holdfast.runtime.data_converter import data_converter
from holdfast.runtime.storage.store import StoreError
from holdfast.schemas.names import AHEAD_OF_HISTORY
from tests.support.eventually import eventually
from tests.support.process import WorkerProcess
from tests.support.tools import StopRun


@dataclass
class Timer:
    """A timer that is never over."""

    seconds: float
    then: Callable[[], NoReturn]
    runs: bool = False

    def start(self) -> None:
        self.runs = True


@pytest.mark.parametrize("error", [None, BrokenPipeError(), ValueError("closed")])
async def test_who_does_not_heed_a_stop_is_given_a_time_for_it(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[Timer] = []
    ends: list[Any] = []
    started, is_over = asyncio.Event(), asyncio.Event()

    def timer(seconds: float, then: Callable[[], NoReturn]) -> Timer:
        timers.append(Timer(seconds, then))
        return timers[-1]

    async def stubborn() -> None:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await is_over.wait()

    monkeypatch.setattr("holdfast.hosting.process_exit.threading", SimpleNamespace(Timer=timer))
    stopping = asyncio.create_task(
        run_until_stopped(stubborn(), timedelta(seconds=3), lambda: ends.append("abandoned"))
    )
    try:
        await started.wait()
        os.kill(os.getpid(), signal.SIGTERM)

        async def stopped() -> bool:
            return bool(timers)

        await eventually(stopped)
        [one] = timers
        assert (one.seconds, one.runs, ends) == (13, True, [])
        with monkeypatch.context() as patched:
            patched.setattr(os, "_exit", ends.append)
            if error is not None:  # its reader has ended
                patched.setattr(sys, "stderr", Mock(write=Mock(side_effect=error)))
            cast(Callable[[], None], one.then)()
        assert ends == ["abandoned", 1]
        is_over.set()
        await stopping
    finally:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_signal_that_the_parent_ignores_does_not_stop_a_process() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:

        async def work() -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            for _ in range(20):  # the signal is handled by one of the next steps of the loop
                await asyncio.sleep(0)
            did.append("all")

        did = list[str]()
        await run_until_stopped(work(), timedelta(), lambda: None)
        assert did == ["all"]
    finally:
        signal.signal(signal.SIGHUP, before)
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)


async def failure_of(error: Exception) -> Failure:
    """What is written down of an exception that was raised."""
    failure = Failure()
    try:
        raise error
    except Exception as raised:
        await data_converter.encode_failure(raised, failure)
    return failure


async def test_what_is_raised_on_purpose_is_shown_without_a_stack_and_a_bug_with_one() -> None:
    refusal = ApplicationError("not this call", type="invalid_decision")
    refusal.__cause__ = ZeroDivisionError("a bug below it").with_traceback(
        (await bug()).__traceback__
    )

    shown = await failure_of(refusal)

    assert (shown.message, shown.stack_trace) == ("not this call", "")
    assert "in bug" in shown.cause.stack_trace
    assert (await failure_of(StoreError("it is gone", "look for it"))).stack_trace == ""
    assert "in failure_of" in (await failure_of(KeyError("a bug"))).stack_trace


async def bug() -> ZeroDivisionError:
    """A bug."""
    try:
        1 / 0  # noqa: B018 - it is the bug
    except ZeroDivisionError as error:
        return error
    raise AssertionError


@contextmanager
def logging_as_a_worker() -> Iterator[logging.Logger]:
    """The root of all loggers, which logs as that of a worker."""
    root, own = logging.getLogger(), logging.getLogger("holdfast")
    handlers, levels = root.handlers, (root.level, own.level)
    root.handlers = []
    try:
        log_to_stderr()
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(levels[0])
        own.setLevel(levels[1])


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ApplicationError("no such order", type="x"), 1),
        (StopRun("enough"), 1),
        (StoreError("the store is gone", "bring it back"), 1),
        (RuntimeError("[TMPRL1105] Something is stored, and no storage is configured."), 1),
        (asyncio.CancelledError("the worker stops"), 1),
        (KeyError("a bug"), 5),
    ],
)
def test_what_is_expected_is_logged_in_one_line(
    error: BaseException, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.Logger("temporalio.activity")
    with logging_as_a_worker() as root:
        logger.parent = root
        try:
            raise error
        except BaseException:
            logger.warning("Completing activity as failed", exc_info=True)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    assert str(error) in said[-1]


@pytest.mark.parametrize(("level", "lines"), [(logging.INFO, 1), (logging.DEBUG, 5)])
def test_a_failed_attempt_is_one_line_and_its_stack_is_for_debugging(
    level: int, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as_a_worker() as root:
        logging.getLogger("holdfast").setLevel(level)
        mark = {"__temporal_error_identifier": "ActivityFailure"}
        try:
            raise KeyError("a bug")
        except KeyError:
            root.warning("Completing activity as failed", exc_info=True, extra=mark)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    assert "WARNING root: Completing activity as failed: KeyError: 'a bug'" in said[0]


class Unreadable(Exception):
    def __str__(self) -> str:
        raise AttributeError


@pytest.mark.parametrize("error", [None, KeyError("a bug"), StoreError("gone", "wait")])
@pytest.mark.parametrize("arguments", [(Unreadable(),), ("one", "too many")])
def test_what_cannot_be_formatted_fails_no_call_that_logs_it(
    error: Exception | None, arguments: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as_a_worker() as root:
        root.warning("it is %s", *arguments, exc_info=error)
        root.warning("it failed", exc_info=Unreadable())
    said = capsys.readouterr().err
    assert said.count(f"WARNING root: {__file__}:") == 2
    assert "Logging error" not in said
    assert ("KeyError: 'a bug'" in said) is isinstance(error, KeyError)


def test_a_task_that_is_replayed_is_no_error_in_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_as_a_worker() as root:
        error = ApplicationError("it is replayed", type=AHEAD_OF_HISTORY)
        root.error("Failed handling activation", exc_info=error)
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "WARNING root: Failed handling activation: ahead_of_history: it is replayed"
    )


def test_information_is_logged_of_the_workers_own_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_as_a_worker() as root:
        root.setLevel(logging.WARNING)
        logging.getLogger("holdfast").info("ours")
        logging.getLogger("other").info("theirs")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO holdfast: ours")


SLEEPER = "import sys, time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def on_a_leash() -> Iterator[subprocess.Popen[bytes]]:
    """A program on a leash, which is up."""
    command = [sys.executable, "-I", parent_watchdog.__file__, sys.executable, "-c", SLEEPER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_program_on_a_leash_is_asked_to_end_with_it(on_a_leash: subprocess.Popen[bytes]) -> None:
    on_a_leash.terminate()
    assert on_a_leash.wait(120) == -signal.SIGTERM % 256


async def test_the_embedded_server_does_not_outlive_a_worker_that_is_killed(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ports = ("--dev", "--dev-port", str(port), "--dev-ui-port", "0")
    with WorkerProcess(f"127.0.0.1:{port}", *ports, "--dev-db", str(tmp_path / "t.db")) as worker:
        assert not await is_free(port)
        worker.kill()
        await eventually(lambda: is_free(port))


async def is_free(port: int) -> bool:
    """Whether no program listens on the port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return True
    writer.close()
    return False
