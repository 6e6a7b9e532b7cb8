"""What a turn takes, in counts that no machine changes: with 1, 50 and 300 tools.

A run makes one call a turn. Counted in the workflow's thread: calls of Python functions, JSON that
is encoded, and digests, as medians over the run's turns; the bytes of a request without its
conversation; and what Python keeps of a cached run that waits for a message.
"""

import gc
import statistics
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowHandle

from bench.process import fake_model
from bench.programs.our_worker import at_work
from bench.programs.work import Work
from holdfast.hosting.sdk_workarounds import shared_sandbox
from holdfast.schemas import names
from tests.support.model_server import Answer, call, serve

TOOLS = (1, 50, 300)
TURNS = 8
CACHED_RUNS = 20
# Code that one of these functions runs in C.
_ENCODE = ("encode", "to_python", "to_json", "encode_basestring")
_DIGEST = ("openssl_sha256",)
DESCRIPTION = "A tool of a server, whose description says what it does, and when to use it. " * 4


@dataclass(frozen=True)
class TurnCounts:
    """What one turn takes."""

    python_calls: float
    encodings: float
    digests: float
    request_bytes: int


async def table(client: Client) -> str:
    """The figures as a Markdown table."""
    heads = "tools | Python calls | JSON encodings | digests | bytes of the tools in a request"
    rows = [f"| {heads} | a cached run, KB |", "| ---: | ---: | ---: | ---: | ---: | ---: |"]
    for tools in TOOLS:
        found = await measure(client, tools)
        counts = f"{found.python_calls:.0f} | {found.encodings:.0f} | {found.digests:.0f}"
        cached = await cached_run_bytes(client, tools) / 1000
        rows.append(f"| {tools} | {counts} | {found.request_bytes} | {cached:.0f} |")
    return "\n".join(rows)


async def measure(client: Client, tools: int) -> TurnCounts:
    """The counts of a turn of a run with so many tools."""
    requests: list[dict[str, Any]] = []

    def answer(turn: int, request: dict[str, Any]) -> Answer:
        requests.append(request)
        calls = [call("read_record", name="record", size=500)] if turn <= TURNS else []
        return Answer("" if calls else "Read.", calls=calls)

    with serve(answer) as model, _counted() as activations:
        async with at_work(client, model.url) as queue:
            request = {"agent": _agent(tools), "input": "Read."}
            run = await client.start_workflow(
                "AgentWorkflow", request, id=queue.replace("bench", "run"), task_queue=queue
            )
            await run.result()
    # The first of them, which starts the run, and the turns that load what is loaded once.
    late = [each for each in activations if each][6:-2]
    of_turn = [sum(pair, Counter()) for pair in zip(late[::2], late[1::2], strict=False)]
    medians = {
        what: statistics.median(each[what] for each in of_turn)
        for what in ("call", "encode", "digest")
    }
    return TurnCounts(
        medians["call"], medians["encode"], medians["digest"], len(str(requests[-1]["tools"]))
    )


async def cached_run_bytes(client: Client, tools: int) -> float:
    """Return what Python keeps of one of several runs of an agent with so many tools."""
    # In a process of its own, the model keeps nothing in this one.
    async with fake_model() as model, at_work(client, model) as queue:

        async def open_run(number: int) -> WorkflowHandle[Any, Any]:
            run = await client.start_workflow(
                names.AGENT_WORKFLOW,
                {"agent": _agent(tools), "input": Work(1).prompt, "conversation": True},
                id=f"{queue}-{number}",
                task_queue=queue,
            )
            await run.execute_update(names.SEND, "Read on.")
            return run

        runs = [await open_run(0)]  # with what is loaded once
        tracemalloc.start()
        try:
            runs += [await open_run(number) for number in range(1, CACHED_RUNS + 1)]
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        for run in runs:
            await run.terminate()
    return kept / CACHED_RUNS


def _agent(tools: int) -> dict[str, Any]:
    texts = {f"p{n}": {"type": "string", "description": "What it is for."} for n in range(8)}
    others = [
        {
            "_tool": f"tool_{n}",
            "description": DESCRIPTION,
            "properties": {**texts, "limit": {"type": "integer"}},
            "_activity": "read_record",
        }
        for n in range(tools - 1)
    ]
    return {
        "name": "reader",
        "instructions": "Read.",
        "model": {"endpoint": "fake", "name": "fake"},
        "tools": ["read_record", *others],
        "budget": {"maxTurns": 2 * TURNS, "maxIterations": 2 * TURNS},
    }


@contextmanager
def _counted() -> Iterator[list[Counter[str]]]:
    """Yield the counts of each activation of the workflow's thread from now on."""
    activations: list[Counter[str]] = []
    activate = shared_sandbox._SandboxedRun.activate

    def counting(run: Any, act: Any) -> Any:
        counts: Counter[str] = Counter()

        def profile(frame: Any, event: str, argument: Any) -> None:
            if event == "call":
                counts["call"] += 1
            elif event == "c_call":
                name = argument.__name__
                counts["encode"] += name in _ENCODE
                counts["digest"] += name in _DIGEST

        activations.append(counts)
        sys.setprofile(profile)
        try:
            return activate(run, act)
        finally:
            sys.setprofile(None)

    shared_sandbox._SandboxedRun.activate = counting  # type: ignore[assignment, method-assign]
    try:
        yield activations
    finally:
        shared_sandbox._SandboxedRun.activate = activate  # type: ignore[method-assign]
