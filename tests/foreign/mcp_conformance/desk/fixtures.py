"""The tools that the suite calls, as tools of a catalog: a call of each is a run."""

import asyncio
from typing import Any

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


class NoArguments(BaseModel):
    pass


class Greeted(BaseModel):
    name: str


class Computed(BaseModel):
    seconds: float = 0
    label: str = ""


@activity.defn
async def test_simple_text(arguments: NoArguments) -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@activity.defn
async def test_logging_tool(arguments: NoArguments) -> str:
    """Return a text; a server without logging sends no log."""
    return "done"


@activity.defn
async def test_image_content(arguments: NoArguments) -> dict[str, Any]:
    """Return a picture."""
    picture = {"type": "image", "mediaType": "image/png", "data": PIXEL}
    return {"_result": {"content": [picture]}}


@activity.defn
async def test_error_handling(arguments: NoArguments) -> str:
    """Fail."""
    raise ApplicationError("This tool intentionally returns an error", non_retryable=True)


@activity.defn
async def greet(arguments: Greeted) -> str:
    """Greet a person."""
    return f"Hello, {arguments.name}!"


@activity.defn
async def slow_compute(arguments: Computed) -> str:
    """Return a text after so many seconds."""
    # A call becomes a task after two seconds.
    await asyncio.sleep(arguments.seconds + 2 if arguments.seconds else 0)
    return f"computed {arguments.label}"


@activity.defn
async def failing_job(arguments: NoArguments) -> str:
    """Fail after some seconds."""
    await asyncio.sleep(3)
    raise ApplicationError("This job intentionally fails", non_retryable=True)
