"""An MCP server for tests whose tools require input: `python airline.py` serves it by stdio."""

import os
import time
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity, server
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequests,
    InputRequiredResult,
    RequestParams,
)
from pydantic import BaseModel

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
    """A file that holds calls while it exists; each writes its process and what it is to do."""
    return ledger().with_name(ledger().name + ".held")


def hold(line: str) -> None:
    if held().exists():
        held().write_text(f"{os.getpid()} {line}", encoding="utf-8")
    while held().exists():
        time.sleep(0.01)


def done(line: str) -> str:
    hold(line)
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
        hold(f"{flight} form")
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


class Seat(BaseModel):
    """What an older server asks for."""

    seat: str


async def book_within(flight: str, ctx: Asked) -> str:
    """Book a flight as an older server does, whose form is within the open call."""
    found = await ctx.elicit(f"Which seat in {flight}?", Seat)
    return done(f"{flight} {found.data.seat if found.action == 'accept' else found.action}")


def pid() -> str:
    """Return the server's process id."""
    return str(os.getpid())


def log_in() -> Reply:
    """Ask for what no form may ask for."""
    return InputRequiredResult(input_requests={"a": form("Log in.", apiKey={"type": "string"})})


def fly(flight: str) -> str:
    """Fly; the extension below runs it as a task."""
    return flight


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, ElicitResult] | None = None


class FlightTasks(Extension):
    """Tasks with the flight as their id: working, then a form, then done, at one poll each."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.polls: dict[str, int] = {}
        self.meals: dict[str, Any] = {}

    def methods(self) -> list[MethodBinding]:
        bound = {"tasks/get": self.get, "tasks/update": self.update, "tasks/cancel": self.cancel}
        return [MethodBinding(name, TaskParams, each) for name, each in bound.items()]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        if params.name != "fly":
            return await call_next(ctx)
        flight = params.arguments["flight"]
        self.polls[flight] = 0
        return {"resultType": "task", **self.state(flight, "working")}

    def state(self, flight: str, status: str, **more: Any) -> dict[str, Any]:
        at = "2026-07-28T00:00:00Z"
        known = {"taskId": flight, "status": status, "createdAt": at, "lastUpdatedAt": at}
        return {**known, "ttlMs": None, "pollIntervalMs": 10, **more}

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        flight = params.task_id
        if flight not in self.polls:
            raise MCPError(code=-32602, message="there is no such task")
        self.polls[flight] += 1
        if self.polls[flight] == 1 or flight == "LONG":
            return self.state(flight, "working")
        meal = self.meals.get(flight)
        if meal is None or meal.pop("is_new", False):  # an answer shows with the next poll but one
            asked = {"meal": form("Which meal?", meal={"type": "string"})}
            shown = {
                key: each.model_dump(mode="json", by_alias=True) for key, each in asked.items()
            }
            return self.state(flight, "input_required", inputRequests=shown)
        result = {"content": [{"type": "text", "text": done(f"{flight} {meal['meal']}")}]}
        return self.state(flight, "completed", result=result)

    async def update(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        given = (params.input_responses or {})["meal"]
        self.meals[params.task_id] = {**(given.content or {}), "is_new": True}
        return {}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        done(f"{params.task_id} cancelled")
        return {}


def days_later() -> Path:
    """A file with the days by which the clock of a server that starts now is moved."""
    return ledger().with_name(ledger().name + ".later")


def serve() -> None:
    """Serve the tools by standard input and output."""
    if days_later().exists():
        now, days = time.time, int(days_later().read_text(encoding="utf-8"))
        time.time = lambda: now() + days * 24 * 3600
    security = RequestStateSecurity(keys=["k" * 32], ttl=600)
    airline = MCPServer("airline", request_state_security=security, extensions=[FlightTasks()])
    for tool in (book, book_twice, book_within, upgrade, fly, pid, log_in):
        airline.tool(structured_output=False)(tool)
    airline.run("stdio")


if __name__ == "__main__":
    serve()
