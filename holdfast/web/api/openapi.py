"""The OpenAPI 3.1 description of the HTTP API, built from its operations, and its page.

The schemas are those of `schemas/type_schema.py`, each once, under the name of its model.
"""

import json
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from inspect import getdoc
from operator import or_
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

import holdfast
from holdfast.schemas.base import Strict
from holdfast.schemas.settings.inbox import Right
from holdfast.schemas.type_schema import EVENTS, described
from holdfast.web.api import models
from holdfast.web.api.api_request import FORM_FIELD, JSON, ApiRequest
from holdfast.web.http.path_prefix import root_of
from holdfast.web.http.problems import CODES, MEDIA_TYPE, HttpProblem, ProblemView
from holdfast.web.http.requests import MAX_BODY_BYTES, MULTIPART
from holdfast.web.pages import page

# The address of the description, which an inbox may serve without a token.
DOCUMENT: Final = "/openapi.json"
# The codes with which any request may be refused.
_ALWAYS: Final = (
    *("bad_request", "unauthorized", "forbidden", "method_not_allowed", "misdirected"),
    *("failed", "unavailable"),
)
_ABOUT: Final = (
    "Agents behind plain HTTP, for programs that have no Temporal client. A caller sends"
    " `Authorization: Bearer` and a JWT, or is signed in. A refusal is a problem (RFC 9457) whose"
    " `code` is for programs; nothing was changed. A body has at most"
    f" {MAX_BODY_BYTES:,} bytes, and files beside them. A run's id in an address is"
    " percent-encoded, slashes too."
)
_BETWEEN: Final = (models.Token, models.ToolCallDelta, models.ToolUpdate)
_FRAME: Final = "Frame"
_FILE: Final = {"type": "string", "contentMediaType": "application/octet-stream"}
_SCHEMAS: Final = "#/components/schemas/"
_WAYS: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token that one of the inbox's key sets has signed.",
    },
    "session": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Form-Token",
        "description": "Beside the cookie of the session, for requests that change something.",
    },
}

Handler = Callable[[ApiRequest], Awaitable[Response]]


def parameter(name: str, where: str, text: str, **schema: Any) -> dict[str, Any]:
    """Describe a parameter in the address or a header; by default it is a text."""
    required = {"required": True} if where == "path" else {}
    schema = {"type": "string", **schema}
    return {"name": name, "in": where, "description": text, **required, "schema": schema}


@dataclass(frozen=True)
class Answer:
    """A successful response: its meaning and its content."""

    text: str
    model: type[Any] | None = None
    media_type: str = JSON
    example: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    data: str = "The `data` of each is a `Frame`, as JSON."


@dataclass(frozen=True)
class Operation:
    """An operation of the HTTP API; the docstring of its `handler` is its title and its text.

    `right` is what a caller needs on the run of the address, one of several is enough; without a
    run, the handler checks. `problems` are the codes with which it may be refused, beside those of
    every operation.
    """

    method: str
    path: str
    name: str
    handler: Handler
    answers: Mapping[int, Answer]
    right: Right | Collection[Right] | None
    problems: Sequence[str] = ()
    body: type[Strict] | None = None
    example: Any = None
    parameters: Sequence[dict[str, Any]] = ()


def build_description(known: Sequence[Operation]) -> dict[str, Any]:
    """Return the description of these operations."""
    schemas = _Schemas()
    run = parameter("run", "path", "The run's id, percent-encoded.")
    paths: dict[str, dict[str, Any]] = {}
    for each in known:
        successes = {str(status): schemas.success(one) for status, one in each.answers.items()}
        title, _, text = (getdoc(each.handler) or "").partition(".\n\n")
        document = {
            "operationId": each.name,
            "summary": title,
            "description": " ".join(text.split()),
            "parameters": [*([run] if "{run}" in each.path else []), *each.parameters],
            "responses": successes | schemas.refusals(each.problems),
        }
        if each.body is not None:
            content = {"schema": schemas.add(each.body, "validation"), "example": each.example}
            bodies = {JSON: content}
            if each.body in models.FILES_FIELD:
                files = {"type": "array", "items": _FILE}
                properties = {FORM_FIELD: content["schema"], "files": files}
                form = {"type": "object", "properties": properties, "required": [FORM_FIELD]}
                bodies[MULTIPART] = {"schema": form, "example": {FORM_FIELD: each.example}}
            document["requestBody"] = {"required": True, "content": bodies}
        paths.setdefault(each.path, {})[each.method.lower()] = document
    schemas.add(reduce(or_, (*EVENTS, *_BETWEEN)), "validation", _FRAME)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": holdfast.__version__, "description": _ABOUT},
        "security": [{"bearer": []}, {"session": []}],
        "paths": paths,
        "components": {"schemas": schemas.known, "securitySchemes": _WAYS},
    }


class _Schemas:
    """The referenced schemas, each once, and the responses that refer to them."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def add(
        self, kind: Any, mode: Literal["validation", "serialization"], name: str = ""
    ) -> dict[str, str]:
        """Add the schema of a type and the schemas that it refers to; return a reference to it."""
        name = name or kind.__name__
        text = json.dumps(described(kind, mode))
        made = json.loads(text.replace('"$ref": "#/$defs/', f'"$ref": "{_SCHEMAS}'))
        for each, schema in [*made.pop("$defs", {}).items(), (name, made)]:
            assert self.known.setdefault(each, schema) == schema  # one name, one schema
        return {"$ref": f"{_SCHEMAS}{name}"}

    def success(self, answer: Answer) -> dict[str, Any]:
        """Return a successful response."""
        response: dict[str, Any] = {"description": answer.text}
        if answer.headers:
            response["headers"] = {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in answer.headers.items()
            }
        schema: Mapping[str, Any] = {"type": "string", "description": answer.data}
        if answer.model is not None:
            schema = self.add(answer.model, "serialization")
        if answer.example is not None:
            content = {"schema": schema, "example": answer.example}
            response["content"] = {answer.media_type: content}
        return response

    def refusals(self, problems: Sequence[str]) -> dict[str, Any]:
        """Return the refusals of an operation, by the status of the response."""
        schema = self.add(ProblemView, "serialization", "Problem")
        found: dict[int, list[str]] = {}
        for code in dict.fromkeys((*_ALWAYS, *problems)):
            found.setdefault(CODES[code][0], []).append(code)
        responses = {}
        for status, codes in sorted(found.items()):
            example = HttpProblem(codes[0], f"{CODES[codes[0]][1]}; …").to_json()
            responses[str(status)] = {
                "description": "; ".join(f"`{code}`: {CODES[code][1]}" for code in codes),
                "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
            }
        return responses


def curl_command(url: str, method: str, operation: Mapping[str, Any]) -> str:
    """Return the curl command for an operation; the reader sets `$TOKEN` and `$RUN`."""
    lines = [f'curl -N "{url}"' if "watch" in operation["operationId"] else f'curl "{url}"']
    lines.append('-H "Authorization: Bearer $TOKEN"')
    if method == "post":
        lines[0] = lines[0].replace("curl", "curl -X POST", 1)
    if body := operation.get("requestBody"):
        example = json.dumps(body["content"][JSON]["example"], ensure_ascii=False)
        lines += [f'-H "Content-Type: {JSON}"', f"-d {shlex.quote(example)}"]
    return " \\\n  ".join(lines).replace("{run}", "$RUN")


def docs_routes(told: Mapping[str, Any]) -> list[BaseRoute]:
    """Return the routes of the description and its page."""

    async def document(request: Request) -> Response:
        return JSONResponse({**told, "servers": [{"url": root_of(request) or "/"}]})

    async def shown(request: Request) -> Response:
        base = request.state.origin + root_of(request)
        asked = [
            (path, method, each, curl_command(base + path, method, each))
            for path, methods in told["paths"].items()
            for method, each in methods.items()
        ]
        schemas = {f"{_SCHEMAS}{name}": one for name, one in told["components"]["schemas"].items()}
        about = told["info"]["description"]
        return page(request, "api.html", about=about, asked=asked, schemas=schemas)

    return [Route(DOCUMENT, document), Route("/api", shown)]
