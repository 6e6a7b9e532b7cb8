"""`POST /runs` and `POST /calls`: start a run or a single call in the name of the caller.

Unless the settings allow more, a run acts for the caller with the caller's scopes, and names an
agent of the worker: a definition in the request could switch approvals off. A caller with access
to Temporal itself has no such limits.
"""

import re
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.start import (
    FIELDS,
    REQUEST_MEMO,
    RunExistsError,
    StartRequest,
    run_of_token,
    trace_caller,
)
from holdfast.runtime.text_safety import as_sentence
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.run import AnyPrincipal, Principal, PrincipalToken
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.models import NewCall, NewRun, Started
from holdfast.web.auth.sessions import Person
from holdfast.web.http.problems import HttpProblem, NotPermittedError
from holdfast.web.pages import address
from holdfast.web.services import Services

KEY_HEADER: Final = "Idempotency-Key"
MAX_KEY_CHARS: Final = 200
# The runs of threads (`web.agui`) and of keys, which their senders alone may start.
DERIVED_ID: Final = re.compile(r"(agui|http|mcp)-[0-9a-f]{40}")
_OWN: Final = ("id", "taskQueue", "task_queue", "principal")


async def start_run(asked: ApiRequest) -> Response:
    """Start a run.

    Starts a run of an agent and answers at once. It acts for you, with the scopes that you hold,
    unless the inbox is set to take other principals.
    """
    new_run, written = await asked.read_json(NewRun, "run request")
    if lack := new_run.lack_of_input():
        raise HttpProblem("invalid_request", as_sentence(f"{lack}; write the task as `input`"))
    if not isinstance(new_run.agent, str):
        _check_definition("agent", asked.parts)
    return await _start(asked, new_run, written)


async def start_call(asked: ApiRequest) -> Response:
    """Run one call.

    Runs one call of one tool, with no model, and with the same checks, approval and record as in a
    run. It is looked at, decided on and cancelled as a run is.
    """
    new_call, written = await asked.read_json(NewCall, "call request")
    if not isinstance(new_call.tool, str):
        _check_definition("tool", asked.parts)
    return await _start(asked, new_call, written)


def principal_of(
    given: AnyPrincipal | None, person: Person, *, any_principal: bool
) -> dict[str, Any]:
    """Return the principal of a run that a person starts, if they may start one for it."""
    match given:
        case PrincipalToken():
            return given.to_json()  # the worker checks it
        case Principal() if any_principal:
            return given.to_json()
        case Principal(id=id, scopes=scopes):
            if id != person.name:
                todo = f"leave `principal` out, or name `{person.name}`"
                raise HttpProblem(
                    "principal_not_yours", f"The run would act for another principal; {todo}."
                )
            if more := sorted(set(scopes) - set(person.scopes)):
                todo = "leave them out, or send a token that has them"
                raise HttpProblem(
                    "principal_not_yours", f"You do not hold {', '.join(more)[:500]}; {todo}."
                )
            return given.to_json()
    return Principal(id=person.name, scopes=list(person.scopes)).to_json()


def _check_definition(what: str, parts: Services) -> None:
    if not parts.programs.definitions:
        todo = "name one of the worker's, or have `definitions` set in the inbox's `programs`"
        raise HttpProblem(
            "definition_not_taken", f"A request cannot define the {what} here; {todo}."
        )


async def begin(
    asked: ApiRequest,
    said: NewRun | NewCall,
    written: dict[str, Any],
    own: dict[str, Any],
    run_id: str | None,
    memo: dict[str, Any],
) -> str:
    """Start the workflow of a request for a principal and return its id, if the sender may."""
    request, sent = asked.request, {name: written[name] for name in written if name not in _OWN}
    agent = said.agent if isinstance(said, NewRun) else None
    name = agent if agent is None or isinstance(agent, str) else agent.name
    if not asked.parts.permissions.may_start(asked.person, name, own.get("id")):
        raise NotPermittedError("your permissions do not include to start this")
    new = StartRequest.of(
        said,
        {**sent, "principal": own},
        started_by=f"`POST {request.url.path}` of the inbox",
        memo=memo,
        caller=trace_caller({name: ",".join(request.headers.getlist(name)) for name in FIELDS}),
    )
    agents = HoldfastClient(asked.parts.client.temporal, said.task_queue)
    return (await agents.start_request(new, run_id)).id


async def _start(asked: ApiRequest, said: NewRun | NewCall, written: dict[str, Any]) -> Response:
    """Start the workflow of a request; a repeated request with the same key starts none."""
    request, person = asked.request, asked.person
    own = principal_of(said.principal, person, any_principal=asked.parts.programs.principals)
    named = said.id or run_of_token(own)
    if named is not None and DERIVED_ID.fullmatch(named):
        text = "An `id` of this form is a thread's or a key's; choose another."
        raise HttpProblem("invalid_request", text)
    if said.id not in (None, run_of_token(own)) and asked.parts.permissions.query(person) != "":
        # A refusal of ids that are in use would show them the runs of others.
        todo = f"leave `id` out; `{KEY_HEADER}` makes a request safe to repeat"
        raise NotPermittedError(f"your permissions do not include to choose an `id`: {todo}")
    key, run_id, memo = request.headers.get(KEY_HEADER), named, {}
    if key is not None:
        if not re.fullmatch(rf"[!-~]{{1,{MAX_KEY_CHARS}}}", key):
            todo = f"write 1 to {MAX_KEY_CHARS} characters of ASCII, without spaces"
            raise HttpProblem("bad_request", f"`{KEY_HEADER}` is no key; {todo}.")
        memo[REQUEST_MEMO] = sha256(canonical_json([request.url.path, key, person.name, written]))
        run_id = run_id or f"http-{sha256(canonical_json([person.name, key]))[:40]}"
    try:
        run_id = await begin(asked, said, written, own, run_id, memo)
    except RunExistsError:
        if named is None:
            todo = "send another key, or the same request"
            raise HttpProblem(
                "key_reused", f"This `{KEY_HEADER}` was sent with another request; {todo}."
            ) from None
        raise HttpProblem(
            "run_exists", "There is a run with this id; choose another `id`."
        ) from None
    headers = {"Location": address("runs", run_id)}
    return JSONResponse(Started(run=run_id).to_json(), 201, headers)
