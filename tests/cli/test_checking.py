"""`holdfast check` ends the worker that checks, whatever its modules do."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Holdfast, Start
from tests.support.eventually import eventually


async def test_a_module_that_blocks_the_interpreter_is_ended_all_the_same(
    tmp_path: Path, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.project_commands.PATIENCE_SECONDS", 1)
    module = tmp_path / "shop.py"
    module.write_text("import ctypes\nctypes.PyDLL(None).sleep(600)")  # it never lets go of Python
    said = await holdfast("check", "--tools", str(module), "--timeout", "5s")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "holdfast: the check was cut short: it did not end within 6 s; "
        f"see what `{module}` does while it is imported\n"
    )


async def test_ctrl_c_ends_the_worker_that_checks_as_well(tmp_path: Path, start: Start) -> None:
    pid, module = tmp_path / "pid", tmp_path / "shop.py"
    writes = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n"
    module.write_text(f"{writes}time.sleep(600)\n")
    program = start("check", "--tools", str(module), "--timeout", "10m")

    async def has_started() -> bool:
        return pid.exists() and bool(pid.read_text())

    await eventually(has_started)
    program.process.send_signal(signal.SIGINT)
    assert await program.ended() == 130

    async def gone() -> bool:
        try:
            os.kill(int(pid.read_text()), 0)
        except ProcessLookupError:
            return True
        return False

    await eventually(gone)
