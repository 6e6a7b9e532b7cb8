"""The OpenAPI 3.1 description of the HTTP API, built from its operations, and its page.

The schemas are the published ones (`schemas/publish.py`), each once, under the name of its model.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.schemas.publish import EVENTS, described
from holdfast.web.api import models
from holdfast.web.api.api_request import JSON, MAX_BODY_BYTES
from holdfast.web.api.operations import Answer, Operation, Parameter
from holdfast.web.http.problems import CODES, MEDIA_TYPE, HttpProblem
from holdfast.web.pages import page

VERSION: Final = "1.0.0"
# The codes with which any request may be refused.
_ALWAYS: Final = (
    *("bad_request", "unauthorized", "forbidden", "method_not_allowed", "misdirected"),
    *("failed", "unavailable"),
)
_ABOUT: Final = (
    "Agents behind plain HTTP, for programs that have no Temporal client. A caller sends"
    " `Authorization: Bearer` and a JWT, or is signed in. A refusal is a problem (RFC 9457) whose"
    " `code` is for programs; nothing was done then. A body has at most"
    f" {MAX_BODY_BYTES:,} bytes. A run's id in an address is percent-encoded, slashes too."
)
_RUN: Final = Parameter("run", "path", "The run's id, percent-encoded.", {"type": "string"})
_BETWEEN: Final = (models.Token, models.ToolCallDelta, models.ToolUpdate)
_FRAME: Final = "Frame"
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
        "description": "Beside the cookie of who is signed in, for what changes something.",
    },
}

Mode = Literal["validation", "serialization"]


def build_description(known: Sequence[Operation]) -> dict[str, Any]:
    """Return the description of these operations."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for each in known:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    schemas.add(_FRAME, reduce(or_, (*EVENTS, *_BETWEEN)), "validation")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": VERSION, "description": _ABOUT},
        "security": [{"bearer": []}, {"session": []}],
        "paths": paths,
        "components": {"schemas": schemas.known, "securitySchemes": _WAYS},
    }


class _Schemas:
    """The referenced schemas, each once."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def add(self, name: str, kind: Any, mode: Mode) -> dict[str, str]:
        """Add the schema of a type and the schemas that it refers to; return a reference to it."""
        made = described(kind, mode)
        for each, schema in [*made.pop("$defs", {}).items(), (name, made)]:
            pointed = _pointing(schema)
            assert self.known.setdefault(each, pointed) == pointed  # one name, one schema
        return {"$ref": f"#/components/schemas/{name}"}


def _pointing(value: Any) -> Any:
    """Return the schema with its references pointing into the description."""
    if isinstance(value, list):
        return [_pointing(each) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        return {**value, "$ref": reference.replace("#/$defs/", "#/components/schemas/")}
    return {key: _pointing(each) for key, each in value.items()}


def _operation(known: Operation, schemas: _Schemas) -> dict[str, Any]:
    own = [_RUN] if "{run}" in known.path else []
    told: dict[str, Any] = {
        "operationId": known.name,
        "summary": known.title,
        "description": known.text,
        "parameters": [_parameter(each) for each in (*own, *known.parameters)],
        "responses": {
            **{str(status): _answer(each, schemas) for status, each in known.answers.items()},
            **_problems(known, schemas),
        },
    }
    if known.body is not None:
        schema = schemas.add(known.body.__name__, known.body, "validation")
        content = {JSON: {"schema": schema, "example": known.example}}
        told["requestBody"] = {"required": True, "content": content}
    return told


def _parameter(known: Parameter) -> dict[str, Any]:
    required = {"required": True} if known.where == "path" else {}
    told = {"name": known.name, "in": known.where, "description": known.text, **required}
    return {**told, "schema": dict(known.schema)}


def _answer(known: Answer, schemas: _Schemas) -> dict[str, Any]:
    told: dict[str, Any] = {"description": known.text}
    if known.headers:
        told["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in known.headers.items()
        }
    if known.model is not None:
        schema = schemas.add(known.model.__name__, known.model, "serialization")
        told["content"] = {known.media_type: {"schema": schema, "example": known.example}}
    elif known.example is not None:
        text = f"The `data` of each is a `{_FRAME}`, as JSON."
        schema = {"type": "string", "description": text}
        told["content"] = {known.media_type: {"schema": schema, "example": known.example}}
    return told


def _problems(known: Operation, schemas: _Schemas) -> dict[str, Any]:
    """Return the refusals of an operation, by the status of the response."""
    schema = schemas.add("Problem", models.ProblemView, "serialization")
    found: dict[int, list[str]] = {}
    for code in dict.fromkeys((*_ALWAYS, *known.problems)):
        found.setdefault(CODES[code][0], []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"`{code}`: {CODES[code][1]}" for code in codes),
            "content": {MEDIA_TYPE: {"schema": schema, "example": _example(codes[0]).to_json()}},
        }
        for status, codes in sorted(found.items())
    }


def _example(code: str) -> HttpProblem:
    return HttpProblem(code, f"{CODES[code][1]}; …")


@dataclass(frozen=True)
class OperationView:
    """An operation, as the page shows it."""

    method: str
    path: str
    description: Mapping[str, Any]
    curl: str
    fields: Mapping[str, Mapping[str, Any]]

    @property
    def successes(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the successful responses, by status."""
        return [each for each in self.description["responses"].items() if each[0] < "400"]

    @property
    def refusals(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the refusals, by status."""
        return [each for each in self.description["responses"].items() if each[0] >= "400"]


def docs_routes(told: Mapping[str, Any]) -> list[BaseRoute]:
    """Return the routes of the description and its page."""

    async def document(_: Request) -> Response:
        return JSONResponse(told)

    async def shown(request: Request) -> Response:
        asked = list(_shown(told, request.state.origin))
        return page(request, "api.html", about=told["info"]["description"], asked=asked)

    return [Route("/openapi.json", document), Route("/api", shown)]


def _shown(told: Mapping[str, Any], origin: str) -> Iterator[OperationView]:
    for path, methods in told["paths"].items():
        for method, each in methods.items():
            curl = _curl(method, origin + path, each)
            yield OperationView(method.upper(), path, each, curl, _fields(told, each))


def _fields(told: Mapping[str, Any], each: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of the request body, and which of them are required."""
    if "requestBody" not in each:
        return {}
    name = each["requestBody"]["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
    schema = told["components"]["schemas"][name]
    needed = schema.get("required", [])
    return {
        field: {"text": one.get("description", ""), "needed": field in needed}
        for field, one in schema["properties"].items()
    }


def _curl(method: str, url: str, told: Mapping[str, Any]) -> str:
    """Return the curl command; the reader sets `$TOKEN` and `$RUN`."""
    lines = [f'curl -N "{url}"' if "watch" in told["operationId"] else f'curl "{url}"']
    lines.append('-H "Authorization: Bearer $TOKEN"')
    if method == "post":
        lines[0] = lines[0].replace("curl", "curl -X POST", 1)
    if body := told.get("requestBody"):
        example = json.dumps(body["content"][JSON]["example"], ensure_ascii=False)
        lines += [f'-H "Content-Type: {JSON}"', f"-d {shlex.quote(example)}"]
    return " \\\n  ".join(lines).replace("{run}", "$RUN")
