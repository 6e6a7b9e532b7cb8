"""What the moderator can do: plain activities, each about one comment. They know of no other."""

import re
from typing import Literal

from pydantic import BaseModel, Field
from temporalio import activity

INSULTS = {"fool", "fools", "idiot", "idiots", "moron", "morons"}
MEMBERS = {
    "ada": {"comments": 214, "hidden": 0},
    "bob": {"comments": 12, "hidden": 5},
    "grace": {"comments": 57, "hidden": 1},
}


class Rate(BaseModel, json_schema_extra={"_outputPath": "†state.rating"}):
    text: str
    max_links: int = Field(ge=0, description="How many links a comment may have.")


@activity.defn
async def rate(arguments: Rate) -> dict[str, int | bool]:
    """Count the insults in a comment, and see whether it has too many links."""
    words = re.findall(r"[a-z]+", arguments.text.lower())
    insults = sum(word in INSULTS for word in words)
    links = len(re.findall(r"https?://", arguments.text))
    return {"insults": insults, "links": links, "too_many_links": links > arguments.max_links}


class LookUp(BaseModel, json_schema_extra={"_outputPath": "†state.member"}):
    author: str


@activity.defn
async def look_up(arguments: LookUp) -> dict[str, int]:
    """Look up how many comments an author has written, and how many of them were hidden."""
    return MEMBERS.get(arguments.author, {"comments": 0, "hidden": 0})


class Settle(BaseModel, json_schema_extra={"_outputPath": "†state.verdict"}):
    verdict: Literal["publish", "hide", "ask a person"]
    reason: str = Field(min_length=3, description="In a few words.")


@activity.defn
async def settle(arguments: Settle) -> dict[str, str]:
    """Settle what becomes of a comment."""
    return arguments.model_dump()
