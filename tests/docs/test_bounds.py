"""The bounds that the pages of the inbox tell in passing are those of the code.

Those of runs and workers are a table of `docs/operating.md`: `tests/contract/test_limits.py`.
"""

import pytest

from encryption import secret
from inbox import streaming
from inbox.access import forms, identity, sessions
from inbox.api import asked as api_asked
from inbox.api import events
from inbox.call import alike, past, planned
from inbox.forms import drawing
from inbox.listing import asked, looks, routes, several
from inbox.live import changes, seen, telling, tree
from inbox.live import routes as live
from remote import plan
from tests.support.worker_process import ROOT

WORDS = {1.5: "a second and a half", 5: "five", 8: "eight", 10: "ten"}

BOUNDS = {
    "inbox.md": [
        f"A session lasts {WORDS[sessions.SESSION_SECONDS / 3600]} hours",
        f"only the {looks.PAGE_RUNS} runs of a page are asked for their calls, "
        f"{WORDS[asked.AT_ONCE]} at a time",
        f"has not answered in {WORDS[routes.ANSWER_SECONDS]}",
        f"asked first, up to {looks.MAX_ASKED}, and",
        f"{several.MAX_CHOICES} are decided at a time",
        f"up to {WORDS[alike.MAX_ALIKE]} calls of the same tool",
        f"not found in {WORDS[alike.SECONDS]}",
        f"a form has {drawing.MAX_FIELDS} fields, {drawing.MAX_ITEMS} items in a list, "
        f"{drawing.MAX_DEPTH} levels",
        f"A plan's page shows {plan.MAX_CALLS} steps",
        f"Arguments above {planned.MAX_EDIT_BYTES // 1000} KB",
        f"the last {past.MAX_ENTRIES} entries are read",
        f"a page shows {seen.PAGE_ENTRIES} entries",
        f"of a text, {telling.BODY_CHARS:,} characters; {tree.MAX_DELEGATES} delegates; "
        f"{live.MAX_INSTANCES} instances",
        f"An inbox has {changes.MAX_STREAMS} pages followed at a time",
        f"a form has at most {forms.MAX_FORM_BYTES // 10**6} MB and {forms.MAX_FIELDS:,} fields",
        f"{WORDS[secret.MAX_FAILURES]} wrong keys of a link",
        f"a name has at most {identity.MAX_NAME_CHARS} characters and a person "
        f"{identity.MAX_GROUPS} groups",
    ],
    "http.md": [
        f"a body has at most {api_asked.MAX_BODY_BYTES:,} bytes",
        f"One process serves {events.MAX_STREAMS} streams at a time",
        f"A comment comes every {streaming.KEEP_ALIVE_SECONDS:g} s",
    ],
}


@pytest.mark.parametrize("page", BOUNDS)
def test_a_page_tells_the_bounds_of_the_code(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    assert [said for said in BOUNDS[page] if said not in text] == []
