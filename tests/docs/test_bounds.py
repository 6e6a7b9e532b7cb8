"""The bounds that the pages of the inbox mention are those of the code.

Those of runs and workers are the table of `docs/limits.md`: `tests/contract/test_limits.py`.
"""

import pytest

from holdfast.client import run_lists
from holdfast.runtime.attachments import DEFAULT_BYTES
from holdfast.runtime.narration import question_view
from holdfast.schemas import run
from holdfast.web import home, slack
from holdfast.web.api import runs
from holdfast.web.auth import sessions
from holdfast.web.call import loader, view_model
from holdfast.web.forms import fields
from holdfast.web.http import requests, shared_secret, streaming
from holdfast.web.listing import bulk, page_query, pending_runs, routes
from holdfast.web.mcp import offered_tools, run_results, tasks
from holdfast.web.mcp import server as mcp_server
from holdfast.web.run import comparison, snapshot, timeline, view
from holdfast.web.run import routes as live
from tests.support.process import ROOT

WORDS = {1.5: "a second and a half", 3: "three", 5: "five", 8: "eight", 10: "ten"}

BOUNDS = {
    "mcp-server.md": [
        f"has not finished after {offered_tools.MAX_WAIT_SECONDS:g} seconds",
        f"a text of 1 to {mcp_server.MAX_KEY_CHARS} characters",
        f"has not finished after {tasks.TASK_AFTER_SECONDS:g} seconds",
        f"of more than {run_results.MAX_VALUE_CHARS:,} characters",
    ],
    "operating/slack.md": [
        f"more than {WORDS[slack.MAX_AGE_SECONDS / 60]} minutes old",
        f"remembers {slack.MAX_SEEN:,} requests, handles {slack.MAX_CLICKS} at a time, and "
        f"reads {slack.MAX_BODY_BYTES // 1000} KB of each",
    ],
    "operating/inbox.md": [
        f"A session lasts {WORDS[sessions.SESSION_SECONDS / 3600]} hours",
        f"a form has at most {requests.MAX_BODY_BYTES // 10**6} MB and "
        f"{requests.MAX_FIELDS:,} fields",
        f"{DEFAULT_BYTES['MESSAGE'] // 10**6} MB more and {requests.MAX_FILES} files",
        f"after {WORDS[shared_secret.MAX_FAILURES]} wrong keys of a link",
        f"a name has at most {sessions.MAX_NAME_CHARS} characters and a person "
        f"{sessions.MAX_GROUPS} groups",
    ],
    "approvals/inbox-pages.md": [
        f"{pending_runs.PAGE_RUNS:,} a request, while someone looks, and makes at most one request "
        f"in {WORDS[pending_runs.EVERY_SECONDS]} seconds on average",
        f"Only the {page_query.PAGE_RUNS} runs of a page are queried for their calls, "
        f"{WORDS[pending_runs.AT_ONCE]} at a time",
        f"shows a change, or after {pending_runs.KEPT_SECONDS:g} seconds",
        f"an inbox lists {run_lists.MAX_RUNS:,} runs with pending approvals",
        f"It has {routes.MAX_STREAMS} open lists, {streaming.MAX_STREAMS_OF_ONE} of one person",
        f"has not answered in {WORDS[routes.ANSWER_SECONDS]}",
        f"queried first, up to {page_query.MAX_ASKED}, and",
        f"{bulk.MAX_CHOICES} are decided at a time",
        f"up to {WORDS[loader.MAX_SIMILAR]} calls of the same tool",
        f"not found in {WORDS[loader.SIMILAR_SECONDS]}",
        f"a form has {fields.MAX_FIELDS} fields, {fields.MAX_ITEMS} items in a list, "
        f"{fields.MAX_DEPTH} levels",
        f"A plan's page shows {question_view.MAX_CALLS} steps",
        f"Arguments above {view_model.MAX_EDIT_BYTES // 1000} KB",
        f"the last {run.MAX_CALL_ENTRIES} entries are read",
    ],
    "approvals/run-pages.md": [
        f"of the newest {home.MAX_ENDED} ended runs",
        f"waits for {WORDS[home.ANSWER_SECONDS]} seconds",
        f"a page shows {snapshot.PAGE_ENTRIES} entries",
        f"of a text, {timeline.BODY_CHARS:,} characters; {view.MAX_DELEGATES} delegates; "
        f"{live.MAX_INSTANCES} instances",
        f"page shows {comparison.MAX_SHOWN_CHARS:,} characters",
        f"An inbox has {live.MAX_STREAMS} pages followed at a time, "
        f"{streaming.MAX_STREAMS_OF_ONE} of one person",
    ],
    "http-api.md": [
        f"a body has at most {requests.MAX_BODY_BYTES:,} bytes",
        f"One process serves {runs.MAX_STREAMS} streams at a time, "
        f"{runs.MAX_STREAMS_OF_ONE} to one",
        f"A comment comes every {streaming.KEEP_ALIVE_SECONDS:g} s",
    ],
}


@pytest.mark.parametrize("page", BOUNDS)
def test_a_page_has_the_bounds_of_the_code(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    assert [said for said in BOUNDS[page] if said not in text] == []
