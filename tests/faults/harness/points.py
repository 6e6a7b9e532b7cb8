"""Where a worker stands, by name, as it gets there; and what befalls it there.

A worker of the harness calls `reach` at each point: it is written into the trace, and a fault that
is armed for this point strikes. A kill is done here, at once, to this very process. For any other
fault the worker stays there until the one that inflicts it releases it.

The activations of workflows and the tasks of activities are seen where the SDK hands them over to
Python and takes the answers: this is the one file of the harness that uses what is not public, the
methods of `temporalio.bridge.worker.Worker`.
"""

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

from temporalio.bridge.worker import Worker

TRACE, ARMED, CONTROL = "trace", "armed", "control"
# The part of the workflow that a case begins with.
RUN = "run"
READY = "worker ready"


def name_of(workflow: str, root: str) -> str:
    """A workflow by the part that it plays: `run`, or `run.t1c1` for a delegate's."""
    return workflow.replace(root, RUN, 1)


def numbered(name: str, seen: Counter[str]) -> str:
    """The name of a point, distinguished from the same one before it."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name} #{seen[name]}"


class Points:
    """The points of one worker, in a folder that it shares with the harness.

    `here` is that of this process, if it is a worker of the harness: tools are loaded again by
    what executes them, this module is not.
    """

    here: ClassVar["Points | None"] = None

    def __init__(self, folder: Path, root: str) -> None:
        self.root = root
        self._folder = folder
        self._seen: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """Report that a point is reached, and bear what is armed for it."""
        point = numbered(name, self._seen)
        number = record(self._folder, point)
        armed = Armed.read(self._folder)
        if not armed.strikes_at(point, number):
            return
        if armed.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self._folder / CONTROL))
            control.sendall(f"{armed.serial}\n".encode())
            control.recv(1)


@dataclass(frozen=True)
class Armed:
    """The fault that is to strike next: at a point by its name, or at the first from `number` on,
    by the lines of the trace. Its `serial` is the number of the fault within its case."""

    kind: str = ""
    point: str = ""
    number: int | None = None
    serial: int = 0

    def strikes_at(self, point: str, number: int) -> bool:
        """Whether this is the point."""
        return number >= self.number if self.number is not None else point == self.point

    @classmethod
    def read(cls, folder: Path) -> "Armed":
        """What is armed."""
        return cls(**json.loads((folder / ARMED).read_text(encoding="utf-8")))

    def write(self, folder: Path) -> None:
        """Arm it, all at once."""
        written = folder / f"{ARMED}.new"
        written.write_text(json.dumps(asdict(self)), encoding="utf-8")
        written.rename(folder / ARMED)


def record(folder: Path, point: str) -> int:
    """Write a point into the trace, in one piece; how many there are now."""
    with (folder / TRACE).open("a+", encoding="utf-8") as trace:
        trace.write(json.dumps({"pid": os.getpid(), "point": point}) + "\n")
        trace.flush()
        trace.seek(0)
        return trace.read().count("\n")


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The trace so far, but for a line that was not finished."""
    path = folder / TRACE
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def watch(points: Points) -> None:
    """Have every worker of this process reach the points of what it is given and gives back."""
    told = _Exchanged(points)
    _around(Worker, "poll_workflow_activation", after=told.activation)
    _around(Worker, "complete_workflow_activation", before=told.decided, after=told.sent)
    _around(Worker, "poll_activity_task", after=told.task)
    _around(Worker, "complete_activity_task", before=told.returned, after=told.reported)


class _Exchanged:
    """What the SDK's core and Python hand to each other, as points."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._workflows: dict[str, str] = {}
        self._activations: dict[str, str] = {}
        self._tasks: dict[bytes, str] = {}
        self._counts: Counter[str] = Counter()

    def activation(self, _: Any, activation: Any) -> None:
        jobs = [job.WhichOneof("variant") for job in activation.jobs]
        for job in activation.jobs:
            if job.HasField("initialize_workflow"):
                name = name_of(job.initialize_workflow.workflow_id, self._points.root)
                self._workflows[activation.run_id] = name
        # A viewer looks at a run, or it is put out of the cache, or read again: nothing is decided.
        if activation.is_replaying or {"query_workflow", "remove_from_cache"}.issuperset(jobs):
            return
        workflow = self._workflows[activation.run_id]
        self._counts[workflow] += 1
        label = f"workflow {workflow} activation {self._counts[workflow]}"
        self._activations[activation.run_id] = label
        self._points.reach(f"{label} comes")

    def decided(self, completion: Any) -> None:
        label = self._activations.get(completion.run_id)
        if label is not None:
            self._points.reach(f"{label} decided")

    def sent(self, completion: Any, _: Any) -> None:
        label = self._activations.pop(completion.run_id, None)
        if label is not None:
            self._points.reach(f"{label} sent")

    def task(self, _: Any, task: Any) -> None:
        if not task.HasField("start"):
            return
        workflow = name_of(task.start.workflow_execution.workflow_id, self._points.root)
        label = activity_label(task.start.activity_type, workflow, task.start.activity_id)
        self._tasks[task.task_token] = label
        self._points.reach(f"{label} comes")

    def returned(self, completion: Any) -> None:
        if completion.task_token in self._tasks:
            self._points.reach(f"{self._tasks[completion.task_token]} returned")

    def reported(self, completion: Any, _: Any) -> None:
        label = self._tasks.pop(completion.task_token, None)
        if label is not None:
            self._points.reach(f"{label} reported")


def activity_label(kind: str, workflow: str, activity_id: str) -> str:
    """An activity, by its task queue, whose it is, and its id."""
    return f"activity {kind} {workflow}/{activity_id}"


def _around(
    owner: type,
    name: str,
    before: Callable[[Any], None] | None = None,
    after: Callable[[Any, Any], None] | None = None,
) -> None:
    """Do something before and after a method; both are given its argument, if it has one."""
    method: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @wraps(method)
    async def wrapped(self: Any, *arguments: Any) -> Any:
        given = arguments[0] if arguments else None
        if before is not None:
            before(given)
        answer = await method(self, *arguments)
        if after is not None:
            after(given, answer)
        return answer

    setattr(owner, name, wrapped)
