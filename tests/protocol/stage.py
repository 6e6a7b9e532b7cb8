"""One worker and one model for all the examples, as their users see them.

An example is an agent as a person writes it, what its model answers, and what comes of it. The
model that an agent names is a part of its own: `stage.model("critic", …)` is what it answers,
turn by turn. It keeps to the schema that a request forces on it, as a real one has to: an argument
that an example leaves out is null, and what does not fit the schema fails the example.
"""

import json
import uuid
from collections.abc import Iterable
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.support.backend import Backend, Run
from tests.support.model_server import Answer

Call = dict[str, Any]


def agent(text: str) -> dict[str, Any]:
    """An agent as it is written in a file of a catalog."""
    written: dict[str, Any] = yaml.safe_load(text)
    return written


def calls(*made: Call, text: str = "") -> Answer:
    """What a model answers in native calling: `{"_tool": …, argument: …}` for each call."""
    return Answer(
        text, [(one["_tool"], {key: one[key] for key in one if key != "_tool"}) for one in made]
    )


def composed(*made: Call, output: Any = None) -> Answer:
    """What a model answers in composed calling: one object with all calls and the output."""
    return Answer(json.dumps({"calls": list(made), "output": output}, ensure_ascii=False))


def forced_schema(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema into which a request forces the answer."""
    schema: dict[str, Any] | None = (
        body.get("response_format", {}).get("json_schema", {}).get("schema")
    )
    return schema


def offered(body: dict[str, Any]) -> list[str]:
    """The tools that a request lets the model call, in either calling."""
    if "tools" in body:
        return [tool["function"]["name"] for tool in body["tools"]]
    schema = forced_schema(body) or {}
    return sorted(_branches(schema))


async def errors(run: Run) -> dict[str, Any]:
    """The error of each call that has one."""
    ends = [event for event in await run.events() if event["type"] == "tool_end"]
    return {event["callId"]: event["error"] for event in ends if event.get("error")}


class ExampleRunner:
    """Where examples are run."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._parts: list[tuple[str, str, list[Answer]]] = []
        # A server that takes no schema forces nothing.
        self.forces = True
        self.misfits: list[str] = []
        backend.model.answer = self._answer

    def model(self, name: str, *answers: Answer, asked: str = "") -> None:
        """What a model is used from now on, turn by turn; with `asked`, where its system prompt
        holds this."""
        self._parts.insert(0, (name, asked, list(answers)))

    def requests(self, name: str) -> list[dict[str, Any]]:
        """What a model was asked."""
        return [body for body in self._backend.model.requests if body["model"] == name]

    async def start(self, agent: str | dict[str, Any], **request: Any) -> Run:
        """Start a run as any client does."""
        handle = await self._backend.client.start_workflow(
            "AgentWorkflow",
            {"agent": agent, **request},
            id=f"example-{uuid.uuid4().hex[:12]}",
            task_queue=self._backend.task_queue,
        )
        return Run(handle, self._backend.client)

    def _answer(self, turn: int, body: dict[str, Any]) -> Answer:
        system = body["messages"][0]["content"]
        fitting = [
            (len(asked), answers)
            for name, asked, answers in self._parts
            if name == body["model"] and asked in system
        ]
        if not fitting:
            return Answer(status=400, body={"error": {"message": "this model has no script"}})
        _, answers = max(fitting, key=lambda part: part[0])
        answer, schema = answers[min(turn, len(answers)) - 1], forced_schema(body)
        return answer if schema is None or not self.forces else self._forced(answer, schema)

    def _forced(self, answer: Answer, schema: dict[str, Any]) -> Answer:
        try:
            said = json.loads(answer.text)
        except ValueError:
            self.misfits.append(f"no JSON: {answer.text}")
            return answer
        branches = _branches(schema)
        for call in said["calls"] if branches else []:
            for name in branches.get(call["_tool"], {}).get("required", []):
                call.setdefault(name, "because" if name == "_reasoningForCall" else None)
        wrong = Draft202012Validator(schema).iter_errors(said)
        self.misfits += [f"{error.json_path}: {error.message}" for error in wrong]
        return Answer(json.dumps(said, ensure_ascii=False))


def _branches(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The schema of a call of each tool, by its name, in the schema of a composed answer."""
    items = schema.get("properties", {}).get("calls", {}).get("items", {})
    branches: Iterable[dict[str, Any]] = items.get("anyOf", [items] if items else [])
    return {one["properties"]["_tool"]["const"]: one for one in branches}
