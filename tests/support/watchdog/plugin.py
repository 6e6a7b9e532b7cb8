"""End a test that hangs, wherever it hangs, and no other test.

pytest-timeout raises an exception in the function of a test (`timeout_func_only`). Elsewhere that
would not end the test alone: between two phases it ends the session, in a fixture of the session it
fails every later test, in a callback of an event loop it is lost. So this plugin kills the process,
with all that it has started. pytest-xdist reports that test as failed, and starts another process
for the remaining tests.
"""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Generator
from functools import cached_property
from pathlib import Path

import pytest

# Beside the function's own limit. Fixtures start Temporal's server, on a machine that may be slow.
FIXTURES_SECONDS = 360
_AT_ONCE_SECONDS = 0.001


class Watchdog:
    """The plugin in one pytest process."""

    def __init__(self, fixtures_seconds: float = FIXTURES_SECONDS) -> None:
        self._fixtures_seconds = fixtures_seconds

    @cached_property
    def _guard(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-IS", Path(__file__).with_name("guard.py")],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for pytest, with which the guard ends
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Limit the time of a whole test: its fixtures, its function and its teardown."""
        seconds = _function_seconds(item) + self._fixtures_seconds
        self._limit(seconds, f"{item.nodeid} took more than {seconds:.0f} s with its fixtures")
        try:
            return (yield)
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException:
            if "PYTEST_XDIST_WORKER" in os.environ:
                self._end(f"{item.nodeid} raised an error between two phases")
            raise
        finally:
            self._limit(0)

    def pytest_enter_pdb(self) -> None:
        """Limit the test no further: a person debugs it."""
        self._limit(0)

    def pytest_unconfigure(self) -> None:
        """End the guard."""
        if "_guard" in self.__dict__:
            self._guard.communicate()

    def _end(self, reason: str) -> None:
        """End the process: it would report an internal error, which ends the whole session."""
        traceback.print_exc(file=sys.__stderr__)
        self._limit(_AT_ONCE_SECONDS, reason)
        signal.pause()

    def _limit(self, seconds: float, reason: str = "") -> None:
        print(seconds, reason.replace("\n", " "), file=self._guard.stdin, flush=True)


def _function_seconds(item: pytest.Item) -> float:
    if own := item.get_closest_marker("timeout"):
        return float(own.args[0])
    return float(item.config.getoption("timeout") or item.config.getini("timeout") or 0)
