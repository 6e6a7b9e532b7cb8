"""Two hundred runs that seeds make: against themselves they are equal, and changed contact nothing.

`make test-slow ARGS="-k many_backtests"`; a run is made of the calls, plans, loops, delegates and
people of `test_backtest.py`.
"""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import temporalio.client
import temporalio.worker
import yaml
from temporalio import activity
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import PendingCall
from holdfast.runtime.data_converter import with_encryption, with_store
from holdfast.runtime.storage.folder import FolderStore
from tests.activities.mcp.servers import shop
from tests.activities.notify.test_mail import Post, serving
from tests.client.records.test_backtest import (
    MCP,
    PAY_ALL,
    PERSON,
    READS,
    Open,
    RecordedRuns,
    commands,
    comparable,
    logs,
    record,
)
from tests.encryption.keys import NEW, key_file, ring
from tests.support.backend import Run
from tests.support.model_server import Answer, call
from tests.support.tools import read
from tests.workflows.commands.test_child_workflows import ASK

# Fixtures.
__all__ = ["logs", "record"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_500)]

RUNS, AT_ONCE = 200, 6
TOOLS: dict[str, Any] = {
    **{name: name for name in ("look_up", "pay", "raises", "quick", "unsure")},
    "ask": ASK,
    "bill": PAY_ALL,
    "ask_person": PERSON,
    **{f"shop_{name}": f"mcp:shop/{name}" for name in ("find_order", "refund")},
}
CALLS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "look_up": lambda chance: {"id": chance.choice([1, 2, 13])},
    "pay": lambda chance: {"amount": chance.randrange(1, 4)},
    "raises": lambda _: {},
    "quick": lambda chance: {"text": chance.choice(["", "a"])},
    "unsure": lambda _: {},
    "ask": lambda _: {"task": "help"},
    "bill": lambda chance: {"_each": [1, chance.randrange(2, 9)], "amount": "†item"},
    "ask_person": lambda _: {"question": "?"},
    "shop_find_order": lambda _: {"order_id": "A1"},
    "shop_refund": lambda chance: {"order_id": chance.choice(["A1", "B2"])},
    "hours": lambda _: {},
    "memory_write": lambda chance: {"key": chance.choice(["a", "b"]), "value": "c"},
    "memory_read": lambda _: {},
}
SIMPLE = ("look_up", "pay", "raises", "quick", "ask", "shop_find_order", "shop_refund")
# What delegates use is not counted in a backtest.
BUDGET = {"maxTurns": 1_000, "maxCalls": 1_000}
COMMON = {"budget": BUDGET, "memory": True, "knowledge": [{"name": "hours", "text": "9 to 5"}]}
HOOKS = {"_prepare": "tidy", "_before": "guard", "_beforeModel": "mask"}
KINDS = ("plain", "plain", "hooks", "lazy", "eager", "composed", "conversation")
CHANGES = ("prompt", "dropped", "renamed", "reordered")


@dataclass(frozen=True)
class Script:
    """What a seed makes of a run: its kind, and the calls of each turn."""

    seed: int
    kind: str
    turns: list[list[tuple[str, Any]]]

    @classmethod
    def of(cls, seed: int) -> "Script":
        chance = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        made_of = [*CALLS] if kind in ("plain", "hooks", "conversation") else SIMPLE
        turns = [
            [call(name, **CALLS[name](chance)) for name in chance.choices(made_of, k=1 + n % 3)]
            for n in range(chance.randrange(1, 5))
        ]
        return cls(seed, kind, turns)

    @property
    def name(self) -> str:
        return f"seed{self.seed:03}"

    @property
    def agent(self) -> dict[str, Any]:
        plan = {"plan": self.kind} if self.kind in ("lazy", "eager") else {}
        hooks = HOOKS if self.kind == "hooks" else {}
        return {**COMMON, **hooks, **plan, "calling": "composed" if self.is_composed else "native"}

    @property
    def is_composed(self) -> bool:
        return self.kind == "composed"

    def answer(self, turn: int) -> Answer:
        made = self.turns[turn - 1] if turn <= len(self.turns) else []
        if self.is_composed:
            calls = [{"_tool": tool, **arguments} for tool, arguments in made]
            return Answer(json.dumps({"calls": calls, "output": None if made else "done"}))
        return Answer(calls=made) if made else Answer(f"done {turn}")

    def changed(self, change: str) -> "Script":
        """What a changed agent does in place of this."""

        def other(tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            if change == "renamed":
                return tool, {f"{key}_": each for key, each in arguments.items()}
            more = {key: each + 90 for key, each in arguments.items() if isinstance(each, int)}
            return tool, {**arguments, **more}

        if change in ("prompt", "renamed"):
            turns = [[other(*each) for each in turn] for turn in self.turns]
            extra = [call("pay", amount=77), call("shop_refund", order_id="C3")]
            turns.append(extra if change == "prompt" else [])
            return replace(self, turns=[turn for turn in turns if turn])
        # The model still calls a tool that was removed.
        return replace(self, turns=self.turns[::-1] if change == "reordered" else self.turns)


SCRIPTS = [Script.of(seed) for seed in range(RUNS)]


def answers(turn: int, body: dict[str, Any]) -> Answer:
    """The answer to the run that a request names in its input."""
    said = json.dumps(body)
    found = re.search(r"input-of-(\d+)", said)
    assert found is not None, said
    script = SCRIPTS[int(found[1])]
    change = next((name for name in CHANGES if f"agent {name}" in said), None)
    return (script if change is None else script.changed(change)).answer(turn)


class Contacts(temporalio.client.Interceptor, temporalio.worker.Interceptor):
    """Counts the activities that a worker of production runs: tools, hooks and memory."""

    def __init__(self) -> None:
        self.counted = Counter[str]()

    def intercept_activity(
        self,
        next: temporalio.worker.ActivityInboundInterceptor,  # noqa: A002
    ) -> temporalio.worker.ActivityInboundInterceptor:
        counted = self.counted

        class Counting(temporalio.worker.ActivityInboundInterceptor):
            async def execute_activity(self, input: temporalio.worker.ExecuteActivityInput) -> Any:
                counted[activity.info().activity_type] += 1
                return await self.next.execute_activity(input)

        return Counting(next)


@dataclass
class Production:
    """The worker on which runs are recorded, and what it has contacted."""

    here: RecordedRuns
    folder: Path
    contacts: Contacts
    post: Post
    runs: dict[int, Run] = field(default_factory=dict)

    async def contacted(self) -> list[Any]:
        """Everything that has happened outside, in numbers."""
        client, query = self.here.back.client, 'WorkflowType = "MemoryWorkflow"'
        stores = [each.id async for each in client.list_workflows(query)]
        sizes = [(await client.get_workflow_handle(id).describe()).history_length for id in stores]
        programs = self.folder / "starts"
        started = programs.read_text() if programs.exists() else ""
        outside = [len(read()), len(shop.effects()), len(self.post.taken), started]
        return [*outside, sum(sizes), dict(self.contacts.counted)]

    async def record(self, script: Script) -> None:
        tools = [TOOLS[name] for name in sorted(TOOLS) if not script.is_composed or name in SIMPLE]
        request: dict[str, Any] = {"principal": {"id": script.name}}
        request |= {"conversation": True} if script.kind == "conversation" else {}
        text = f"input-of-{script.seed}"
        run = await self.here.start(
            f"agent seed {script.name}", tools, agent=script.agent, input=text, **request
        )
        self.runs[script.seed] = run
        people = [self._decide(script, run)]
        people += [self._talk(run)] if script.kind == "conversation" else []
        await asyncio.gather(*people)
        await run.result()

    async def _decide(self, script: Script, run: Run) -> None:
        client = HoldfastClient(self.here.back.client, self.here.back.task_queue)
        count = 0
        async for one in client.run(run.id).approval_requests():
            count += 1
            await _decision(one, random.Random(f"{script.seed} {one.call_id} {count}"))

    async def _talk(self, run: Run) -> None:
        for text in ("and then?", "and?"):
            await run.idle()
            await run.handle.execute_update("send", {"content": text})
        await run.idle()
        await run.handle.signal("close")


async def _decision(one: PendingCall, chance: random.Random) -> None:
    match one.kind:
        case "input":
            await one.respond({"yes": chance.randrange(9)}, by="ann")
        case "reconcile" if chance.random() < 0.4:
            await one.did_not_happen(by="ann")
        case "reconcile" if chance.random() < 0.5:
            await one.happened({"sure": True}, by="ann")
        case "reconcile":
            await one.give_up(by="ann")
        case "call" if one.tool == "pay" and chance.random() < 0.3:
            await one.edit({"amount": chance.randrange(5, 9)}, by="ann")
        case _ if chance.random() < 0.3:
            await one.deny(reason="no", by="ann")
        case _:
            await one.approve(by="ann")


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
async def production(
    request: pytest.FixtureRequest, record: Open, client: Client, tmp_path: Path
) -> AsyncIterator[Production]:
    """A worker on which the runs of three quarters of the seeds are recorded, or of the others."""
    config, options, contacts, post = client.config(), list[str](), Contacts(), Post()
    config["interceptors"] = [*config["interceptors"], contacts]
    if request.param:
        converter = with_encryption(client.data_converter, ring(NEW))
        config["data_converter"] = with_store(converter, FolderStore(tmp_path / "store"))
        options += ["--encryption", str(key_file(tmp_path, [NEW]))]
        options += ["--store", str(tmp_path / "store")]
    async with serving(post):
        mail = {
            "host": "127.0.0.1",
            "port": post.port,
            "tls": "none",
            "from": "a@acme.org",
            "to": ["b@acme.org"],
        }
        notifiers = tmp_path / "notify.yaml"
        notifiers.write_text(
            yaml.safe_dump({"inbox": "https://inbox.x", "channels": {"desk": {"mail": mail}}})
        )
        settings = {
            "client": Client(**config),
            "continue_after": 40,
            "notify": "notify",
            "notifiers": notifiers,
        }
        options += ["--notify", "notify", "--notifiers", str(notifiers)]
        here = await record(*options, settings=settings, agent=answers)
        made, slots = Production(here, tmp_path, contacts, post), asyncio.Semaphore(AT_ONCE)

        async def one(script: Script) -> None:
            async with slots:
                await made.record(script)

        mine = [each for each in SCRIPTS if (each.seed % 4 == 3) == request.param]
        await asyncio.gather(*map(one, mine))
        # A contact of the server of tools would be counted.
        count = f"echo started >> {tmp_path / 'starts'}"
        counting = {**MCP, "command": "sh", "args": ["-c", count]}
        (tmp_path / "servers.yaml").write_text(yaml.safe_dump({"shop": counting}))
        yield made


def by_call(log: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The entries of each call in their order: calls of one turn end in any order."""
    found: dict[str, list[Any]] = {}
    for entry in comparable(log):
        del entry["n"]
        found.setdefault(entry.get("callId", ""), []).append(entry)
    return found


async def test_many_backtests_are_equal_or_contact_nothing(
    production: Production, logs: dict[str, list[dict[str, Any]]], client: Client, tmp_path: Path
) -> None:
    runs, here = production.runs, production.here
    before = await production.contacted()
    assert min(before[:3]) > 0
    _, reports = await here.reports(*(run.id for run in runs.values()))
    for (seed, run), report in zip(runs.items(), reports, strict=True):
        found = by_call(logs[run.id])
        assert found == by_call(await run.context()), (SCRIPTS[seed], report["stoppedBy"])
        assert report["verdict"] == "equal", (SCRIPTS[seed], report)
    assert await production.contacted() == before

    verdicts = Counter[str]()
    for n, change in enumerate(CHANGES):
        tools = [TOOLS[name] for name in SIMPLE if (name, change) != ("pay", "dropped")]
        for kind in sorted({*KINDS}):
            chosen = [seed for seed in runs if (seed // 4 % 4, SCRIPTS[seed].kind) == (n, kind)]
            if not chosen:
                continue
            named = {"name": "tester", "instructions": f"agent {change}", "model": "fake:fake"}
            file = tmp_path / f"{change}-{kind}.json"
            file.write_text(json.dumps({**SCRIPTS[chosen[0]].agent, **named, "tools": tools}))
            ids = [runs[seed].id for seed in chosen]
            _, reports = await here.reports(*ids, "--agent", str(file), "--missing", "live-reads")
            for report in reports:
                verdicts[f"{change}: {report['verdict']}"] += 1
                assert await commands(client, report["backtest"]) <= READS
    assert await production.contacted() == before
    print(f"{len(runs)} equal to themselves; changed: {dict(sorted(verdicts.items()))}")
