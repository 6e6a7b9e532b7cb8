"""The one tool of the bench: a result of as many characters as it is asked for."""

from pydantic import BaseModel
from temporalio import activity


class Read(BaseModel):
    """What to read, and how much of it."""

    name: str
    size: int = 2000


@activity.defn
async def read_record(arguments: Read) -> str:
    """Read a record."""
    line = f"record {arguments.name}: "
    return (line + "lorem ipsum " * (arguments.size // 12 + 1))[: arguments.size]
