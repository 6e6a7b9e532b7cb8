"""Run a program of a checkout, and list the functions of the checkout that it passes.

`python -P bench/structure/profiler.py TREE OUT PROGRAM [ARGUMENT]…` runs one of three programs. OUT
is a list of `[file, function]`, relative to TREE.

- `worker` records from the signal `approve` until the workflow schedules the activity `pay`;
- `inbox` records the first request after SIGUSR1 until its response is sent;
- `turn` records one turn with one tool call, in the driver of the engine's tests.

The first two write OUT at SIGUSR2.
"""

import importlib
import json
import runpy
import signal
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# Where the turn starts and where it ends: methods of the run.
FIRST, LAST = "model_answered", "closed"
# Where the SDK delivers a signal to a workflow, and where it schedules an activity for one.
DELIVERS, SCHEDULES = "_apply_signal_workflow", "_apply_schedule_command"
# Where the HTTP server calls the application, in a task of the request.
REQUEST = "run_asgi"
# The set to which the tasks of a request are recorded.
of_request: ContextVar[set[CodeType] | None] = ContextVar("of_request", default=None)

recorded: set[CodeType] = set()
is_recording = False
deciding_thread = 0


def profile_request(frame: FrameType, event: str, _: Any) -> None:
    """Record the task of a request, and the tasks that it starts, until the response is sent."""
    global is_recording
    if not is_recording:
        return
    code = frame.f_code
    # A request from before SIGUSR1 may still be ending.
    is_request = code.co_name == REQUEST
    if event == "call" and is_request and not frame.f_locals["self"].response_started:
        of_request.set(recorded)
    if of_request.get() is not recorded:
        return
    if event == "call":
        recorded.add(code)
    elif event == "return" and is_request:
        is_recording = not frame.f_locals["self"].response_complete


def profile_turn(frame: FrameType, event: str, _: Any) -> None:
    """Record from the model's answer until the turn is closed."""
    global is_recording
    code = frame.f_code
    is_run = code.co_filename.endswith("engine/run.py")
    if is_run and event == "call" and code.co_name == FIRST and not recorded:
        is_recording = True
    if is_recording and event == "call":
        recorded.add(code)
    if is_run and event == "return" and code.co_name == LAST:
        is_recording = False


def profile_decision(frame: FrameType, event: str, _: Any) -> None:
    """Record one thread from the signal of a decision until its activity is scheduled."""
    global deciding_thread
    if event != "call":
        return
    code, thread = frame.f_code, threading.get_ident()
    if code.co_name == DELIVERS and frame.f_locals["job"].signal_name == "approve":
        deciding_thread = thread
    elif thread == deciding_thread:
        recorded.add(code)
        if code.co_name == SCHEDULES and frame.f_locals["self"]._input.activity == "pay":
            deciding_thread = 0


def start(*_: object) -> None:
    """Record from now on."""
    global is_recording, recorded
    recorded = set()
    is_recording = True


def write(tree: Path, out: Path) -> None:
    """Write what was recorded."""
    found = []
    for code in recorded.copy():
        path = Path(code.co_filename).resolve()
        if path.is_relative_to(tree) and code.co_name != "<module>":
            name = f"{code.co_qualname}:{code.co_firstlineno}"
            found.append([str(path.relative_to(tree)), name])
    partial = out.with_suffix(".part")
    partial.write_text(json.dumps(sorted(found)), encoding="utf-8")
    partial.rename(out)


def play_turn() -> None:
    """Play a run of two turns, of which the first has one call."""
    driver = importlib.import_module("tests.engine.driver")
    reply = getattr(driver, "reply", None) or driver.says  # its older name
    answers = [reply("", driver.call("look")), reply("Done.")]
    play = driver.Play(driver.tool("look"), model=answers)
    sys.setprofile(profile_turn)
    play.to_end()
    sys.setprofile(None)


def main() -> None:
    """Run the program."""
    tree, out, program = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3]
    if program == "turn":
        play_turn()
        write(tree, out)
        return
    signal.signal(signal.SIGUSR1, start)
    signal.signal(signal.SIGUSR2, lambda *_: write(tree, out))
    profiler = profile_decision if program == "worker" else profile_request
    threading.setprofile(profiler)
    sys.setprofile(profiler)
    sys.argv = ["holdfast", program, *sys.argv[4:]]
    runpy.run_module("holdfast", run_name="__main__")


if __name__ == "__main__":
    main()
