"""Render the templates. Text of a run, a model or a person is escaped.

A request of htmx (`HX-Request`) receives the same page, and htmx uses a part of it.
"""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from holdfast.runtime.text_safety import clean, one_line
from holdfast.web.auth.person import Person

HERE = Path(__file__).parent
STATIC = HERE / "static"
LINE_CHARS = 500


def address(*parts: str) -> str:
    """Return the path of a page: `address("run", "order/7")` is `/run/order%2F7`."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _line(text: str) -> str:
    return one_line(text, LINE_CHARS)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,  # an undefined name in a template raises an error
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["address"] = address
    environment.filters["line"] = _line
    environment.filters["plain"] = clean
    return environment


ENVIRONMENT = _environment()


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page for the person of the request."""
    person = getattr(request.state, "person", None)
    known = person if isinstance(person, Person) else None
    path = request.scope["path"]
    text = ENVIRONMENT.get_template(template).render(person=known, path=path, **values)
    return HTMLResponse(text, status)
