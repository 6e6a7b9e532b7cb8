"""An MCP server for tests whose tools require input: `python airline.py` serves it by stdio."""

import os
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity, server
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequests,
    InputRequiredResult,
)

# A file with a line for each effect.
LEDGER = "AIRLINE_LEDGER"
# It would set the log of the whole process up.
setattr(server, "configure_logging", lambda *_: None)  # noqa: B010  # it is private
Reply = InputRequiredResult | str
Asked = Context[Any, Any]


def ledger() -> Path:
    return Path(os.environ[LEDGER])


def effects() -> list[str]:
    return ledger().read_text(encoding="utf-8").splitlines() if ledger().exists() else []


def form(message: str, **fields: Any) -> ElicitRequest:
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def answer(ctx: Asked, key: str) -> Any:
    """The content of an answer, or None."""
    found: Any = (ctx.input_responses or {}).get(key)
    return None if found is None or found.action != "accept" else found.content or {}


def held() -> Path:
    """A file that holds continued calls while it exists; each writes what it would do."""
    return ledger().with_name(ledger().name + ".held")


def done(line: str) -> str:
    if held().exists():
        held().write_text(line, encoding="utf-8")
    while held().exists():
        time.sleep(0.01)
    with ledger().open("a", encoding="utf-8") as lines:
        lines.write(f"{line}\n")
    return line


SEAT = {
    "type": "string",
    "title": "Seat",
    "oneOf": [{"const": "A", "title": "Aisle"}, {"const": "W", "title": "Window"}],
}


def book(flight: str, ctx: Asked) -> Reply:
    """Book a flight, in a seat that a person chooses."""
    if (given := answer(ctx, "seat")) is None:
        asked: InputRequests = {"seat": form(f"Which seat in {flight}?\n`approve` it.", seat=SEAT)}
        return InputRequiredResult(input_requests=asked, request_state=f"{flight} {os.getpid()}")
    return done(f"{flight} {given['seat']}")


def book_twice(flight: str, ctx: Asked) -> Reply:
    """Book a flight; the same call may be made again."""
    return book(flight, ctx)


def upgrade(ctx: Asked) -> Reply:
    """Upgrade, in two rounds: the second has two requests, of which one is an address."""
    if ctx.request_state is None:
        asked: InputRequests = {
            "class": form("Which class?", row={"type": "integer", "minimum": 1})
        }
        return InputRequiredResult(input_requests=asked, request_state="first")
    if ctx.request_state == "first":
        row = answer(ctx, "class")["row"]
        paid = ElicitRequestURLParams(message="Pay there.", url="https://pay.example/7")
        asked = {"sure": form("Sure?", sure={"type": "boolean"}), "pay": ElicitRequest(params=paid)}
        return InputRequiredResult(input_requests=asked, request_state=f"row {row}")
    return done(f"{ctx.request_state} {answer(ctx, 'sure')['sure']} {answer(ctx, 'pay')}")


def pid() -> str:
    """Return the server's process id."""
    return str(os.getpid())


def log_in() -> Reply:
    """Ask for what no form may ask for."""
    return InputRequiredResult(input_requests={"a": form("Log in.", apiKey={"type": "string"})})


def key_file() -> Path:
    """A file with the key of states: another process with this key accepts them, too."""
    return ledger().with_name(ledger().name + ".key")


def serve() -> None:
    """Serve the tools by standard input and output."""
    key = key_file().read_text(encoding="utf-8") if key_file().exists() else ""
    security = RequestStateSecurity(keys=[key or "k" * 32])
    airline = MCPServer("airline", request_state_security=security)
    for tool in (book, book_twice, upgrade, pid, log_in):
        airline.tool(structured_output=False)(tool)
    airline.run("stdio")


if __name__ == "__main__":
    serve()
