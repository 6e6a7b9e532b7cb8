"""When people are away: one workflow of the namespace, which the first absence starts."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError

from holdfast.client.errors import HoldfastError, NoWorkerError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.runtime.absences import AbsenceReader
from holdfast.schemas import names
from holdfast.schemas.base import rfc3339
from holdfast.schemas.decision import MAX_REPRESENTED
from holdfast.schemas.internal.absences import MAX_ABSENCES, Absence
from tests.support.eventually import eventually


def absence_of(
    person: str, to: str, *, first: float = -1, last: float = 1, groups: list[str] | None = None
) -> Absence:
    """The absence of an approver of finance, from yesterday until tomorrow."""
    now = datetime.now(UTC)
    days = [rfc3339(now + timedelta(days=each)) for each in (first, last)]
    away = {"from": days[0], "until": days[1], "to": to}
    known = ["finance"] if groups is None else groups
    return Absence.model_validate({"person": person, "groups": known, "away": away})


@pytest.fixture
def people(client: Client, monkeypatch: pytest.MonkeyPatch) -> HoldfastClient:
    """A client of absences of their own: a namespace has one workflow of them."""
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(names, "ABSENCES_ID", f"absences-{queue}")
    return HoldfastClient(client, queue)


@asynccontextmanager
async def worker(people: HoldfastClient, folder: Path) -> AsyncIterator[None]:
    """A worker that keeps nothing between two workflow tasks."""
    (folder / "endpoints.yaml").write_text("{}")
    settings = WorkerSettings(
        endpoints=folder / "endpoints.yaml", task_queue=people.task_queue, cached_runs=0
    )
    async with build_worker(people.temporal, settings):
        yield


async def known(people: HoldfastClient) -> dict[str, str]:
    """Who is away, and their substitutes, as another process reads them."""
    found = await AbsenceReader(people.temporal).read()
    return {one.person: one.away.to for one in found if one.away}


async def test_each_person_has_one_absence_until_they_end_it(
    people: HoldfastClient, tmp_path: Path
) -> None:
    async with worker(people, tmp_path):
        assert await people.absences.read() == []
        await people.set_absence(absence_of("ada", "bob"))
        await people.set_absence(absence_of("cara", "bob"))
        await people.set_absence(absence_of("Ada", "dan"))
        assert await known(people) == {"cara": "bob", "Ada": "dan"}
        assert len(await people.absences.read()) == 2  # the own process waits for no minute

        await people.set_absence(Absence(person="ada"))
        await people.set_absence(Absence(person="ada"))
        assert await known(people) == {"cara": "bob"}


async def test_the_absence_of_a_name_is_not_that_of_another_issuer(
    people: HoldfastClient, tmp_path: Path
) -> None:
    other = "ada @ https://partner.example"
    async with worker(people, tmp_path):
        await people.set_absence(absence_of("ada", "bob"))
        await people.set_absence(absence_of(other, "dan"))
        assert await known(people) == {"ada": "bob", other: "dan"}
        await people.set_absence(Absence(person=other))
        assert await known(people) == {"ada": "bob"}


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_it_ends_with_the_last_absence_also_if_that_ends_early(
    people: HoldfastClient, tmp_path: Path, is_replaced: bool
) -> None:
    async with worker(people, tmp_path):
        await people.set_absence(absence_of("ada", "bob", last=300))
        a_second = timedelta(seconds=1) / timedelta(days=1)
        sooner = absence_of("ada", "bob", last=a_second) if is_replaced else Absence(person="ada")
        await people.set_absence(sooner)
        await people.temporal.get_workflow_handle(names.ABSENCES_ID).result()
        await people.set_absence(absence_of("ada", "bob"))
        assert await known(people) == {"ada": "bob"}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (absence_of("ada", "A\u200bda"), "the substitute is the one who is away"),
        (absence_of("ada", "bob", first=-2, last=-1), "the absence is over already"),
        (absence_of("ada", "max"), "20 people have this substitute"),
        ({"person": "ada", "away": {"to": "bob"}}, "`from` is missing"),
        ({"person": "ada", "right": "all"}, "unknown field `right`"),
        ("ada", "write one JSON object"),
    ],
)
async def test_an_absence_that_cannot_be_is_rejected_and_changes_nothing(
    people: HoldfastClient, tmp_path: Path, change: Any, wrong: str
) -> None:
    some = [absence_of(f"p{n}", "max").to_json() for n in range(MAX_REPRESENTED)]
    async with worker(people, tmp_path):
        handle = await start(people, {"absences": some})
        sent = change.to_json() if isinstance(change, Absence) else change
        with pytest.raises(Exception, match="update failed") as refused:
            await handle.execute_update(names.SET_ABSENCE, sent)
        assert wrong in str(refused.value.__cause__)
        assert len(await known(people)) == MAX_REPRESENTED
        if isinstance(change, Absence):
            with pytest.raises(HoldfastError, match=wrong):
                await people.set_absence(change)


@pytest.mark.parametrize(
    "some",
    [
        [absence_of(f"p{n}", f"q{n}") for n in range(MAX_ABSENCES)],
        [absence_of(f"p{n}", f"q{n}", groups=["g" * 200] * 100) for n in range(24)],
    ],
)
async def test_absences_are_bounded_and_past_ones_make_room(
    people: HoldfastClient, tmp_path: Path, some: list[Absence]
) -> None:
    past = absence_of("eve", "bob", first=-3, last=-2)
    large = absence_of("ada", "bob", groups=["g" * 200] * 100)
    async with worker(people, tmp_path):
        handle = await start(people, {"absences": [one.to_json() for one in some]})
        with pytest.raises(HoldfastError, match="too many absences"):
            await people.set_absence(large)
        await handle.terminate()
        await start(people, {"absences": [one.to_json() for one in [past, *some[1:]]]})
        await people.set_absence(large)
        assert len(await known(people)) == len(some)


async def test_it_continues_as_new_with_what_it_keeps(
    people: HoldfastClient, tmp_path: Path
) -> None:
    async with worker(people, tmp_path):
        first = (await start(people, {"updatesARun": 2})).first_execution_run_id
        await people.set_absence(absence_of("ada", "bob"))
        await people.set_absence(absence_of("cara", "bob"))

        async def is_another() -> bool:
            handle = people.temporal.get_workflow_handle(names.ABSENCES_ID)
            return bool((await handle.describe()).run_id != first)

        await eventually(is_another)
        await people.set_absence(absence_of("dan", "bob"))
        assert await known(people) == {"ada": "bob", "cara": "bob", "dan": "bob"}


@pytest.mark.parametrize(
    "state",
    [
        {"absences": "everyone"},
        {"updatesARun": 0},
        {"absences": [{"person": "p"}] * (MAX_ABSENCES + 1)},
    ],
    ids=["no absences", "continues without an update", "too many"],
)
async def test_a_start_of_another_program_fails_and_the_next_absence_starts_it(
    people: HoldfastClient, tmp_path: Path, state: Any
) -> None:
    async with worker(people, tmp_path):
        with pytest.raises(WorkflowFailureError):
            await (await start(people, state)).result()
        await people.set_absence(absence_of("ada", "bob"))
        assert await known(people) == {"ada": "bob"}


async def test_without_a_worker_nothing_is_set(
    people: HoldfastClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.holdfast_client._UPDATE_TIMEOUT", timedelta(seconds=1))
    with pytest.raises(NoWorkerError, match=people.task_queue):
        await people.set_absence(absence_of("ada", "bob"))


async def start(people: HoldfastClient, state: Any) -> Any:
    """Start the workflow as any client of the namespace can."""
    return await people.temporal.start_workflow(
        names.ABSENCES_WORKFLOW, state, id=names.ABSENCES_ID, task_queue=people.task_queue
    )
