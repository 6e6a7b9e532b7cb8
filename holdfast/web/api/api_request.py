"""One API request, as the handlers see it: its sender, its run, and its body."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from holdfast.client.errors import explain_files
from holdfast.client.run import Run
from holdfast.runtime.attachments import file_part, with_files
from holdfast.schemas import names
from holdfast.schemas.base import Strict
from holdfast.validation.lenient_json import exact_json
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.web.api.models import FILES_FIELD
from holdfast.web.auth.permissions import RunAccess, access_of
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.http import requests as http
from holdfast.web.http.problems import HttpProblem
from holdfast.web.services import Services

JSON: Final = "application/json"
# Of a form, the part with the JSON; the others are files.
FORM_FIELD: Final = "request"
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

        That of a model with files may also be a form: the JSON is its part `request`, and each
        other file is added to the request as a part of its message.

        Raises:
            HttpProblem: the body is not valid.
            RefusedRequest: the body is of another type, too large, or incomplete.
        """
        body: str | bytes
        files = list[tuple[str, bytes]]()
        if model in FILES_FIELD and http.media_type_of(self.request) == http.MULTIPART:
            form = await http.read_form(self.request)
            body = str(form.get(FORM_FIELD, "{}"))
            for field, name, data in self.request.state.files:
                if field == FORM_FIELD:
                    http.check_size(body := data)  # a program may send the JSON as a file, too
                else:
                    files.append((name, data))
        else:
            types = (JSON, http.MULTIPART) if model in FILES_FIELD else (JSON,)
            body = await http.read_body(self.request, types)
        # A large body takes seconds to check: in a thread, it does not block other requests.
        return await asyncio.to_thread(_validate, body, model, what, files)


def validated(value: Any, model: type[_SaidT], what: str) -> _SaidT:
    """Return a value as a model.

    Raises:
        HttpProblem: it does not fit.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = problems_of(error, value, model)
        sentence = f"That is no {what}: {summarize_problems(faults)}."
        raise HttpProblem("invalid_request", sentence, faults=faults) from None


def _validate(
    body: str | bytes, model: type[_SaidT], what: str, files: Sequence[tuple[str, bytes]]
) -> tuple[_SaidT, dict[str, Any]]:
    field = FILES_FIELD[model] if files else ""
    try:
        value = exact_json(body)
        # No lone surrogate, and nothing that is no number, can be sent on.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        why = f"The body is no JSON: {error}; send one object in UTF-8."
        raise HttpProblem("bad_request", why) from None
    if field and isinstance(value, dict):
        value.setdefault(field, "")  # files need no text
    request = validated(value, model, what)
    if not files:
        return request, value
    with explain_files():
        parts = with_files(getattr(request, field), [file_part(*each) for each in files])
    sent = {**value, field: [part.to_json() for part in parts]}
    return request.model_copy(update={field: parts}), sent


def read_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Read a whole number from the query; a problem without one in these bounds."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not re.fullmatch(http.NUMBER, value) or not least <= int(value) <= most:
        raise HttpProblem("bad_request", f"`{name}` is a whole number from {least} to {most}.")
    return int(value)
