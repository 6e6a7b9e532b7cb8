"""The tools of the bench: records of a fixed size, and a tool that waits."""

import asyncio
from pathlib import Path

from pydantic import BaseModel
from temporalio import activity

RESULT_BYTES = 2_000


class Read(BaseModel):
    """What to read, and how much of it."""

    name: str
    size: int = RESULT_BYTES


class Follow(BaseModel):
    """Which record to read."""

    key: str


class Wait(BaseModel):
    """The file to wait for."""

    path: str


class Note(BaseModel):
    """The file that a call leaves a line in."""

    path: str


class Record(BaseModel):
    """A record, and the key of the one behind it."""

    key: str
    next: str
    text: str


@activity.defn
async def read_record(arguments: Read) -> str:
    """Read a record."""
    return _text(arguments.name, arguments.size)


@activity.defn
async def follow_record(arguments: Follow) -> Record:
    """Read a record, which names the next one."""
    following = f"{arguments.key[:-4]}{int(arguments.key[-4:], 16) * 31 % 65_521:04x}"
    return Record(key=arguments.key, next=following, text=_text(arguments.key, RESULT_BYTES))


@activity.defn
async def wait_for(arguments: Wait) -> str:
    """Wait until a file is there. One beside it, `.begun`, says that somebody waits."""
    path = Path(arguments.path)
    path.with_suffix(".begun").touch()
    while not await asyncio.to_thread(path.exists):
        await asyncio.sleep(0.02)
    return path.name


@activity.defn
def note_call(arguments: Note) -> str:
    """Add a line for the call to a file: an effect that can be counted."""
    call = activity.info()
    with Path(arguments.path).open("a", encoding="utf-8") as file:
        print(call.workflow_id, call.activity_id, file=file)
    return "noted"


def _text(name: str, size: int) -> str:
    line = f"record {name}: "
    return (line + "lorem ipsum " * (size // 12 + 1))[:size]
