"""Problems (RFC 9457): the response to a program whose request is refused or fails.

    {"type": "urn:holdfast:problem:ended", "title": …, "status": 409, "code": "ended", "detail": …}

A `code` is for programs and never changes; `detail` is a sentence for people with what to do.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import JSONResponse

from holdfast.client.command_errors import (
    NO_SUCH,
    UNREACHABLE,
    WRONG_COMMAND,
    CommandError,
    EncryptedError,
    HasEndedError,
    NoWorkerError,
)
from holdfast.client.diagnosis import StuckRunError
from holdfast.runtime.text_safety import as_sentence
from holdfast.validation.problems import ValueProblem, format_place
from holdfast.web.http.refused_request import RefusedRequest

MEDIA_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 5
_TYPE: Final = "urn:holdfast:problem:"

# Each code with its status and its title.
CODES: Final[Mapping[str, tuple[int, str]]] = {
    "bad_request": (400, "The request cannot be read"),
    "unauthorized": (401, "The sender is not authenticated"),
    "forbidden": (403, "This may not be done"),
    "principal_not_yours": (403, "A run would act for another principal"),
    "definition_not_taken": (403, "An agent or a tool is written out"),
    "no_such_run": (404, "There is no such run"),
    "method_not_allowed": (405, "That is not done here"),
    "too_slow": (408, "The request did not come in time"),
    "run_exists": (409, "There is a run with this id"),
    "ended": (409, "The run has ended"),
    "single_call": (409, "A single call hears nothing"),
    "no_such_call": (409, "No such call waits"),
    "already_decided": (409, "The call is decided"),
    "no_answer": (409, "The run does not answer this message"),
    "too_large": (413, "The request is too large"),
    "wrong_type": (415, "The request is of another type"),
    "misdirected": (421, "The inbox has another name"),
    "invalid_request": (422, "The request does not fit"),
    "invalid_decision": (422, "The decision is rejected"),
    "key_reused": (422, "The key was used for another request"),
    "failed": (500, "The inbox has failed"),
    "refused": (502, "Temporal or the run refuses"),
    "encrypted": (502, "The run cannot be read here"),
    "no_worker": (503, "No worker answers"),
    "stuck": (503, "Its worker cannot go on with the run"),
    "no_temporal": (503, "Temporal does not answer"),
    "too_many_streams": (503, "Too many streams are open"),
    "unavailable": (503, "That cannot be had just now"),
}
# The codes of requests that are refused before the operation is known, by status.
_REFUSED: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    408: "too_slow",
    413: "too_large",
    415: "wrong_type",
    421: "misdirected",
    503: "unavailable",
}

logger = logging.getLogger("holdfast")


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
        told: dict[str, Any] = {
            "type": f"{_TYPE}{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.faults:
            told["faults"] = [
                {"where": format_place(one.where), "reason": one.reason, "mend": one.fix}
                for one in self.faults
            ]
        return told

    def response(self) -> JSONResponse:
        """Return the response."""
        return JSONResponse(self.to_json(), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: Exception) -> HttpProblem:
    """Return the problem for an error."""
    match error:
        case HttpProblem():
            return error
        case RefusedRequest():
            code = _REFUSED.get(error.status, "refused")
            return HttpProblem(code, as_sentence(error.sentence), headers=error.headers)
        case CommandError():
            return _of_command(error)
    logger.error("a request failed", exc_info=error)
    return HttpProblem("failed", "The inbox has failed at this; its log says why.")


def _of_command(error: CommandError) -> HttpProblem:
    said = as_sentence(str(error))
    match error:
        case HasEndedError():
            return HttpProblem("ended", "The run has ended; `GET /runs/{run}` says how.")
        case EncryptedError():
            return HttpProblem("encrypted", said)
        case StuckRunError():
            return HttpProblem("stuck", said)
        case NoWorkerError():
            return HttpProblem("no_worker", said)
        case CommandError(code=code) if code == NO_SUCH:
            todo = "use the `run` that `POST /runs` answered, percent-encoded"
            return HttpProblem("no_such_run", f"There is no such run; {todo}.")
        case CommandError(code=code) if code == UNREACHABLE:
            return HttpProblem("no_temporal", said)
        case CommandError(code=code) if code == WRONG_COMMAND:
            return HttpProblem("bad_request", said)
    return HttpProblem("refused", said)
