"""A task of ten dependent calls: asked for call by call, and as one answer whose calls refer to
each other.

Each call reads a record whose key stands in the record before. The agent, the tool and what is kept
in the end are the same each way; that they are is checked. Call by call, the model copies each key
from the result that it has just read. In one answer it names the place where the key will stand,
`†state.r1.next`, and the calls wait for each other. Composed calling lets it give its answer to the
task in the same breath: that refers to the last key too.

Tokens are what the fake model reports: one for every four bytes of the requests as they were sent,
and of what it said.
"""

import json
import statistics
from collections.abc import Callable
from typing import Any

from temporalio.client import Client

from bench.measures.measured import Measured, measured, shown
from bench.programs.our_worker import at_work
from tests.support.model_server import Answer, ModelServer, serve

CALLS = 10
REPEATS = 3
FIRST = "record-01f4"
OUTPUT = "The last key is {}."
TOOL = {
    "_tool": "follow",
    "description": "Read a record, which names the key of the next one.",
    "properties": {"key": {"type": "string"}, "_outputPath": {"type": "string"}},
    "required": ["key"],
    "_activity": "follow_record",
}
WAYS = ("call by call", "one answer", "one answer, with the output")
WHAT: dict[str, Callable[[Measured], float]] = {
    "requests to the model": lambda run: run.result["turns"],
    "input tokens": lambda run: run.result["usage"]["inputTokens"],
    "output tokens": lambda run: run.result["usage"]["outputTokens"],
    "history, KB": lambda run: run.history_bytes / 1000,
    "events": lambda run: run.events,
    "wall time, s": lambda run: run.wall_seconds,
    "CPU time of worker and model, s": lambda run: run.cpu_seconds,
}


async def table(client: Client) -> str:
    """The figures as a Markdown table: medians, and each divided by what it is call by call."""
    runs = await measure(client, REPEATS)
    rows = [
        f"| figure | {WAYS[0]} | {WAYS[1]} | ratio | {WAYS[2]} | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title, figure in WHAT.items():
        first, *others = (statistics.median(map(figure, runs[way])) for way in WAYS)
        cells = [f"{shown(other)} | {other / first:.3f}" for other in others]
        rows.append(f"| {title} | {shown(first)} | {' | '.join(cells)} |")
    return "\n".join(rows)


async def measure(client: Client, repeats: int) -> dict[str, list[Measured]]:
    """Have the task done each way in turn, by one worker.

    Raises:
        RuntimeError: something else came of it one way than another.
    """
    runs: dict[str, list[Measured]] = {way: [] for way in WAYS}
    with serve(_answer) as model:
        async with at_work(client, model.url) as queue:
            for way in WAYS * repeats:
                run = await measured(client, "AgentWorkflow", queue, _request(way))
                _check(run, model)
                runs[way].append(run)
    kept = [(run.result["state"], run.result["output"]) for way in WAYS for run in runs[way]]
    if any(each != kept[0] for each in kept):
        raise RuntimeError("not the same state was kept, or not the same answer given, each way")
    return runs


def _check(run: Measured, model: ModelServer) -> None:
    """See that the task was done, with as many requests as the run says."""
    result, requests = run.result, len(model.requests)
    model.requests.clear()
    if len(result["state"]) != CALLS or result["turns"] != requests:
        raise RuntimeError(f"{requests} requests, and this came of it: {_json(result)[:500]}")


def _request(way: str) -> dict[str, Any]:
    agent = {
        "name": "bench",
        "instructions": f"Follow {CALLS} records from {FIRST} on, and tell the last key.",
        "model": {"endpoint": "fake"},
        "calling": "composed" if way == WAYS[2] else "native",
        "tools": [TOOL],
        "budget": {"maxTurns": CALLS + 1, "maxIterations": CALLS + 1},
    }
    return {"agent": agent, "input": way}


def _answer(turn: int, body: dict[str, Any]) -> Answer:
    """What the model says. The user's message says which way it is to go."""
    asked = [message["content"] for message in body["messages"] if message["role"] == "user"]
    keys = [FIRST, *(f"†state.r{n}.next" for n in range(1, CALLS))]
    calls = [_arguments(n, key) for n, key in enumerate(keys, start=1)]
    if asked[0] == WAYS[2]:
        output = OUTPUT.format(f"†{{state.r{CALLS}.next}}")
        said = {"calls": [{"_tool": "follow", **each} for each in calls], "output": output}
        return Answer(_json(said), usage="counted")
    if turn == 1 + (CALLS if asked[0] == WAYS[0] else 1):
        return Answer(OUTPUT.format(_key_read(body)), usage="counted")
    if asked[0] == WAYS[0]:
        calls = [_arguments(turn, _key_read(body))]
    return Answer(calls=[("follow", _json(each)) for each in calls], usage="counted")


def _arguments(n: int, key: str) -> dict[str, str]:
    return {"key": key, "_outputPath": f"†state.r{n}"}


def _key_read(body: dict[str, Any]) -> str:
    """The key that the last result names."""
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    return str(json.loads(results[-1])["next"]) if results else FIRST


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
