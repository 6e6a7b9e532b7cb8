"""Render a page of the inbox from a text: what its runs are, who opens it, and what it shows.

A page is a file of three parts: a sentence that states the rule, the state in YAML, and the text
of the page (`page_text`). Where a rule has several cases, each is a part of the file that begins
with `===`: its sentence, what it has beside the state at the top, and its text.

No server runs: the routes and the templates are the inbox's own, and `stated_runs` answer. It is
noon of 2 March 2026, and times are stated as `-3 min`.

    open:     the address; or `send`, with the fields of its `form`, of the page as it is
    person:   who opens it, by default `{name: ann, groups: [finance]}`; `may`: their rights
    signs:    the inbox signs decisions; `temporal_ui`: the address of Temporal's UI
    run:      what Temporal knows of the run of the address: `RunInfo`
    ask:      the pending approval of the run, several, or why it does not answer
    tools:    the tools of the run, as the model is shown them
    log:      the entries: `ask: …`, `decide: approve by ada`, `starts`, `ends`, `fails: TEXT`,
              `says: CONTENT` of the tool, or the fields of any other
    report:   the status that the run returns; `ending`: how it ended; `silent`: it does not answer
    compared: the runs that the page compares, by id: `log`, `state`, `output`, and the rest of it
    link:     the page is that of a link to the call of `open`, in the name of this person
    runs:     the list: each run, and its pending approvals in `ask`; `list`: the rest of it
    refuses:  why the run rejects the decision; `lost`: no worker answers it
    within:   what is shown of the page: elements by tag, class, id or name
    template: a page without a run, and its `values`

An absence that is set is `sent`. In the text, `<digest>` and `<nonce>` are those of the first
pending approval. The inbox is under a path, which the text leaves out: a link without it is an
error.
"""

import asyncio
import json
import re
from typing import Any, Final

import httpx
import yaml
from starlette.types import Receive, Scope, Send
from temporalio.client import Client

import holdfast
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.decision_links import KIND, PATH
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.app import DecisionPages, application
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import Person
from holdfast.web.http.path_prefix import under_path
from holdfast.web.pages import ENVIRONMENT
from holdfast.web.services import Services
from tests.web.pages.page_text import text_of
from tests.web.pages.stated_runs import StatedRuns

RUN: Final = "order-7"
ROOT: Final = "/holdfast"
SECRET: Final = "the secret of the links that decide"
TOKEN: Final = "<form token>"
_OUTSIDE: Final = re.compile(rf'\s(?!value)[\w-]+="/(?!{ROOT[1:]}/)[^"]*"')
_RUN_OF: Final = re.compile(r"/(?:run|waiting)/([^/?]+)")
_CHOICES: Final = ("chosen", "seen", "identical")
_HASH: Final = re.compile(r"\b[0-9a-f]{32,64}\b")


async def response_of(runs: StatedRuns, said: dict[str, Any]) -> httpx.Response:
    """Open the page of a state, or send its form."""
    known = {"name": "ann", "groups": ["finance"], **said.get("person", {})}
    may, groups = known.pop("may", None), tuple(known.pop("groups"))
    person = Person(groups=groups, form_token=TOKEN, **known)
    rules = Permissions(None if may is None else [PermissionRule(may=may)])
    client = HoldfastClient(await Client.connect("127.0.0.1:1", lazy=True))
    signer: Any = object() if said.get("signs") else None
    parts = Services(client, signer, said.get("temporal_ui"), permissions=rules)
    inbox, path = application(parts, *DecisionPages(parts, SECRET).routes), said.get("open", "")
    if by := said.get("link"):
        values = {"call": str(runs.choice(f"{RUN}/t1c1")), "by": by, "groups": [*groups]}
        path = PATH + TextSealer(SECRET).seal(KIND, values, 60)

    async def signed_in(scope: Scope, receive: Receive, send: Send) -> None:
        await inbox({**scope, "state": {**scope["state"], "person": person}}, receive, send)

    browser = httpx.AsyncClient(
        transport=httpx.ASGITransport(under_path(signed_in, ROOT)),
        base_url="http://inbox",
        headers={"accept": "text/html"},
    )
    async with browser:
        if "send" not in said:
            return await browser.get(ROOT + path)
        form = {"form_token": TOKEN, **said.get("form", {})}
        for one in runs.pending[:1]:
            form = {"digest": one.digest, "nonce": one.nonce, **form}
        for name in form.keys() & _CHOICES:
            form[name] = [str(runs.choice(each)) for each in form[name]]
        return await browser.post(ROOT + said["send"], data=form)


def render(said: dict[str, Any]) -> str:
    """Return the text of the page of a state."""
    if "template" in said:
        template = ENVIRONMENT.get_template(said["template"])
        person = said.get("person") and Person(**said["person"], form_token=TOKEN)
        return text_of(template.render(person=person, path="/", **said.get("values", {})))
    found = _RUN_OF.match(said.get("open") or said["send"])
    runs = StatedRuns(said, found[1] if found else RUN)
    with runs.answering():
        response = asyncio.run(response_of(runs, said))
    assert response.status_code != 500, "the page could not be made"
    if response.is_redirect:
        location = response.headers["location"]
        assert location.startswith(f"{ROOT}/"), f"it leads out of the inbox: {location}"
        sent = "".join(f"sent: {json.dumps(one)}\n" for one in runs.sent)
        return f"{response.status_code} to {location.removeprefix(ROOT)}\n{sent}"
    outside = _OUTSIDE.findall(response.text)
    assert not outside, f"these lead out of the inbox: {outside}"
    html = response.text.replace(f'="{ROOT}/', '="/')
    html = html.replace(f"Holdfast {holdfast.__version__}", "Holdfast &lt;version&gt;")
    for one in runs.pending[:1]:
        html = html.replace(one.digest, "&lt;digest&gt;").replace(one.nonce, "&lt;nonce&gt;")
    text = text_of(_HASH.sub("&lt;hash&gt;", html), said.get("within", ["main"]))
    return text if response.status_code == 200 else f"status {response.status_code}\n{text}"


def page(written: str) -> str:
    """Return a file with the text that its pages have now."""
    head, *cases = written.split("\n=== ")
    rule, _, common = head.partition("\n---\n")[0].rstrip().partition("\n\n")
    if not cases:
        return f"{rule}\n\n{common}\n---\n{render(yaml.safe_load(common))}"
    parts = [f"{rule}\n\n{common}".rstrip()]
    for case in cases:
        stated = case.partition("\n---\n")[0].rstrip()
        _, _, own = stated.partition("\n")
        said = yaml.safe_load(f"{common}\n{own}")
        parts.append(f"{stated}\n---\n{render(said)}".rstrip())
    return "\n\n=== ".join(parts) + "\n"
