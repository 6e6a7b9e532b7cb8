"""The handlers for runs: their start, state, log, events, decisions and messages.

`POST /runs` and `POST /calls` start a run or a single call in the name of the caller. Unless the
settings allow more, a run acts for the caller with the caller's scopes, and names an agent of the
worker: a definition in the request could switch approvals off. A caller with access to Temporal
itself has no such limits.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from holdfast.client import start
from holdfast.client.errors import HasEndedError, HoldfastError, RejectedError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.stream.heartbeats import new_failure_lines
from holdfast.client.stream.run_feed import Frame, RunFeed
from holdfast.client.stream.text_reader import StreamCursor
from holdfast.runtime.text_safety import as_json, as_sentence, one_line
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision
from holdfast.schemas.message import Withdrawal
from holdfast.schemas.run import AnyPrincipal, Principal, PrincipalToken, RunError
from holdfast.web.api import models
from holdfast.web.api.api_request import ApiRequest, read_number
from holdfast.web.auth.sessions import Person
from holdfast.web.call.loader import load_visible_call
from holdfast.web.http import streaming
from holdfast.web.http.problems import HttpProblem, NotPermittedError, problem_of
from holdfast.web.pages import address
from holdfast.web.services import Services

KEY_HEADER: Final = "Idempotency-Key"
MAX_KEY_CHARS: Final = 200
_OWN: Final = ("id", "taskQueue", "task_queue", "principal")


async def start_run(asked: ApiRequest) -> Response:
    """Start a run.

    Starts a run of an agent and answers at once. It acts for you, with the scopes that you hold,
    unless the inbox is set to take other principals. It may begin with a run that you may read.
    """
    new_run, written = await asked.read_json(models.NewRun, "run request")
    if lack := new_run.lack_of_input():
        raise HttpProblem("invalid_request", as_sentence(f"{lack}; write the task as `input`"))
    if not isinstance(new_run.agent, str):
        _check_definition("agent", asked.parts)
    if new_run.fork is not None:
        await asked.parts.require(asked.person, "read", new_run.fork.run)
    return await _start(asked, new_run, written)


async def start_call(asked: ApiRequest) -> Response:
    """Run one call.

    Runs one call of one tool, with no model, and with the same checks, approval and record as in a
    run. It is looked at, decided on and cancelled as a run is.
    """
    new_call, written = await asked.read_json(models.NewCall, "call request")
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
    said: models.NewRun | models.NewCall,
    written: dict[str, Any],
    own: dict[str, Any],
    run_id: str | None,
    memo: dict[str, Any],
) -> str:
    """Start the workflow of a request for a principal and return its id, if the sender may."""
    request, sent = asked.request, {name: written[name] for name in written if name not in _OWN}
    agent = said.agent if isinstance(said, models.NewRun) else None
    name = agent if agent is None or isinstance(agent, str) else agent.name
    if not asked.parts.permissions.may_start(asked.person, name, own.get("id")):
        raise NotPermittedError("your permissions do not include to start this")
    new = start.StartRequest.of(
        said,
        {**sent, "principal": own},
        started_by=f"`POST {request.url.path}` of the inbox",
        memo=memo,
        caller=start.trace_caller(
            {name: ",".join(request.headers.getlist(name)) for name in start.FIELDS}
        ),
    )
    agents = HoldfastClient(asked.parts.client.temporal, said.task_queue)
    return (await agents.start_request(new, run_id)).id


async def _start(
    asked: ApiRequest, said: models.NewRun | models.NewCall, written: dict[str, Any]
) -> Response:
    """Start the workflow of a request; a repeated request with the same key starts none."""
    request, person = asked.request, asked.person
    own = principal_of(said.principal, person, any_principal=asked.parts.programs.principals)
    named = said.id or start.run_of_token(own)
    if named is not None and names.RESERVED_ID.fullmatch(named):
        text = "An `id` of this form is reserved; choose another."
        raise HttpProblem("invalid_request", text)
    if named is not None and asked.parts.permissions.query(person) != "":
        # A refusal of ids that are in use would show them the runs of others.
        todo = f"leave it out; `{KEY_HEADER}` makes a request safe to repeat"
        what = "choose an `id`, nor a token's `jti`"
        raise NotPermittedError(f"your permissions do not include to {what}: {todo}")
    key, run_id, memo = request.headers.get(KEY_HEADER), named, {}
    if key is not None:
        if not re.fullmatch(rf"[!-~]{{1,{MAX_KEY_CHARS}}}", key):
            todo = f"write 1 to {MAX_KEY_CHARS} characters of ASCII, without spaces"
            raise HttpProblem("bad_request", f"`{KEY_HEADER}` is no key; {todo}.")
        # Of a request with large files, this takes a second.
        whole = [request.url.path, key, person.name, written]
        memo[start.REQUEST_MEMO] = await asyncio.to_thread(lambda: sha256(canonical_json(whole)))
        run_id = run_id or names.derived_id("http", sha256(canonical_json([person.name, key])))
    try:
        run_id = await begin(asked, said, written, own, run_id, memo)
    except start.RunExistsError:
        if named is None:
            todo = "send another key, or the same request"
            raise HttpProblem(
                "key_reused", f"This `{KEY_HEADER}` was sent with another request; {todo}."
            ) from None
        raise HttpProblem(
            "run_exists", "There is a run with this id; choose another `id`."
        ) from None
    headers = {"Location": address("runs", run_id)}
    return JSONResponse(models.Started(run=run_id).to_json(), 201, headers)


MAX_STREAMS: Final = 200
# A program may follow the runs of many people.
MAX_STREAMS_OF_ONE: Final = 100
STREAM_LIMIT: Final = streaming.StreamLimit(MAX_STREAMS, MAX_STREAMS_OF_ONE)
_REMARK_CHARS: Final = 500

MAX_WAIT_SECONDS: Final = 60
MAX_LIMIT: Final = 1_000
DEFAULT_LIMIT: Final = 100
MAX_NUMBER: Final = 10**9
_WAIT: Final = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,9})"?(?=$|[,;\s])', re.I)


async def show(asked: ApiRequest) -> Response:
    """See how a run stands.

    How the run stands; of one that has ended, its result or why it failed, also where no worker is
    there any more. A result that is kept in the worker's store is shown as the reference to it.
    """
    run = asked.parts.client.run(asked.run_id)
    look = await run.observe()
    if not look.closed:
        status = await run.status()
        waits = new_failure_lines(look.failing, {}) or None
        view = models.RunView.read({**status.to_json(), "run": run.id, "waits": waits})
    else:
        end = await run.ending(unread="not read here")
        error = RunError(code=end.code or end.status, message=end.message)
        view = models.RunView(
            run=run.id,
            status=end.status,
            result=end.result,
            error=error if end.result is None else None,
            spent=end.spent,
        )
    return JSONResponse(view.to_json())


async def context(asked: ApiRequest) -> Response:
    """Read a run's log.

    The log of a run, page by page: messages, calls, decisions and writes.
    """
    after = read_number(asked.request, "after", 0, 0, MAX_NUMBER)
    limit = read_number(asked.request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    entries = await (await asked.run()).page(names.CONTEXT, after, limit)
    next_ = entries[-1]["n"] if entries else after
    return JSONResponse({"entries": entries, "next": next_})


async def compare(asked: ApiRequest) -> Response:
    """Compare two runs.

    Their turns, calls, decisions, state and output, side by side. You need `read` on both.
    """
    other = asked.request.path_params["other"]
    found = await asked.parts.compare(asked.person, asked.run_id, other)
    return JSONResponse(found.to_json())


async def approvals(asked: ApiRequest) -> Response:
    """List the pending approvals.

    The calls of the run that wait for a decision, each with its digest.
    """
    run = await asked.run()  # a workflow that is no run may have a query of this name
    pending = await asked.parts.approvals(asked.access, run.id)
    return JSONResponse({"approvals": [one.to_json() for one in pending]})


async def decide(asked: ApiRequest) -> Response:
    """Decide on a pending approval.

    Your decision: `by` and `groups` are yours, whatever is sent; a `token` that a person has signed
    names its approver itself. Send the `digest` of what you decide on.
    """
    decision, _ = await asked.read_json(Decision, "decision")
    run, person = await asked.run(), asked.person
    if "read" not in asked.access.rights:  # raises if the approval is for others
        await load_visible_call(asked.parts, asked.access, run.id, decision.call_id)
    own: dict[str, Any] = {"by": person.name, "groups": list(person.groups)}
    if decision.on_behalf_of:
        own["on_behalf_of"] = []  # the inbox knows who is away
    meant = decision.model_copy(
        update=own if decision.token is None else {"by": None, "groups": []}
    )
    waiting = next((one for one in await run.approvals() if one.call_id == meant.call_id), None)
    if waiting is None:
        receipt = await run.decide(meant)  # raises the reason of a rejection
    else:
        receipt = await asked.parts.decide(run.id, waiting, meant)
    return JSONResponse(receipt.to_json())


async def claim(asked: ApiRequest) -> Response:
    """Claim a pending approval.

    Other approvers see that you look at it, and can still decide. It ends with your decision, with
    `giveBack`, and by itself after the `claimFor` of the inbox.
    """
    wanted, _ = await asked.read_json(models.NewClaim, "claim")
    run, call_id = await asked.run(), wanted.call_id
    if "read" not in asked.access.rights:  # raises if the approval is for others
        await load_visible_call(asked.parts, asked.access, run.id, call_id)
    await asked.parts.claim(asked.person, run.id, call_id, gives_back=wanted.give_back)
    return JSONResponse({"run": run.id})


async def say(asked: ApiRequest) -> Response:
    """Send a message to a run.

    A message to a running run. With `Prefer: wait=SECONDS`, a conversation's answer is waited for;
    where there is none in time, or it is no conversation, the run has the message all the same.
    """
    new_message, _ = await asked.read_json(models.NewMessage, "message")
    run = await asked.run(listens=True)
    wait = _WAIT.search(asked.request.headers.get("prefer", ""))
    wait_seconds = min(int(wait[1]), MAX_WAIT_SECONDS) if wait else 0
    try:
        with suppress(TimeoutError):
            if wait_seconds and new_message.audience == "model":
                answer = {"run": run.id, "answer": await run.send(new_message, wait_seconds)}
                return JSONResponse(answer, headers={"Preference-Applied": f"wait={wait_seconds}"})
            await run.post(new_message)
    except RejectedError as refusal:
        if refusal.code == names.NOT_A_CONVERSATION:
            await run.post(new_message)
        elif refusal.code in names.NO_ANSWER:
            raise HttpProblem("no_answer", f"There is no answer: {refusal.reason}.") from None
        elif refusal.code != names.CONTINUED:
            raise
    return _accepted(run)


async def withdraw(asked: ApiRequest) -> Response:
    """Take back a message.

    Takes back a message that the run has not read yet: `queued` lists those.
    """
    which, _ = await asked.read_json(Withdrawal, "message")
    run = await asked.run(listens=True)
    await run.withdraw(which.message)
    return JSONResponse(models.Started(run=run.id).to_json())


async def renew(asked: ApiRequest) -> Response:
    """Renew the principal's token.

    A new token of the same principal, with the run's id as `jti`. The calls that are pending
    because the token before it has expired (`principal_expired`) start.
    """
    token, _ = await asked.read_json(models.NewToken, "token")
    run = await asked.run()
    await run.renew(token.token)
    return JSONResponse(models.Started(run=run.id).to_json())


async def close(asked: ApiRequest) -> Response:
    """End a conversation.

    The conversation ends after its last answer.
    """
    run = await asked.run(listens=True)
    await run.close()
    return _accepted(run)


async def cancel(asked: ApiRequest) -> Response:
    """Cancel a run.

    The run ends as soon as it can: every open call gets its one result.
    """
    run = asked.parts.client.run(asked.run_id)
    if (await run.observe()).closed:
        raise HasEndedError(run.id)
    await run.cancel()
    return _accepted(run)


def _accepted(run: Run) -> Response:
    return JSONResponse(models.Started(run=run.id).to_json(), 202)


async def follow(asked: ApiRequest) -> Response:
    """Follow a run as it happens.

    Server-sent events: each numbered event of the run, and between them `token`, `tool_call_delta`
    and `tool_update`; last exactly one `done` or `error`, after which the stream ends. Continue
    after any frame by its id. Leaving does not touch the run.
    """
    headers, query = asked.request.headers, asked.request.query_params
    try:
        position = StreamCursor.read(headers.get("last-event-id") or query.get("after") or "0")
    except ValueError as error:
        raise HttpProblem("bad_request", f"`Last-Event-ID`: {error}.") from None
    run = asked.parts.client.run(asked.run_id)
    await run.share("description", run.describe)  # raises if the run does not exist
    if position.ended:
        return Response(status_code=204)  # the status by which a browser stops reconnecting
    if asked.request.method == "HEAD":
        return Response(media_type=streaming.MEDIA_TYPE, headers=streaming.HEADERS)
    return event_stream(asked, _written(RunFeed(run, position).frames()))


def event_stream(asked: ApiRequest, frames: AsyncGenerator[str, None]) -> streaming.EventStream:
    """Return a stream to the sender of a request, if not too many are open."""
    if STREAM_LIMIT.is_full(asked.person.name):
        raise HttpProblem("too_many_streams", "Too many streams are open here; try again.")
    return streaming.EventStream(STREAM_LIMIT, asked.person.name, frames)


async def _written(told: AsyncGenerator[Frame | str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(told):
        try:
            async for each in told:
                yield _text(each)
        except HoldfastError as error:
            # The client repeats the request, and then receives the error as a problem.
            yield _text(problem_of(error).detail)


def _text(each: Frame | str) -> str:
    if isinstance(each, str):
        return streaming.comment(one_line(each, _REMARK_CHARS))
    return streaming.frame(each.type, as_json(each.data), str(each.position))
