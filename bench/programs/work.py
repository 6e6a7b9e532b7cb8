"""The work that every engine is given: how many turns, calls and bytes, said in the prompt."""

import re
from dataclasses import dataclass
from typing import Any

TOOL = "read_record"
INSTRUCTIONS = "You read records."
# The prompt as it comes over the wire: the fake model reads off it what it is to do.
ASKED = re.compile(rb"(\d+) turns of (\d+) calls, (\d+) bytes a record")


@dataclass(frozen=True)
class Work:
    """One run: `turns` requests to the model, `calls` calls in each of them but the last."""

    turns: int
    calls: int = 1
    result_bytes: int = 2_000

    @property
    def prompt(self) -> str:
        """What the user says."""
        how = f"{self.turns} turns of {self.calls} calls, {self.result_bytes} bytes a record"
        return f"Read records: {how}."


def call(name: str, size: int) -> dict[str, Any]:
    """The arguments of a call of the tool."""
    return {"name": name, "size": size}
