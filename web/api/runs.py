"""The handlers for one run: its state, its log, decisions and messages."""

import re
from typing import Any, Final

from starlette.responses import JSONResponse, Response
from temporalio.exceptions import ApplicationError

from holdfast.client.command_errors import HasEndedError
from holdfast.client.run_handle import RunHandle
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.schemas.names import ErrorCode
from holdfast.web.api.api_request import ApiRequest, read_number
from holdfast.web.api.models import (
    Approvals,
    FailureResponse,
    LogPage,
    NewMessage,
    RunView,
    Started,
)
from holdfast.web.http.problems import HttpProblem
from holdfast.web.services import DecisionNotSent

MAX_WAIT_SECONDS: Final = 60
MAX_LIMIT: Final = 1_000
DEFAULT_LIMIT: Final = 100
MAX_NUMBER: Final = 10**9
_WAIT: Final = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,9})"?(?=$|[,;\s])', re.I)


async def show(asked: ApiRequest) -> Response:
    """Return the state of a run, or its ending."""
    run = asked.parts.run(asked.run_id)
    if not (await run.observe()).closed:
        status = await run.status()
        view = RunView.read({**status, "run": run.id})
    else:
        end = await run.ending(whole=False)
        failed = end.result is None
        view = RunView(
            run=run.id,
            status=end.status,
            result=end.result,
            error=FailureResponse(code=end.code or end.status, message=end.message)
            if failed
            else None,
            spent=end.spent,
        )
    return JSONResponse(view.to_json())


async def context(asked: ApiRequest) -> Response:
    """Return a page of a run's log."""
    after = read_number(asked.request, "after", 0, 0, MAX_NUMBER)
    limit = read_number(asked.request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    entries = await (await asked.run()).page(names.CONTEXT, after, limit)
    next_ = entries[-1]["n"] if entries else after
    return JSONResponse(LogPage(entries=entries, next=next_).to_json())


async def approvals(asked: ApiRequest) -> Response:
    """Return the pending approvals of a run."""
    return JSONResponse(
        Approvals(approvals=await (await asked.run()).pending_approvals()).to_json()
    )


async def decide(asked: ApiRequest) -> Response:
    """Decide on a pending approval in the name of the sender."""
    said, _ = await asked.read_json(Decision, "decision")
    run, meant = await asked.run(), _by_sender(said, asked)
    waiting = next(
        (one for one in await run.pending_approvals() if one.call_id == meant.call_id), None
    )
    try:
        if waiting is None:
            receipt = await run.decide(meant)  # raises the reason of a rejection
        else:
            _check_seen(meant, waiting)
            receipt = await asked.parts.decide(run.id, waiting, meant)
    except ApplicationError as refusal:
        raise _refused(refusal.type, refusal.message) from None
    except DecisionNotSent as refusal:
        raise _refused(refusal.code, str(refusal)) from None
    return JSONResponse(receipt.to_json())


async def say(asked: ApiRequest) -> Response:
    """Send a message to a run; return the answer of a conversation if `Prefer: wait` is set."""
    said, _ = await asked.read_json(NewMessage, "message")
    run = await asked.run(listens=True)
    message = {"role": "user", **said.to_json()}
    wait = _WAIT.search(asked.request.headers.get("prefer", ""))
    wait_seconds = min(int(wait[1]), MAX_WAIT_SECONDS) if wait else 0
    if not wait_seconds:
        await run.signal(names.MESSAGE, message)
    elif (answer := await _answered(run, message, wait_seconds)) is not None:
        return answer
    return _accepted(run)


async def close(asked: ApiRequest) -> Response:
    """Close a conversation after its last answer."""
    run = await asked.run(listens=True)
    await run.signal(names.CLOSE)
    return _accepted(run)


async def cancel(asked: ApiRequest) -> Response:
    """Cancel a run."""
    run = asked.parts.run(asked.run_id)
    if (await run.observe()).closed:
        raise HasEndedError(run.id)
    await run.cancel()
    return _accepted(run)


def _accepted(run: RunHandle) -> Response:
    return JSONResponse(Started(run=run.id).to_json(), 202)


def _by_sender(said: Decision, asked: ApiRequest) -> Decision:
    """Return the decision in the sender's name; a signed one has its own."""
    if said.token is not None:
        return said.model_copy(update={"by": None, "groups": []})
    person = asked.person
    return said.model_copy(update={"by": person.name, "groups": list(person.groups)})


def _check_seen(meant: Decision, waiting: PendingApproval) -> None:
    """Refuse to sign arguments that were edited since, unless the sender sends their digest."""
    changed = any(decided.decision == "edit" for decided in waiting.decisions)
    blind = meant.digest is None and meant.token is None and meant.decision == "approve"
    if waiting.signed and changed and blind:
        todo = "read it again, and send the `digest` of what you approve"
        raise HttpProblem(
            "invalid_decision", f"The arguments were changed since it was asked; {todo}."
        )


_REFUSALS: Final = {
    names.NO_SUCH_CALL: ("no_such_call", "`GET /runs/{run}/approvals` lists the pending approvals"),
    names.INVALID_DECISION: ("invalid_decision", "`GET /runs/{run}/approvals` has the call"),
    names.ALREADY_DECIDED: ("already_decided", "nothing was changed"),
}


def _refused(why: str | None, said: str) -> HttpProblem:
    code, todo = _REFUSALS.get(why or "", ("refused", "see the worker's log"))
    return HttpProblem(code, f"The run refuses: {said.rstrip('.')}; {todo}.")


async def _answered(run: RunHandle, message: dict[str, Any], wait_seconds: int) -> Response | None:
    """Return the response to a message: the answer, if it arrives in time.

    None: the run has the message, and its answer has not arrived.

    Raises:
        HttpProblem: there will be no answer.
    """
    try:
        answer = await run.send(message, wait_seconds)
    except TimeoutError:
        return None
    except ApplicationError as refusal:
        await _without_answer(run, message, refusal)
        return None
    headers = {"Preference-Applied": f"wait={wait_seconds}"}
    return JSONResponse({"run": run.id, "answer": answer}, headers=headers)


async def _without_answer(
    run: RunHandle, message: dict[str, Any], refusal: ApplicationError
) -> None:
    """Handle a message without an answer."""
    match refusal.type:
        case names.CONTINUED:
            return  # the run has the message; its answer will be in the log
        case names.NOT_A_CONVERSATION:
            await run.signal(names.MESSAGE, message)
        case names.INVALID_REQUEST:
            raise HttpProblem("invalid_request", f"The run refuses: {refusal.message}.") from None
        case ErrorCode.CANCELLED:
            raise HttpProblem("no_answer", f"There is no answer: {refusal.message}.") from None
        case _:
            raise HttpProblem("refused", f"The run refuses: {refusal.message}.") from None
