"""A session of which four tests cannot be ended alone by an exception."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.process import ROOT

CONFTEST = """
import pytest
from tests.support.watchdog.plugin import Watchdog

def pytest_configure(config):
    config.pluginmanager.register(Watchdog(fixtures_seconds=5))

def pytest_runtest_makereport(item, call):
    if "between_phases" in item.name and call.when == "call":
        raise SystemError("reporting failed")
"""
TESTS = """
import asyncio, ctypes, subprocess, time
import pytest

def start_child():
    # It has a child and a session of its own.
    subprocess.Popen(["sh", "-c", "sleep 3600; true"], start_new_session=True)

@pytest.fixture(scope="session")
async def blocked_server():
    start_child()
    time.sleep(3600)

@pytest.fixture
async def endless_teardown():
    yield
    start_child()
    await asyncio.sleep(3600)

@pytest.mark.parametrize("number", range(9))
async def test_before(number):
    pass

@pytest.mark.usefixtures("blocked_server")
async def test_hangs_in_a_fixture():
    pass

def test_hangs_in_c_with_the_lock_of_the_interpreter():
    start_child()
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)

@pytest.mark.usefixtures("endless_teardown")
async def test_hangs_in_its_teardown():
    pass

def test_fails_between_phases():
    start_child()

@pytest.mark.parametrize("number", range(9))
async def test_after(number):
    pass
"""
SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
timeout = 1
timeout_func_only = true
"""
PLUGINS = ("xdist", "asyncio", "timeout", "no:cacheprovider")
SHARED = ("-n", "2", "--dist", "worksteal")


def test_a_test_that_hangs_fails_alone_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hanging.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    plugins = [f"-p{each}" for each in PLUGINS]
    session = subprocess.run(
        [sys.executable, "-m", "pytest", "-qrA", *plugins, *SHARED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(re.findall(r"^FAILED test_hanging.py::(\w+)", session.stdout, re.M)) == {
        "test_fails_between_phases",
        "test_hangs_in_a_fixture",
        "test_hangs_in_c_with_the_lock_of_the_interpreter",
        "test_hangs_in_its_teardown",
    }
    assert len(re.findall(r"^PASSED .*::test_(?:before|after)\[", session.stdout, re.M)) == 18
    for stack in ("in blocked_server", "in test_hangs_in_c", "in finalizer", "reporting failed"):
        assert stack in session.stderr
    assert processes_in(tmp_path) == []


def processes_in(folder: Path) -> list[str]:
    """Return the running processes whose working directory this is; none without `/proc`."""
    found = []
    for directory in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if directory.readlink() == folder:
                found.append((directory.parent / "cmdline").read_text())
    return found
