"""`holdfast schedules`: the files of a catalog as Temporal's schedules, on a real server."""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunListing
from holdfast.schemas import names
from tests.encryption.keys import NEW, key_file
from tests.support.backend import TOOLS, Launch
from tests.support.command import CommandOutput, Holdfast
from tests.support.eventually import eventually
from tests.support.identity.signing import Signer, ed25519_key, jwks
from tests.support.model_server import Answer, call

AGENT = """
model: {endpoint: fake, name: fake}
tools:
- {_tool: bill, _activity: pay, _sideEffects: true, properties: {amount: {type: number}}}
"""
# Temporal counts intervals from 1970: a shorter one may start a run while a test runs.
YEARS = "3650d"
BILLS, DONE = Answer(calls=[call("bill", amount=5)]), Answer("done")


class ScheduleFolder:
    """A catalog of one agent, `desk`, and its schedules; their ids have a prefix."""

    def __init__(self, path: Path, client: Client, holdfast: Holdfast, queue: str) -> None:
        self.path, self.client, self._holdfast = path, client, holdfast
        self.queue = self.prefix = queue
        (self.path / "agents").mkdir(parents=True)
        (self.path / "agents" / "desk.yaml").write_text(AGENT)

    def beside(self, name: str) -> "ScheduleFolder":
        """Another folder, for the same queue."""
        path = self.path.with_name(name)
        return ScheduleFolder(path, self.client, self._holdfast, self.queue)

    def id(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def file(self, name: str) -> Path:
        return self.path / "schedules" / f"{self.id(name)}.yaml"

    def write(self, name: str, **fields: Any) -> None:
        file = self.file(name)
        file.parent.mkdir(exist_ok=True)
        fields = {"agent": "desk", "input": "go", "interval": YEARS, "overlap": "Skip", **fields}
        lines = (f"{key}: {value}\n" for key, value in fields.items() if value is not None)
        file.write_text("".join(lines))

    async def schedules(self, action: str, *words: str) -> CommandOutput:
        return await self._holdfast("schedules", action, *words)

    async def apply(self, *words: str) -> dict[str, str]:
        """Apply the folder; return what is printed of each schedule, the last of it."""
        ran = await self.schedules("apply", *self.options, *words)
        assert (ran.code, ran.err) == (0, "")
        lines = [line.partition(": ") for line in ran.out.splitlines()]
        return {id.removeprefix(f"{self.prefix}-"): text for id, _, text in lines}

    @property
    def options(self) -> tuple[str, ...]:
        named = ("--catalog", str(self.path), "--task-queue", self.queue)
        return (*named, "--tools", str(TOOLS))

    async def described(self, name: str) -> Schedule:
        return (await self.client.get_schedule_handle(self.id(name)).describe()).schedule

    async def version(self, name: str) -> Any:
        """When it was written, and last updated."""
        info = (await self.client.get_schedule_handle(self.id(name)).describe()).info
        return info.created_at, info.last_updated_at

    async def listed(self, *found: str) -> None:
        """Wait until Temporal's list, which is a moment behind, has these schedules alone."""

        async def are_there() -> bool:
            ids = {each.id async for each in await self.client.list_schedules()}
            return {self.id(name) for name in found} == {
                id for id in ids if id.startswith(self.prefix)
            }

        await eventually(are_there)

    async def runs(self, name: str) -> list[RunListing]:
        """The runs that a schedule has started, once there is one."""

        async def started() -> list[str]:
            found = await self.client.get_schedule_handle(self.id(name)).describe()
            return [each.action.workflow_id for each in found.info.recent_actions]  # type: ignore[attr-defined]

        ids = await eventually(started)
        agents = HoldfastClient(self.client)
        return [RunListing.of(await agents.run(id).describe()) for id in ids]


@pytest.fixture
async def folder(
    tmp_path: Path, client: Client, holdfast: Holdfast
) -> AsyncIterator[ScheduleFolder]:
    made = ScheduleFolder(tmp_path / "desk", client, holdfast, f"s{uuid.uuid4().hex[:8]}")
    yield made
    async for each in await client.list_schedules():
        if each.id.startswith(made.prefix):
            await client.get_schedule_handle(each.id).delete()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_applying_again_changes_nothing_and_an_edit_is_an_update(
    folder: ScheduleFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    if encrypted:
        monkeypatch.setenv("HOLDFAST_ENCRYPTION", str(key_file(tmp_path, [NEW])))
    folder.write("a", interval=None, cron="0 7 29 2 *", timeZone="Europe/Berlin")
    folder.write("b", overlap="AllowAll", catchupWindow="1h", labels="{team: finance}")
    assert await folder.apply() == {"a": "created", "b": "created"}
    written = [await folder.version(name) for name in "ab"]
    assert await folder.apply() == {"a": "unchanged", "b": "unchanged"}
    assert [await folder.version(name) for name in "ab"] == written

    # What is paused stays so, also if it is edited.
    assert (await folder.schedules("pause", folder.id("b"))).out == f"{folder.id('b')} is paused\n"
    folder.write("b", overlap="BufferOne", input="stop")
    assert await folder.apply() == {"a": "unchanged", "b": "updated"}
    edited = await folder.described("b")
    assert edited.state.paused
    assert edited.policy.overlap == ScheduleOverlapPolicy.BUFFER_ONE
    assert await folder.apply() == {"a": "unchanged", "b": "unchanged"}
    await folder.schedules("unpause", folder.id("b"))
    assert not (await folder.described("b")).state.paused

    # So is what was edited in another way.
    for edit in _EDITS:
        await folder.client.get_schedule_handle(folder.id("a")).update(partial(_edited, edit))
        assert await folder.apply() == {"a": "updated", "b": "unchanged"}
    edited = await folder.described("a")
    assert (edited.spec.intervals, edited.spec.end_at) == ([], None)
    assert (edited.state.note, edited.state.limited_actions) == ("By hand", False)


async def test_a_schedule_that_only_the_server_can_refuse_is_named(folder: ScheduleFolder) -> None:
    folder.write("a")
    folder.write("b", interval=None, cron="0 7 * * fri-mon")
    ran = await folder.schedules("apply", *folder.options)
    assert (ran.code, ran.out) == (2, f"{folder.id('a')}: created\n")
    assert f"Temporal refuses the schedule {folder.id('b')}: Invalid schedule spec" in ran.err
    folder.write("b")
    assert await folder.apply() == {"a": "unchanged", "b": "created"}


_HOUR = timedelta(hours=1)
_LATER = datetime(2100, 1, 1, tzinfo=UTC)
# Of a schedule's part, what is set in it.
_EDITS: list[tuple[str, dict[str, Any]]] = [
    ("spec", {"intervals": [ScheduleIntervalSpec(_HOUR)]}),
    ("spec", {"start_at": _LATER}),
    ("spec", {"end_at": _LATER}),
    ("spec", {"jitter": _HOUR}),
    ("spec", {"skip": [ScheduleCalendarSpec(hour=[ScheduleRange(7)])]}),
    ("action", {"execution_timeout": _HOUR}),
    ("action", {"run_timeout": _HOUR}),
    ("state", {"limited_actions": True, "remaining_actions": 1, "note": "By hand"}),
]


def _edited(edit: tuple[str, dict[str, Any]], now: ScheduleUpdateInput) -> ScheduleUpdate:
    part, values = edit
    for name, value in values.items():
        setattr(getattr(now.description.schedule, part), name, value)
    return ScheduleUpdate(now.description.schedule)


async def test_pruning_deletes_what_the_folder_made_and_nothing_else(
    folder: ScheduleFolder,
) -> None:
    foreign = folder.id("foreign")
    action = ScheduleActionStartWorkflow("AgentWorkflow", {}, id=foreign, task_queue="none")
    every = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(days=1))])
    await folder.client.create_schedule(foreign, Schedule(action, every))
    for name in ("a", "b"):
        folder.write(name)
    await folder.apply()
    other = folder.beside("other")
    other.write("theirs")
    assert await other.apply("--prune") == {"theirs": "created"}

    folder.file("b").unlink()
    await folder.listed("a", "b", "theirs", "foreign")
    asked = await folder.apply()
    assert asked["b"].endswith("; --prune deletes it")
    assert await folder.apply("--prune") == {"a": "unchanged", "b": "deleted"}
    await folder.listed("a", "theirs", "foreign")
    shown = (await folder.schedules("list", "--json")).out
    assert folder.id("theirs") in shown
    assert foreign not in shown

    # A file of its name, and each other command, is refused before anything is written.
    folder.write("foreign")
    folder.write("a0")
    for words in (("apply", *folder.options), *((one, foreign) for one in ("pause", "delete"))):
        ran = await folder.schedules(*words)
        assert (ran.code, ran.out) == (2, "")
        assert f"schedule {foreign} was not made by" in ran.err
    assert not (await folder.described("foreign")).state.paused
    await folder.listed("a", "theirs", "foreign")
    folder.file("foreign").unlink()
    folder.write("theirs")
    ran = await folder.schedules("apply", *folder.options)
    assert (ran.code, "is of the set" in ran.err) == (2, True)


async def test_a_trigger_starts_an_ordinary_run(folder: ScheduleFolder, launch: Launch) -> None:
    folder.write(
        "a", approvals="deny", principal="{id: ada, scopes: [read]}", labels="{team: finance}"
    )
    await folder.apply()
    await launch([BILLS, DONE], catalog=folder.path, task_queue=folder.queue)
    ran = await folder.schedules("trigger", folder.id("a"))
    assert (ran.code, ran.out) == (
        0,
        f"{folder.id('a')} is triggered: a run starts, if its overlap policy allows one\n",
    )
    [run] = await folder.runs("a")
    assert run.id.startswith(f"{folder.id('a')}-2")
    assert (run.agent, run.principal) == ("desk", "ada")
    handle = folder.client.get_workflow_handle(run.id)
    result = await handle.result()
    # The call that would have waited was denied.
    assert (result["status"], result["output"], result["calls"]) == ("completed", "done", 1)
    described = await handle.describe()
    assert await described.memo_value(names.LABELS) == {"team": "finance"}
    gone = await folder.schedules("trigger", folder.id("none"))
    assert (gone.code, "there is no schedule" in gone.err) == (4, True)
    assert (await folder.schedules("delete", folder.id("a"))).code == 0
    with pytest.raises(RPCError):
        await folder.described("a")


async def test_an_apply_that_was_killed_converges(folder: ScheduleFolder) -> None:
    count = 40
    for n in range(count):
        folder.write(f"{n:02}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "schedules", "apply", *folder.options),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    for _ in range(3):
        await process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    again = await folder.apply()
    assert len(again) == count
    assert {"created", "unchanged"} == {*again.values()}
    assert {*(await folder.apply()).values()} == {"unchanged"}


@pytest.fixture
def inbox(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """The options of a person with a token, at an inbox where `finance` may start runs of `desk`
    for themselves."""
    key = Signer(ed25519_key(7))
    (tmp_path / "ci.json").write_text(jwks(key))
    (tmp_path / "keys.yaml").write_text("ci: {file: ci.json, for: [inbox]}\n")
    (tmp_path / "inbox.yaml").write_text(
        "tokens: keys.yaml\n"
        "permissions:\n"
        "- {groups: [finance], agents: [desk], principals: [own], may: [message]}\n"
    )

    def options(*groups: str, scopes: tuple[str, ...] = ("read",)) -> tuple[str, ...]:
        claims = {"sub": "ada", "groups": groups, "scopes": scopes, "aud": "holdfast:inbox"}
        token = key.signed({**claims, "exp": int(time.time()) + 600})
        return ("--settings", str(tmp_path / "inbox.yaml"), "--token", token)

    return options


@pytest.mark.parametrize(
    ("groups", "principal", "wrong"),
    [
        (["finance"], "{id: ada, scopes: [read]}", ""),
        ([], "{id: ada}", "ada may not start runs of desk for ada; nothing was applied"),
        (["finance"], "{id: bob}", "The run would act for another principal"),
        (["finance"], None, "may not start runs of desk for no principal"),
        (["finance"], "{id: ada, scopes: [read, pay]}", "You do not hold pay"),
    ],
)
async def test_applying_needs_the_right_to_start_these_runs(
    folder: ScheduleFolder,
    inbox: Callable[..., tuple[str, ...]],
    groups: list[str],
    principal: str | None,
    wrong: str,
) -> None:
    folder.write("a", principal=principal)
    ran = await folder.schedules("apply", *folder.options, *inbox(*groups))
    if not wrong:
        assert (ran.code, ran.err) == (0, "")
        return
    assert (ran.code, ran.out) == (2, "")
    assert wrong in ran.err
    with pytest.raises(RPCError):
        await folder.described("a")


async def test_the_permissions_of_an_inbox_need_a_valid_token(
    folder: ScheduleFolder, inbox: Callable[..., tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("a")
    settings, file, option, token = inbox("finance")
    forged = await folder.schedules("apply", *folder.options, settings, file, option, token[:-9])
    assert (forged.code, "--token: the token" in forged.err) == (2, True)
    monkeypatch.setenv("HOLDFAST_INBOX", file)
    without = await folder.schedules("apply", *folder.options)
    assert (without.code, "name both --settings and --token" in without.err) == (2, True)
