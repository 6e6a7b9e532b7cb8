"""The table of permissions: every operation of the inbox × every role, and the status of each.

`python -m tests.web.auth.permission_table --write` writes it into the page of the documentation,
from whose example the rules are. The run is one that waits for `finance`; it and the lists are
stand-ins, and all between a request and them is the inbox itself.
"""

import asyncio
import json
import math
import re
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import yaml
from starlette.routing import Route
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.remote_run import RunStart
from holdfast.client.run import Run
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.client.stream.run_watch import RunDescription
from holdfast.runtime.absences import AbsenceReader
from holdfast.schemas import names
from holdfast.schemas.decision import Receipt
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.internal.shared_budgets import BudgetView
from holdfast.schemas.run import CallReport, RunReport
from holdfast.schemas.settings.inbox import InboxSettings, Right
from holdfast.schemas.tool import ShownTool
from holdfast.web.api import lists
from holdfast.web.api.operations import OPERATIONS, Resource
from holdfast.web.app import application
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import Person
from holdfast.web.http.requests import RunRoute
from holdfast.web.http.streaming import SessionEnd
from holdfast.web.listing.pending_runs import PendingList, PendingRuns
from holdfast.web.services import Services
from tests.support.backend import ROOT
from tests.web.call.test_texts import AT, asks, log
from tests.web.call.test_texts import waiting as asked
from tests.web.run.test_bounds import description

PAGE: Final = ROOT / "docs" / "security" / "permissions.md"
RUN, AGENT = "order-7", "support"
NOW: Final = datetime.fromisoformat(AT)
APPROVAL: Final = asked(amount=5).model_copy(update={"approvers": ["finance"]})


def _program(group: str, right: str) -> Person:
    return Person("bot", (group,), "token", may=frozenset({right}), is_program=True)


ROLES: Final = {
    "approver": Person("ann", ("finance",)),
    "approver of another group": Person("bob", ("legal",)),
    "owner": Person("lee", ("support-leads",)),
    "auditor": Person("eve", ("audit",)),
    "nobody": Person("joe"),
    "program, `may: [read]`": _program("audit", "read"),
    "program, `may: [decide]`": _program("finance", "decide"),
}
FORMS: Final[dict[str, dict[str, str]]] = {
    "/": dict.fromkeys(("chosen", "seen"), str(SelectedCall.of(RUN, APPROVAL)))
    | {"decision": "approve"},
    "/waiting/{run}/{call}": {"about": "approve", "digest": APPROVAL.digest},
    "/waiting/{run}/{call}/claim": {"claim": "take"},
    "/away": {"do": "end"},
    "/run/{run}/message": {"text": "Hello."},
    "/run/{run}/withdraw": {"message": "1"},
    "/run/{run}/fork/{n}": {"text": "Hello.", "key": "a"},
}
_ERROR: Final = b"RUN_ERROR"
# What a person finds in the answer of a list, or does not.
LISTS: Final = {
    "GET /": RUN,
    "POST /": "Approved.",
    "GET /run": RUN,
    "GET /runs": RUN,
    "GET /approvals": RUN,
    "GET /budgets": "everyone",
    "GET /agents": AGENT,
    "GET /tools": "pay",
    "POST /agui/{agent}": "MESSAGES_SNAPSHOT",
}


def rules() -> Permissions:
    """The rules of the example on the page."""
    [example] = re.findall(r"```yaml\n# inbox.yaml\n(permissions:.*?)```", _page(), re.DOTALL)
    return Permissions(InboxSettings.model_validate(yaml.safe_load(example)).permissions)


def _page() -> str:
    return PAGE.read_text(encoding="utf-8")


def written() -> list[str]:
    """The table of the page."""
    [found] = re.findall(r"<!-- table -->\n(.*?)<!-- /table -->", _page(), re.DOTALL)
    return str(found).splitlines()


async def table() -> list[str]:
    """The table, as the inbox answers."""
    temporal = await Client.connect("127.0.0.1:1", lazy=True)
    with pytest.MonkeyPatch.context() as patch:
        _replace_temporal(patch)
        parts = Services(HoldfastClient(temporal), permissions=rules(), catalog=_catalog())
        app = application(parts)
        lines = [
            f"| operation | right | {' | '.join(ROLES)} |",
            f"| --- | --- |{' --- |' * len(ROLES)}",
        ]
        for name, right, method, path in _operations(app.routes):
            cells = [await _answer(app, person, method, path) for person in ROLES.values()]
            lines.append(f"| `{name}` | {right} | {' | '.join(cells)} |")
    return lines


def _operations(routes: Collection[Any]) -> Iterator[tuple[str, str, str, str]]:
    for route in routes:
        if not isinstance(route, Route):
            continue  # static files
        path = route.path.replace("{run:path}", "{run}").replace(":number", "")
        rights = {method: _right(route) for method in {*(route.methods or ())} - {"HEAD"}}
        if isinstance(route.endpoint, Resource):
            rights = {each.method: _text(each.right) for each in route.endpoint.operations.values()}
        for method, right in sorted(rights.items()):
            yield f"{method} {path}", right, method, path


def _right(route: Route) -> str:
    return _text(route.right) if isinstance(route, RunRoute) else ""


def _text(right: Right | Collection[Right] | None) -> str:
    rights = [right] if isinstance(right, str) else sorted(right or ())
    return " or ".join(f"`{each}`" for each in rights)


async def _answer(app: Any, person: Person, method: str, path: str) -> str:
    """The status of the answer to a request, and whether a list is empty."""
    named = LISTS.get(f"{method} {path}")
    wanted = None if named is None else named.encode()
    body, kind = _sent(path) if method == "POST" else (b"", "")
    address = path.format(run=RUN, call=APPROVAL.call_id, n=1, index=0, agent=AGENT, other=RUN)
    state: dict[str, Any] = {"person": person, "origin": "https://inbox.example"}
    state["session"] = SessionEnd(math.inf, asyncio.Event())
    scope: dict[str, Any] = {"type": "http", "method": method, "path": address}
    scope |= {"raw_path": address.encode(), "query_string": b"", "root_path": "", "state": state}
    scope |= {"scheme": "https"}
    scope["headers"] = [(b"content-type", kind.encode()), (b"accept", b"text/html")]
    received, messages = [{"type": "http.request", "body": body}], list[Any]()
    is_whole = asyncio.Event()

    async def receive() -> Any:
        return received.pop() if received else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        messages.append(message)
        # A stream has no end; the first events of some are awaited.
        is_stream = b"event-stream" in dict(messages[0]["headers"]).get(b"content-type", b"")
        is_read = wanted is None or any(one in message.get("body", b"") for one in (wanted, _ERROR))
        if (is_stream and is_read) or not message.get("more_body", message is messages[0]):
            is_whole.set()

    task = asyncio.create_task(app(scope, receive, send))
    task.add_done_callback(lambda _: is_whole.set())
    async with asyncio.timeout(120):
        await is_whole.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    text = b"".join(each.get("body", b"") for each in messages)
    status = messages[0]["status"]
    return str(status) if wanted is None or wanted in text else f"{status}, nothing"


def _sent(path: str) -> tuple[bytes, str]:
    """The body of a request that changes something, and its type."""
    examples = {each.path: each.example for each in OPERATIONS if each.method == "POST"}
    if path in examples:
        return json.dumps(examples[path]).encode(), "application/json"
    return urlencode(FORMS.get(path, {})).encode(), "application/x-www-form-urlencoded"


def _catalog() -> Any:
    one: dict[str, Any] = {
        "description": "",
        "input": None,
        "output": None,
        "label": None,
        "parameters": {},
        "approval": {},
    }
    one |= {"side_effects": True, "latent": False}
    tools = {"pay": SimpleNamespace(name="pay", **one)}
    agents = {AGENT: SimpleNamespace(name=AGENT, **one)}
    return SimpleNamespace(agents=agents, definitions=SimpleNamespace(tools=tools))


def _replace_temporal(patch: pytest.MonkeyPatch) -> None:
    """Have all that the inbox asks of Temporal and of runs be answered here."""
    listing = RunListing(
        RUN,
        "desk",
        NOW,
        "awaiting_approval",
        AGENT,
        "ada",
        (APPROVAL.tool,),
        tuple(APPROVAL.approvers),
        since=NOW,
        execution="r",
    )
    told: dict[str, Any] = {names.AGENT_NAME: AGENT, names.AGENT_PRINCIPAL: "ada"}
    told |= {names.PENDING_FOR: listing.groups}
    pairs = [SimpleNamespace(key=SimpleNamespace(name=n), value=v) for n, v in told.items()]
    picture = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
    entries = log({"type": "message", "message": {"role": "user", "content": [picture]}}, asks())

    async def looks(_: Run) -> AsyncIterator[Any]:
        yield RunDescription(("r", 7), closed=False, streaming=None)
        await asyncio.Event().wait()

    def answers(value: Any) -> Any:
        async def answer(*_: Any, **__: Any) -> Any:
            return value

        return answer

    report = RunReport.read({"status": "awaiting_approval", "log": {"entries": len(entries)}})
    tool = ShownTool.read({"name": "pay", "parameters": {"type": "object"}, "approval": {}})
    receipt = Receipt(call_id=APPROVAL.call_id, decision="approve", decided=True)
    of_runs = {
        "describe": description([], id=RUN, root_id=RUN, typed_search_attributes=pairs),
        "observe": RunDescription(("r", 7), closed=False, streaming=None),
        "approvals": [APPROVAL],
        "claim": None,
        "call": CallReport(status=report, pending=[APPROVAL], tools={"pay": tool}, entries=entries),
        "status": report,
        "tool": tool,
        "start_info": RunStart(NOW, "Refund it."),
        "state": {},
        "decide": receipt,
        **dict.fromkeys(("post", "close", "cancel", "withdraw", "renew")),
    }
    for name, value in of_runs.items():
        patch.setattr(Run, name, answers(value))
    patch.setattr(Run, "looks", looks)

    async def page(_: Run, log: str, after: int, limit: int) -> list[Any]:
        return entries[after : after + limit]

    async def list_page(_: Any, wanted: RunFilter | str, *__: Any) -> Any:
        return [listing], None

    budget = BudgetView(name="everyone", scope="all", window="2026-03", ends_at=NOW)
    patch.setattr(lists, "read_budgets", answers([budget]))
    patch.setattr(Run, "page", page)
    patch.setattr(HoldfastClient, "list_page", list_page)
    patch.setattr(HoldfastClient, "set_absence", answers(None))
    patch.setattr(AbsenceReader, "read", answers([]))
    patch.setattr(HoldfastClient, "list_runs", answers([]))
    patch.setattr(HoldfastClient, "count_runs", answers(0))
    patch.setattr(HoldfastClient, "start_request", answers(SimpleNamespace(id="new")))
    patch.setattr(PendingRuns, "read", answers(PendingList([listing], 1)))


def main() -> None:
    lines = asyncio.run(table())
    if "--write" in sys.argv:
        made = "\n".join(["<!-- table -->", *lines, "<!-- /table -->"])
        page = re.sub(r"<!-- table -->.*?<!-- /table -->", lambda _: made, _page(), flags=re.DOTALL)
        PAGE.write_text(page, encoding="utf-8")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
