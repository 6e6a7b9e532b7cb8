"""A model that takes in little: what it is asked for beyond that, it refuses as OpenAI's do."""

import json
import re
from typing import Any

from tests.support.model_server import BYTES_PER_TOKEN, Answer, call

MANY = {"budget": {"maxTurns": 200, "maxIterations": 200, "maxCalls": 200}}


class Small:
    """A model that takes in so many tokens. It looks something up, makes so many echoes, each so
    long, and at last one of what it looked up; then it is done."""

    def __init__(self, window: int, echoes: int = 14, size: int = 1_000) -> None:
        self.window = window
        self.echoes = echoes
        self.size = size
        self.refused = 0
        self.summaries = 0

    def __call__(self, turn: int, body: dict[str, Any]) -> Answer:
        text = json.dumps(body["messages"])
        tokens = len(json.dumps(body)) // BYTES_PER_TOKEN
        if tokens > self.window:
            self.refused += 1
            return self._refuses(tokens)
        done = max((int(found) for found in re.findall(r"(\d+)#", text)), default=0)
        if "a summary is to stand in the place" in body["messages"][-1]["content"]:
            self.summaries += 1
            return Answer(f"It echoed up to {done}#.", usage="counted")
        if '"assistant"' not in text and not done:
            return Answer(calls=[call("look_up", id=7)], usage="counted")
        if done < self.echoes:
            echo = f"{done + 1}#" + "x" * self.size
            return Answer(calls=[call("echo", text=echo)], usage="counted")
        if "name: " not in text:
            return Answer(calls=[call("echo", text="name: †{state.item.name}")], usage="counted")
        return Answer("done", usage="counted")

    def _refuses(self, tokens: int) -> Answer:
        message = (
            f"This model's maximum context length is {self.window} tokens. However, your messages"
            f" resulted in {tokens} tokens. Please reduce the length of the messages."
        )
        error = {"message": message, "code": "context_length_exceeded"}
        return Answer(status=400, body={"error": error})
