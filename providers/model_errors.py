"""The one place where what went wrong with a request to a model becomes an application error.

It says whether the request is made again, and when; and in the message, whose turn it is and what
to do. Errors are raised `from None`: what lies under them may quote what must stay secret.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
from temporalio.exceptions import ApplicationError

from holdfast.providers.base import (
    ContextOverflow,
    ProviderError,
    ProviderRefused,
    TruncatedAnswer,
    UnreadableAnswer,
)
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.names import MODEL_ERROR

RETRIED_STATUS = (408, 409, 425, 429)
MAX_RETRY_DELAY = timedelta(hours=1)
# Something else than a model may answer for a moment; for longer, the address is wrong. And what a
# server calls a fault of its own may be that it cannot do what it is asked, which no time mends.
MAX_DOUBTFUL_ATTEMPTS = 3
_DOUBTFUL_STATUS = (500, 501)
# Its window is small unless it was set.
_OLLAMA_WINDOW = "Raise `num_ctx` in the `options` of the agent's `model`"
# Of llama.cpp ("image input is not supported", "Jinja Exception: …"), LM Studio and others.
_INCAPABLE = (
    *("not support", "unsupported", "jinja", "chat template"),
    *("context size", "context length", "context window"),
)


def model_error(
    message: str, *, retried: bool = False, delay: timedelta | None = None
) -> ApplicationError:
    """An error of type `model_error`, tried again (after `delay`) or not."""
    return ApplicationError(
        message, type=MODEL_ERROR, non_retryable=not retried, next_retry_delay=delay
    )


def is_doubtful(error: ProviderError | httpx.HTTPError) -> bool:
    """Whether asking again may be in vain, and yet may help."""
    return isinstance(error, UnreadableAnswer) or (
        isinstance(error, ProviderRefused) and _is_incapable(error)
    )


def provider_error(
    error: ProviderError | httpx.HTTPError, target: EndpointTarget, model: str, doubtful: int
) -> ApplicationError:
    """Why the model `model` at `target` gave no solution. `doubtful` of the attempts so far ended
    as one whose error is doubtful, this one among them."""
    match error:
        case ProviderRefused():
            return _refused(error, target, model, doubtful)
        case ContextOverflow():
            return model_error(overflow_message(error, target))
        case TruncatedAnswer():
            return model_error(f"{target.label}: {error}", retried=True)
        case UnreadableAnswer():
            said = (
                f"{target.label}: {target.redact(str(error))}. Check its `baseUrl` and `provider`"
            )
            return model_error(said, retried=doubtful < MAX_DOUBTFUL_ATTEMPTS)
        case ProviderError():
            return model_error(str(error))
        case _:
            return _broken(error, target)


def overflow_message(error: ContextOverflow, target: EndpointTarget) -> str:
    """What is said of a conversation that is too long for the model."""
    said = f"{target.label} answered {error.status}: {target.redact(error.message) or 'nothing'}"
    mend = _OLLAMA_WINDOW if target.endpoint.provider == "ollama" else ""
    return f"{said}. {mend}" if mend else said


def retry_delay(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """When the provider wants to be asked again, at most an hour from `now`; None: not said."""
    seconds = _number(headers.get("retry-after-ms"), 0.001)
    if seconds is None:
        seconds = _number(headers.get("retry-after"), 1)
    if seconds is None:
        seconds = _until(headers.get("retry-after"), now)
    if seconds is None or seconds <= 0:
        return None
    return timedelta(seconds=min(seconds, MAX_RETRY_DELAY.total_seconds()))


def _refused(
    error: ProviderRefused, target: EndpointTarget, model: str, doubtful: int
) -> ApplicationError:
    said = f"{target.label} answered {error.status}: {target.redact(error.message) or 'nothing'}"
    if error.status in RETRIED_STATUS or error.status >= 500:
        delay = retry_delay(error.headers, datetime.now(UTC))
        is_hopeless = _is_incapable(error) and doubtful >= MAX_DOUBTFUL_ATTEMPTS
        return model_error(said, retried=not is_hopeless, delay=delay)
    # Google says of a bad key that the request is a bad one.
    is_bad_key = error.status == 400 and "api key" in error.message.lower()
    status = 401 if is_bad_key else error.status
    mend = _ollama_mend(error, target, model) or _mend(status, target, model)
    return model_error(f"{said}. {mend}" if mend else said)


def _is_incapable(error: ProviderRefused) -> bool:
    message = error.message.lower()
    return error.status in _DOUBTFUL_STATUS and any(word in message for word in _INCAPABLE)


def _mend(status: int, target: EndpointTarget, model: str) -> str:
    match status:
        case 401 | 403:
            variable = target.endpoint.api_key_env
            if variable is None:
                return "If it needs a key, name the variable that holds it in `apiKeyEnv`"
            return f"Check the key in the environment variable {variable} of the worker"
        case 404:
            return f"Check the model's name, `{model}`, and the endpoint's `baseUrl`"
        case _ if 300 <= status < 400:
            return "Check the endpoint's `baseUrl`: redirects are not followed"
        case _:
            return ""


def _ollama_mend(error: ProviderRefused, target: EndpointTarget, model: str) -> str:
    """What only Ollama can be asked to mend: it serves models that were pulled."""
    if target.endpoint.provider == "ollama" and error.status == 404:
        return f"Pull it where Ollama runs (`ollama pull {model}`), or check the `baseUrl`"
    return ""


def _broken(error: httpx.HTTPError, target: EndpointTarget) -> ApplicationError:
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError():
            said = "cannot be reached"
        case httpx.ReadTimeout():
            said = f"said nothing for {target.endpoint.timeout.total_seconds():g} s"
        case _:
            said = "broke the connection"
    detail = target.redact(str(error)) or type(error).__name__
    final = isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    if final:
        return model_error(f"{target.label} cannot be asked: {detail}")
    return model_error(f"{target.label} {said}: {detail}", retried=True)


def _number(text: str | None, unit_seconds: float) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number * unit_seconds if math.isfinite(number) else None


def _until(text: str | None, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - now).total_seconds()
