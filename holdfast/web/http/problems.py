"""Refused requests, and problems (RFC 9457): the response to a program whose request fails.

    {"type": "urn:holdfast:problem:ended", "title": …, "status": 409, "code": "ended", "detail": …}

A `code` is for programs and never changes; `detail` is a sentence for people with what to do.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import JSONResponse

from holdfast.client import errors
from holdfast.client.diagnosis import StuckRunError
from holdfast.runtime.text_safety import as_sentence
from holdfast.schemas import names
from holdfast.schemas.base import Lenient
from holdfast.validation.problems import ValueProblem, format_place

MEDIA_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 5

# Each code with its status and its title.
CODES: Final[Mapping[str, tuple[int, str]]] = {
    "bad_request": (400, "The request cannot be read"),
    "unauthorized": (401, "The sender is not authenticated"),
    "forbidden": (403, "This is not permitted"),
    "principal_not_yours": (403, "A run would act for another principal"),
    "definition_not_taken": (403, "The request defines an agent or a tool"),
    "no_such_run": (404, "There is no such run"),
    "no_catalog": (404, "The inbox has no catalog"),
    "method_not_allowed": (405, "The method is not supported"),
    "too_slow": (408, "The request was not received in time"),
    "run_exists": (409, "There is a run with this id"),
    "ended": (409, "The run has ended"),
    "single_call": (409, "A single call receives no messages"),
    "no_such_call": (409, "No such call is pending"),
    "no_such_message": (409, "No such message is queued"),
    "already_decided": (409, "The call is decided already"),
    "no_answer": (409, "The run does not answer this message"),
    "too_large": (413, "The request is too large"),
    "wrong_type": (415, "The media type is not supported"),
    "misdirected": (421, "The inbox has another name"),
    "invalid_request": (422, "The request does not fit"),
    "invalid_decision": (422, "The decision is rejected"),
    "key_reused": (422, "The key was used for another request"),
    "failed": (500, "The inbox has failed"),
    "refused": (502, "Temporal or the run rejects the request"),
    "encrypted": (502, "The run cannot be read here"),
    "unavailable": (503, "It is not available now"),
    "no_worker": (503, "No worker answers"),
    "stuck": (503, "The worker cannot continue the run"),
    "no_temporal": (503, "Temporal does not answer"),
    "too_many_streams": (503, "Too many streams are open"),
}
# The codes of requests that are refused before the operation is known, by status: the first ones.
_REFUSED: Final = {status: code for code, (status, _) in reversed([*CODES.items()])}

logger = logging.getLogger("holdfast")


class NotPermittedError(errors.HoldfastError):
    """The sender does not have the right to do this."""

    def __init__(self, wrong: str) -> None:
        super().__init__(wrong, "ask the operator of the inbox for it", errors.WRONG_COMMAND)


class FaultView(Lenient):
    """One thing that is wrong with what was sent."""

    where: str
    """Its place, such as `budget.maxTurns`."""
    reason: str
    """What is wrong."""
    mend: str
    """What to do."""


class ProblemView(Lenient):
    """The reason for a refusal (RFC 9457)."""

    type: str
    """`urn:holdfast:problem:` and the code."""
    title: str
    """What it is in general."""
    status: int
    """The status of the answer."""
    code: str
    """What it is, for programs."""
    detail: str
    """What happened, and what to do."""
    faults: list[FaultView] = []
    """What is wrong with what was sent, each thing by itself."""


class HttpProblem(Exception):
    """A refused or failed request; `faults` are the invalid values."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        faults: Iterable[ValueProblem] = (),
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status, self.title = CODES[code]
        self.headers = dict(headers or {})
        if self.status == 503:
            self.headers.setdefault("Retry-After", str(RETRY_SECONDS))
        self.faults = list(faults)

    def to_json(self) -> dict[str, Any]:
        """Return the body."""
        return ProblemView(
            type=f"urn:holdfast:problem:{self.code}",
            title=self.title,
            status=self.status,
            code=self.code,
            detail=self.detail,
            faults=[
                FaultView(where=format_place(one.where), reason=one.reason, mend=one.fix)
                for one in self.faults
            ],
        ).to_json()

    def response(self) -> JSONResponse:
        return JSONResponse(self.to_json(), self.status, self.headers, MEDIA_TYPE)


# Each kind of error of the commands with its code; the others have one by their exit code.
_COMMAND_CODES: Final = {
    NotPermittedError: "forbidden",
    errors.EncryptedError: "encrypted",
    StuckRunError: "stuck",
    errors.NoWorkerError: "no_worker",
    errors.UnansweredUpdateError: "no_worker",
}
# What a run rejects, by its own code, and what to do where the run does not report it.
_REJECTIONS: Final = {
    names.NO_SUCH_CALL: ("no_such_call", "`GET /runs/{run}/approvals` lists the pending approvals"),
    names.INVALID_DECISION: ("invalid_decision", "`GET /runs/{run}/approvals` has the call"),
    names.ALREADY_DECIDED: ("already_decided", "nothing was changed"),
    names.NO_SUCH_MESSAGE: ("no_such_message", ""),
    names.INVALID_REQUEST: ("invalid_request", ""),
    names.INVALID_TOKEN: ("invalid_request", ""),
}
_EXIT_CODES: Final = {
    errors.UNREACHABLE: "no_temporal",
    errors.WRONG_COMMAND: "bad_request",
    errors.NO_SUCH: "no_such_run",
}


def problem_of(error: Exception) -> HttpProblem:
    """Return the problem for an error."""
    match error:
        case HttpProblem():
            return error
        case RefusedRequest():
            code = _REFUSED.get(error.status, "refused")
            return HttpProblem(code, as_sentence(error.sentence), headers=error.headers)
        case errors.HasEndedError():
            return HttpProblem("ended", "The run has ended; `GET /runs/{run}` has its result.")
        case errors.RejectedError():
            code, todo = _REJECTIONS.get(error.code, ("refused", "see the worker's log"))
            parts = filter(None, [error.reason.rstrip("."), todo])
            return HttpProblem(code, f"The run rejects the request: {'; '.join(parts)}.")
        case errors.InvalidFileError():
            return HttpProblem("invalid_request", f"The request does not fit: {error}.")
        case errors.HoldfastError():
            by_kind = (code for kind, code in _COMMAND_CODES.items() if isinstance(error, kind))
            code = next(by_kind, _EXIT_CODES.get(error.exit_code, "refused"))
            if code == "no_such_run":
                todo = "use the `run` that `POST /runs` answered, percent-encoded"
                return HttpProblem(code, f"There is no such run; {todo}.")
            return HttpProblem(code, as_sentence(str(error)))
    logger.error("a request failed", exc_info=error)
    return HttpProblem("failed", "The inbox failed to process the request; see its log.")


class RefusedRequest(Exception):
    """A refused request: the HTTP status, and one sentence for the sender."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


def unauthorized(sentence: str) -> RefusedRequest:
    return RefusedRequest(401, sentence, {"WWW-Authenticate": "Bearer"})


def forbidden(sentence: str) -> RefusedRequest:
    return RefusedRequest(403, sentence)
