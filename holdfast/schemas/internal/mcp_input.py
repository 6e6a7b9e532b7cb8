"""What an MCP server requires of a person before it continues a call, and the answer to it.

`call_mcp_tool` returns the first in place of a result, under `INPUT_REQUIRED`; the continued call
receives the second. The activity has checked and cleaned the forms: their texts have one line. A
server that returns a task in place of a result is polled for its state, under `TASK`.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from holdfast.schemas.base import Lenient, canonical_json, sha256
from holdfast.schemas.json_schema import example_json

INPUT_REQUIRED: Final = "_input_required"
TASK: Final = "_task"
# The requests about an open call that come to no process that holds it, until it is taken for lost.
MAX_MISSES: Final = 60
# An answer that a person has opened an address has no content.
NO_CONTENT: Final[dict[str, Any]] = {"type": ["object", "null"], "additionalProperties": False}


class McpContinuation(Lenient):
    """The answers to `forms` (a digest), with the server's `state` of the call.

    A call that `may_repeat` is made again if the server no longer accepts its state.
    """

    state: str | None = None
    responses: dict[str, dict[str, Any]]
    forms: str
    may_repeat: bool = False


class McpTask(Lenient):
    """A task that a server runs in place of a call; each field but `id` is of the next request.

    It delivers the `responses`; forms whose keys are `answered` are no new ones. Or it is the
    request to cancel the task. `misses` counts the requests about an open call to workers that do
    not hold it.
    """

    id: str
    poll_ms: float = 0
    responses: dict[str, dict[str, Any]] = {}
    answered: list[str] = []
    cancel: bool = False
    misses: int = 0


class McpForm(Lenient):
    """One request of a server: `fields` is the schema of an answer's content; or it has a `url`."""

    message: str
    fields: dict[str, Any] = NO_CONTENT
    url: str | None = None
    host: str | None = None

    @property
    def schema_of_answer(self) -> dict[str, Any]:
        place = f"Open {self.url} (host {self.host}), then answer. " if self.url else ""
        return {**self.fields, "description": f"{place}{self.message}"}

    @property
    def text(self) -> str:
        """Return the request in the server's words, which end where the quotes do."""
        # In backticks, words would look like those of a run.
        message = json.dumps(self.message.replace("`", "'"), ensure_ascii=False)
        if self.url is None:
            return message
        return f"that you open an address of the host {self.host}, {self.url}: {message}"


class McpInputRequired(Lenient):
    """The forms by the server's keys; `state` is the server's, and returned to it as it is."""

    state: str | None = None
    forms: dict[str, McpForm]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the forms: equal ones have equal answers."""
        return sha256(canonical_json({key: form.to_json() for key, form in self.forms.items()}))

    @property
    def schema_of_answer(self) -> dict[str, Any]:
        """Return the schema of the answer to the only form, or to all of them by key."""
        schemas = {key: form.schema_of_answer for key, form in self.forms.items()}
        if len(schemas) == 1:
            return next(iter(schemas.values()))
        parts = {"properties": schemas, "required": [*schemas], "additionalProperties": False}
        return {"type": "object", **parts}

    def question(self, server: str, tool: str) -> str:
        """Return the question to a person; the first words are ours."""
        wanted = "; ".join(form.text for form in self.forms.values())
        example = example_json(self.schema_of_answer)
        return (
            f"MCP server `{server}` requires input to continue `{tool}`: {wanted}."
            f" `respond` takes the answer as `result`, such as {example};"
            " `deny` ends the call."
        )

    def answered(self, answer: Any, *, may_repeat: bool) -> McpContinuation:
        """Return the continuation with an answer that fits the schema."""
        answers = {next(iter(self.forms)): answer} if len(self.forms) == 1 else answer
        responses = {
            key: {"action": "accept", **({"content": answers[key]} if form.url is None else {})}
            for key, form in self.forms.items()
        }
        return McpContinuation(
            state=self.state, responses=responses, forms=self.digest, may_repeat=may_repeat
        )


@dataclass(frozen=True)
class McpExchange:
    """What the MCP server of a call has required last, of `forms` in all, and what it runs."""

    required: McpInputRequired | None = None
    forms: int = 0
    continuation: McpContinuation | None = None
    task: McpTask | None = None

    def answered(self, answer: Any, *, may_repeat: bool) -> Self:
        """Return the exchange with a person's answer, which continues the call or its task."""
        assert self.required is not None  # the question was on it
        given, task = self.required.answered(answer, may_repeat=may_repeat), self.task
        if task is not None:
            answers = [*task.answered, *given.responses]
            task = task.model_copy(update={"responses": given.responses, "answered": answers})
        return replace(self, continuation=given, task=task)


NO_EXCHANGE: Final = McpExchange()
