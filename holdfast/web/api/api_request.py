"""One API request, as the handlers see it: its sender, its run, and its body."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from holdfast.client.run import Run
from holdfast.schemas import names
from holdfast.schemas.base import Strict
from holdfast.validation.lenient_json import exact_json
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.web.auth.permissions import RunAccess, access_of
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.http.problems import HttpProblem
from holdfast.web.http.requests import NUMBER, read_body
from holdfast.web.services import Services

# The most that Temporal accepts in one request.
MAX_BODY_BYTES: Final = 2_000_000
JSON: Final = "application/json"
_SaidT = TypeVar("_SaidT", bound=Strict)


@dataclass(frozen=True)
class ApiRequest:
    """A request and its services; `run_id` is the run in its address."""

    request: Request
    parts: Services
    run_id: str

    @property
    def person(self) -> Person:
        return person_of(self.request)

    @property
    def access(self) -> RunAccess:
        return access_of(self.request)

    async def run(self, *, listens: bool = False) -> Run:
        """Return the run, if it exists; `listens`: a message is to be sent to it."""
        run = self.parts.client.run(self.run_id)
        found = await run.describe()
        if listens and found.workflow_type != names.AGENT_WORKFLOW:
            todo = "decide on it with `POST /runs/{run}/decisions`, or cancel it"
            raise HttpProblem("single_call", f"A single call receives no messages; {todo}.")
        return run

    async def read_json(self, model: type[_SaidT], what: str) -> tuple[_SaidT, dict[str, Any]]:
        """Return the body, validated as `model`, and as it was sent.

        Raises:
            HttpProblem: the body is not valid.
            RefusedRequest: the body is of another type, too large, or incomplete.
        """
        body = await read_body(self.request, (JSON,), MAX_BODY_BYTES)
        # A large body takes seconds to check: in a thread, it does not block other requests.
        return await asyncio.to_thread(_validate, body, model, what)


def _validate(body: bytes, model: type[_SaidT], what: str) -> tuple[_SaidT, dict[str, Any]]:
    try:
        value = exact_json(body)
        # No lone surrogate, and nothing that is no number, can be sent on.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        why = f"The body is no JSON: {error}; send one object in UTF-8."
        raise HttpProblem("bad_request", why) from None
    try:
        return model.model_validate(value), value
    except ValidationError as error:
        faults = problems_of(error, value, model)
        sentence = f"That is no {what}: {summarize_problems(faults)}."
        raise HttpProblem("invalid_request", sentence, faults=faults) from None


def read_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Read a whole number from the query; a problem without one in these bounds."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not re.fullmatch(NUMBER, value) or not least <= int(value) <= most:
        raise HttpProblem("bad_request", f"`{name}` is a whole number from {least} to {most}.")
    return int(value)
