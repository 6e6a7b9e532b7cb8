"""The description of the addresses for programs: as a document, and as a page for their authors."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.web.api.api_request import JSON
from holdfast.web.pages import page

_RUN = "$RUN"


@dataclass(frozen=True)
class Shown:
    """One thing that can be asked for, as the page shows it."""

    method: str
    path: str
    told: Mapping[str, Any]
    curl: str
    fields: Mapping[str, Mapping[str, Any]]

    @property
    def good(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The good answers, by status."""
        return [each for each in self.told["responses"].items() if each[0] < "400"]

    @property
    def bad(self) -> list[tuple[str, Mapping[str, Any]]]:
        """How it may be refused, by status."""
        return [each for each in self.told["responses"].items() if each[0] >= "400"]


def described(told: Mapping[str, Any]) -> list[BaseRoute]:
    """Where the description is found."""

    async def document(_: Request) -> Response:
        return JSONResponse(told)

    async def shown(request: Request) -> Response:
        asked = list(_shown(told, request.state.origin))
        return page(request, "api.html", about=told["info"]["description"], asked=asked)

    return [Route("/openapi.json", document), Route("/api", shown)]


def _shown(told: Mapping[str, Any], origin: str) -> Iterator[Shown]:
    for path, methods in told["paths"].items():
        for method, each in methods.items():
            curl = _curl(method, origin + path, each)
            yield Shown(method.upper(), path, each, curl, _fields(told, each))


def _fields(told: Mapping[str, Any], each: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields of the object that is sent, and whether it has to have them."""
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
    """The command that asks for it; `$TOKEN` and `$RUN` are the reader's."""
    lines = [f'curl -N "{url}"' if "watch" in told["operationId"] else f'curl "{url}"']
    lines.append('-H "Authorization: Bearer $TOKEN"')
    if method == "post":
        lines[0] = lines[0].replace("curl", "curl -X POST", 1)
    if body := told.get("requestBody"):
        example = json.dumps(body["content"][JSON]["example"], ensure_ascii=False)
        lines += [f'-H "Content-Type: {JSON}"', f"-d {shlex.quote(example)}"]
    return " \\\n  ".join(lines).replace("{run}", _RUN)
