"""Runs whose model's server is rude come to what they come to with a polite one, or say why not."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.providers.model_errors import MAX_DOUBTFUL_ATTEMPTS
from holdfast.schemas.names import MODEL_ERROR
from tests.faults.harness.responses import Again, Final, Front, Read, Row
from tests.faults.harness.rude_responses import refusing_until, rows_for
from tests.faults.stories import outcome, table
from tests.support import tools
from tests.support.backend import Backend, Run
from tests.support.model_server import Answer, call, turn_of

TURNS = 3
STORY = [Answer(calls=[call("look_up", id=1)]), Answer(calls=[call("pay", amount=7)]), Answer("ok")]
# Longer than Temporal waits by itself before the second attempt.
LATER_SECONDS = 2
# However busy the machine, an attempt is not taken for lost: attempts are counted.
UNMISSED = timedelta(seconds=30)
ROWS = {row.name: row for row in rows_for("openai")}


def is_soon_over(row: Row) -> bool:
    """Whether a run gets over a row, without having to wait for long."""
    match row.demands:
        case Again(after_seconds=after):
            return not row.silent and (after is None or after[1] < 1)
        case Read(more=more, cut=cut):
            return not more and not cut
        case _:
            return False


class Rudeness:
    """Which rows a run gets, by what its user says: turn by turn, one attempt after the other."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, list[Row]]] = {}

    def __call__(self, body: bytes) -> Row | None:
        """The row for a request, if there is one left."""
        request = json.loads(body)
        coming = self.rows.get(request["messages"][1]["content"], {}).get(turn_of(request))
        return coming.pop(0) if coming else None


class Scene:
    """A worker, its model behind a front, and the rudeness of that."""

    def __init__(self, backend: Backend, front: Front, rudeness: Rudeness) -> None:
        self._backend = backend
        self._front = front
        self._rudeness = rudeness

    async def start(self, said: str, rows: dict[int, list[Row]]) -> Run:
        """A run to whose turns these rows happen."""
        self._rudeness.rows[said] = {turn: list(each) for turn, each in rows.items()}
        agent = {"approval": {"auto": ["pay"]}}
        return await self._backend.start(["look_up", "pay"], agent=agent, input=said)

    def asked(self, said: str) -> list[list[float]]:
        """When the request of each turn was made, each time byte for byte the same."""
        quoted = json.dumps(said).encode()
        return [times for body, times in self._front.asked.items() if quoted in body]

    def counts(self, said: str) -> list[int]:
        """How often the request of each turn was made."""
        return [len(times) for times in self.asked(said)]


@pytest.fixture
async def scene(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """Every run has the same story, however often it is begun."""
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))
    rudeness = Rudeness()
    front = Front(rudeness)
    settings = {"before": front.before, "heartbeat_timeout": UNMISSED}
    async with table(client, tmp_path, {"run": STORY}, **settings) as backend:
        yield Scene(backend, front, rudeness)


async def test_every_rudeness_that_passes_leaves_no_trace(scene: Scene) -> None:
    undisturbed = await outcome(await scene.start("run in peace", {}))
    passing = [row for row in ROWS.values() if is_soon_over(row)]
    assert len(passing) > 60
    deals = {
        f"run {start} of rows": passing[start : start + TURNS]
        for start in range(0, len(passing), TURNS)
    }
    runs = {
        said: await scene.start(said, {turn: [row] for turn, row in enumerate(rows, 1)})
        for said, rows in deals.items()
    }
    outcomes = await asyncio.gather(*(outcome(run) for run in runs.values()))
    assert outcomes == [undisturbed] * len(deals)
    for said, rows in deals.items():
        assert scene.counts(said)[: len(rows)] == [times_asked(row) for row in rows]
        assert tools.read().count(f"pay 7 {runs[said].id}/t2c1") == 1
    assert len(tools.read()) == 1 + len(deals)


def times_asked(row: Row) -> int:
    """How often a request is made that meets a row once."""
    return 2 if isinstance(row.demands, Again) else 1


async def test_the_server_says_when_it_is_asked_again(scene: Scene) -> None:
    later = Row("later", refusing_until(429, lambda: str(LATER_SECONDS)), ROWS["429"].demands)
    run = await scene.start("run later", {1: [later]})
    assert (await run.result())["output"] == "ok"
    [first, second], *_ = scene.asked("run later")
    assert second - first >= LATER_SECONDS


async def test_what_no_patience_mends_fails_the_run_with_the_servers_words(scene: Scene) -> None:
    foreign = ROWS["as anthropic answers"]
    rows = {
        "429, retry-after: days in seconds": 1,
        "403": 1,
        "307 to elsewhere": 1,
        foreign.name: MAX_DOUBTFUL_ATTEMPTS,
    }
    runs = {
        name: await scene.start(f"run {number}", {1: [ROWS[name]] * times})
        for number, (name, times) in enumerate(rows.items())
    }
    for number, (name, times) in enumerate(rows.items()):
        failure = await runs[name].failure()
        assert failure.type == MODEL_ERROR
        demands = ROWS[name].demands
        assert isinstance(demands, Again | Final)
        assert demands.told in failure.message
        assert scene.counts(f"run {number}") == [times]
