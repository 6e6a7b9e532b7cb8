"""The engines that are measured side by side: ours, its peers, and a plain workflow.

Each does the same work with the same tool, against the same model, in a worker that is a process of
its own. A peer's worker is `peers/NAME/worker.py`, written as that project's own pages have it, in
an environment of its own, made from `peers/NAME/requirements.lock`.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.process import ROOT, Program, our_worker, running
from bench.programs.work import INSTRUCTIONS, TOOL, Work

ENVIRONMENTS = Path("bench/.venv")


@dataclass(frozen=True)
class Engine:
    """One engine: the workflow that it is asked for, with which arguments, and by which activity
    it asks the model. `folder` is where its worker is, `packages` are what its versions are of."""

    title: str
    packages: tuple[str, ...]
    arguments: Callable[[Work], list[Any]]
    asks: str
    workflow: str = "RecordsWorkflow"
    folder: Path | None = None

    @property
    def is_peer(self) -> bool:
        """Whether it is neither ours nor the plain workflow."""
        return self.folder not in (None, _PEERS / "plain")

    @property
    def python(self) -> str:
        """The Python that runs it: that of its own environment, where it has one."""
        if self.folder is None or not (ROOT / self.folder / "requirements.lock").exists():
            return sys.executable
        return str(ENVIRONMENTS / self.folder.name / "bin/python")

    @property
    def replayed(self) -> Path:
        """The module that says how its histories are replayed."""
        return Path("bench/programs/ours.py") if self.folder is None else self.folder / "worker.py"

    @asynccontextmanager
    async def at_work(self, address: str, queue: str, model_url: str) -> AsyncIterator[Program]:
        """Its worker, at work."""
        if self.folder is None:
            async with our_worker(address, queue, model_url) as program:
                yield program
            return
        where = {"TEMPORAL_ADDRESS": address, "OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "-"}
        async with running([self.python, str(self.folder / "worker.py"), queue], where) as program:
            yield program

    def versions(self) -> dict[str, str]:
        """The versions of its packages."""
        read = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
        command = [self.python, "-c", read, *self.packages]
        said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return dict(zip(self.packages, said.split(), strict=True))


async def made(engines: list[Engine]) -> None:
    """Make the environments that are missing."""
    stamps = [
        str(Path(engine.python).parents[1] / ".made")
        for engine in engines
        if engine.python != sys.executable
    ]
    if not stamps:
        return
    make = await asyncio.create_subprocess_exec("make", "-s", *stamps, cwd=ROOT)
    if await make.wait():
        raise RuntimeError("an environment of the bench could not be made: see above")


def _request(work: Work, tool: Any) -> list[Any]:
    turns = work.turns + 1
    budget = {"maxTurns": turns, "maxIterations": turns, "maxCalls": turns * work.calls}
    agent = {
        "name": "bench",
        "instructions": INSTRUCTIONS,
        "model": {"endpoint": "fake"},
        "tools": [tool],
        "budget": budget,
    }
    return [{"agent": agent, "input": work.prompt}]


_LOCAL = {
    "_tool": TOOL,
    "description": "Read a record.",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
    "_activity": {"type": TOOL, "local": True},
}


def _prompt(work: Work) -> list[Any]:
    return [work.prompt]


_PEERS = Path("bench/peers")
ENGINES = {
    "holdfast": Engine(
        "holdfast",
        ("holdfast-agents", "temporalio"),
        lambda work: _request(work, TOOL),
        "generate",
        "AgentWorkflow",
    ),
    "holdfast_local": Engine(
        "holdfast, local tool",
        ("holdfast-agents", "temporalio"),
        lambda work: _request(work, _LOCAL),
        "generate",
        "AgentWorkflow",
    ),
    "plain": Engine("plain workflow", ("temporalio",), _prompt, "ask", folder=_PEERS / "plain"),
    "pydantic_ai": Engine(
        "Pydantic AI",
        ("pydantic-ai-slim", "temporalio"),
        _prompt,
        "agent__bench__model_request",
        folder=_PEERS / "pydantic_ai",
    ),
    "openai_agents": Engine(
        "OpenAI Agents",
        ("temporalio-openai-agents", "openai-agents", "temporalio"),
        lambda work: [work.prompt, work.turns + 1],
        "invoke_model_activity",
        folder=_PEERS / "openai_agents",
    ),
    "strands": Engine(
        "Strands",
        ("temporalio-strands-agents", "strands-agents", "temporalio"),
        _prompt,
        "invoke_model",
        folder=_PEERS / "strands",
    ),
    "langgraph": Engine(
        "LangGraph",
        ("temporalio-langgraph", "langgraph", "temporalio"),
        # A step for each node that is gone through, and one for the end.
        lambda work: [work.prompt, 2 * work.turns + 1],
        "records.agent",
        folder=_PEERS / "langgraph",
    ),
}
