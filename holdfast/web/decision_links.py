"""Decide by a link in a message, without signing in.

    GET  /decide/{token}    the call, as it was shown in the message
    POST /decide/{token}    approve or deny it, in the name of the person in the token

The worker seals the token (`activities.notify.decision_links`). Only `POST` decides: programs that
fetch links change nothing. The run takes the id of a decision once, which is made from the token.
No response passes the address on: `Referrer-Policy` is `no-referrer`.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.runtime.decision_links import KIND, PATH
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.auth.sessions import Person
from holdfast.web.call.loader import OpenCall, find_similar_calls, load_call
from holdfast.web.call.view_model import build_call_page
from holdfast.web.http.problems import RefusedRequest, forbidden
from holdfast.web.http.request_body import read_form
from holdfast.web.listing.bulk import BulkOutcome, decide_shown
from holdfast.web.pages import page
from holdfast.web.services import Services

_ID_CHARS: Final = 40


class DecisionPages:
    """The pages of links that are sealed with a secret."""

    def __init__(self, parts: Services, secret: str) -> None:
        self._parts, self._seal = parts, TextSealer(secret)
        self.routes = [
            Route(f"{PATH}{{token}}", self.show, methods=["GET"]),
            Route(f"{PATH}{{token}}", self.decide, methods=["POST"]),
        ]

    def _open(self, request: Request) -> tuple[Person, SelectedCall]:
        opened = self._seal.open(KIND, request.path_params["token"])
        call = None if opened is None else SelectedCall.parse(opened.values["call"])
        if opened is None or call is None:
            raise forbidden("this link has expired, or is not complete; open the inbox")
        return Person(opened.values["by"], tuple(opened.values["groups"]), "message"), call

    async def show(self, request: Request) -> Response:
        """Show the call."""
        person, call = self._open(request)
        outcome = await decide_shown(self._parts, person, call, None)
        found = None if outcome.text else await load_call(self._parts, call.run, call.call)
        if not isinstance(found, OpenCall):
            return self._outcome(request, person, outcome)
        similar = await find_similar_calls(self._parts, found, person)
        values = build_call_page(found, person, signs=False)
        same = any(one.same_arguments for one in similar)
        return page(request, "call/link.html", call=values, you=person, same=same)

    async def decide(self, request: Request) -> Response:
        """Send the decision, and show its outcome."""
        (person, call), form = self._open(request), await read_form(request)
        verdict, reason = form.get("about"), str(form.get("reason") or "").strip()
        if verdict not in ("approve", "deny"):
            raise RefusedRequest(400, "the form has no decision; send it from its page")
        fields = {"decision": verdict, **({"reason": reason} if reason else {})}
        id = f"link-{sha256(request.path_params['token'].encode())[:_ID_CHARS]}"
        outcome = await decide_shown(self._parts, person, call, lambda _: fields, id)
        return self._outcome(request, person, outcome)

    def _outcome(self, request: Request, person: Person, outcome: BulkOutcome) -> Response:
        status = 200 if outcome.tone == "good" and outcome.text else 409
        return page(request, "call/link.html", status, call=None, you=person, outcome=outcome)
