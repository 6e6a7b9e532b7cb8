"""The handlers for lists: runs, pending approvals, and the agents and tools of a catalog.

A list has what its reader may see. It is read page by page: `next` is the `after` of the page that
follows, and is left out on the last one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, get_args
from urllib.parse import parse_qs

from starlette.responses import JSONResponse, Response

from holdfast.catalog.loader import Catalog
from holdfast.client.shared_budgets import read_budgets
from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.schemas.base import Lenient, rfc3339
from holdfast.schemas.run import RunStatus
from holdfast.schemas.tool import ShownTool
from holdfast.web.api import models
from holdfast.web.api.api_request import ApiRequest, read_number
from holdfast.web.auth.permissions import LISTED
from holdfast.web.http.problems import HttpProblem
from holdfast.web.listing.page_query import ListView
from holdfast.web.listing.routes import read_page
from holdfast.web.listing.runs import read_run_filter

MAX_LIMIT: Final = 100
DEFAULT_LIMIT: Final = 25
_ANSWER: Final = "the run has not answered yet: list it again"
_T = TypeVar("_T", bound=Lenient)


async def list_runs(asked: ApiRequest) -> Response:
    """List the runs.

    Those that you may read, cancel or send messages to: open ones first.
    """
    query = asked.request.query_params
    if query.get("status", "") not in ("", *get_args(RunStatus)):
        choices = ", ".join(get_args(RunStatus))
        raise HttpProblem("bad_request", f"`status` is one of {choices}.")
    wanted, after = read_run_filter(query)
    found, token = await asked.parts.list_runs(asked.person, wanted, _limit(asked), after)
    shown = ({**vars(one), "run": one.id, "started": rfc3339(one.started)} for one in found)
    runs = [models.RunEntry.read(one) for one in shown]
    return JSONResponse(models.RunPage(runs=runs, next=token.hex() if token else None).to_json())


async def list_approvals(asked: ApiRequest) -> Response:
    """List the approvals.

    The pending approvals that you may see, of all runs; a page is of so many runs.
    """
    view = replace(ListView.parse(asked.request.query_params), size=_limit(asked))
    _, _, found, answers = await read_page(asked.parts, asked.person, view)
    entries = list[dict[str, Any]]()
    for run in found.runs:
        entry = models.ApprovalEntry.read({**vars(run), "run": run.id}).to_json()
        answer = answers.get(run.id)
        if isinstance(answer, list):
            entries += [{**entry, "approval": one.to_json()} for one in answer]
        else:
            why = as_sentence(clean(_ANSWER if answer is None else str(answer)))
            entries.append({**entry, "unanswered": why})
    page: dict[str, Any] = {"approvals": entries}
    if found.has_more:
        [page["next"]] = parse_qs(view.page_after(found.runs[-1]).query)["after"]
    return JSONResponse(page)


async def list_agents(asked: ApiRequest) -> Response:
    """List the agents.

    Those of the inbox's catalog whose runs you may list or start, by name.
    """
    known = {name: one for name, one in _catalog(asked).agents.items() if _knows(asked, name)}
    found, following = _page_of(asked, models.AgentEntry, known)
    return JSONResponse(models.AgentPage(agents=found, next=following).to_json())


async def list_tools(asked: ApiRequest) -> Response:
    """List the tools.

    Those of the inbox's catalog that you may call by themselves, by name.
    """
    tools = _catalog(asked).definitions.tools
    known = {name: one for name, one in tools.items() if not one.latent and _knows(asked, None)}
    found, following = _page_of(asked, ShownTool, known)
    return JSONResponse(models.ToolPage(tools=found, next=following).to_json())


async def list_budgets(asked: ApiRequest) -> Response:
    """List the budgets that runs share.

    Those of the present windows, each scope apart: for people who may read every run.
    """
    may_read = "read" in asked.parts.permissions.rights(asked.person, None, None)
    found = await read_budgets(asked.parts.client) if may_read else []
    after, limit = asked.request.query_params.get("after", ""), _limit(asked)
    by_place = {f"{each.name}/{each.scope}/{each.window}": each for each in found}
    later = sorted(place for place in by_place if place > after)
    shown = [by_place[place] for place in later[:limit]]
    following = later[limit - 1] if len(later) > limit else None
    return JSONResponse(models.BudgetPage(budgets=shown, next=following).to_json())


def _knows(asked: ApiRequest, agent: str | None) -> bool:
    permissions, person = asked.parts.permissions, asked.person
    may_list = LISTED & permissions.rights(person, agent, person.name)
    return bool(may_list) or permissions.may_start(person, agent, person.name)


def _catalog(asked: ApiRequest) -> Catalog:
    if asked.parts.catalog is None:
        todo = "start it with `holdfast inbox --catalog DIR`"
        raise HttpProblem("no_catalog", f"This inbox has no agents and tools to list; {todo}.")
    return asked.parts.catalog


def _page_of(
    asked: ApiRequest, model: type[_T], known: Mapping[str, object]
) -> tuple[list[_T], str | None]:
    query, limit = asked.request.query_params, _limit(asked)
    after, prefix = query.get("after", ""), query.get("name", "")
    names = sorted(name for name in known if name > after and name.startswith(prefix))
    found = [model.model_validate(known[name], from_attributes=True) for name in names[:limit]]
    return found, names[limit - 1] if len(names) > limit else None


def _limit(asked: ApiRequest) -> int:
    return read_number(asked.request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
