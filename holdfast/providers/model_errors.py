"""Maps errors of requests to models to application errors, in one place.

An error decides whether the request is retried, and when; its message has the fix, and who can
apply it. Errors are raised `from None`: their causes may quote secrets.
"""

import re
from datetime import UTC, datetime
from functools import partial

import httpx
from temporalio.exceptions import ApplicationError

from holdfast.providers import base
from holdfast.providers.transport.target import EndpointTarget
from holdfast.runtime.http_post import request_error, retry_delay
from holdfast.schemas.internal.solution import NO_USAGE, Usage
from holdfast.schemas.names import MODEL_ERROR

RETRIED_STATUS = (408, 409, 425, 429)
# Another server than a model's may answer for a moment; for longer, the address is wrong. And a
# server's internal error may mean that it can never do what the request needs.
MAX_DOUBTFUL_ATTEMPTS = 3
_DOUBTFUL_STATUS = (500, 501)
# Of a server that has not started to answer, Anthropic's and Cloudflare's of overload among them.
_NOT_PROCESSED = (501, 503, 529)
# Its window is small unless it is set.
_OLLAMA_WINDOW = "Raise `num_ctx` in the `options` of the agent's `model`"
# Of llama.cpp ("image input is not supported", "Jinja Exception: …"), LM Studio and others.
_INCAPABLE = (
    *("not support", "unsupported", "jinja", "chat template"),
    *("context size", "context length", "context window"),
    *("out of memory", "unable to allocate", "insufficient memory", "insufficient system"),
)
# Of accounts without credit, some with the status of a rate limit: codes of OpenAI, Kimi, one-api
# and LiteLLM, and words of these, DeepSeek, Z.AI, Anthropic, xAI, Hugging Face and DashScope; and
# Gemini's quota of nothing. Scaleway's limit of concurrent requests and Gemini's free quotas, which
# use like words, pass.
_NO_CREDIT = re.compile(
    r"\blimit: 0\b(?!\.\d)|^(?!.*(?:concurren|per.(?:second|minute)|retry in \d|/rate-limits)).*(?:"
    r"insufficient_(?:user_)?quota|exceeded_current_quota|billing_(?:hard_limit|not_active)"
    r"|budget_exceeded|budget has been exceeded|check your plan and billing|billing cycle"
    r"|(?:spend|spending|billing|billing hard|monthly usage) limit|(?:included|available) credits"
    r"|(?:insufficient|not enough|negative|\bno|out of)[\W_]++(?:\w{1,40} )?"
    r"(?:balance|credits?|funds)\b"
    r"|(?:balance|credits?) (?:is |are )?(?:insufficient|not enough|too low|exhausted|depleted)"
    r"|please (?:recharge|top up)|arrearage|overdue|余额不足|欠费)",
    re.IGNORECASE | re.DOTALL,
)
_NO_MEMORY = "requires more system memory"  # Of Ollama.


model_error = partial(request_error, MODEL_ERROR)


def is_doubtful(error: base.ProviderError | httpx.HTTPError) -> bool:
    """Report whether a retry may help, but may also fail again for ever."""
    match error:
        case base.NoCredentials():
            return error.is_missing
        case base.ProviderRefused():
            return _is_incapable(error)
    return isinstance(error, base.UnreadableAnswer | base.FailedAnswer)


def provider_error(
    error: base.ProviderError | httpx.HTTPError, target: EndpointTarget, model: str, doubtful: int
) -> ApplicationError:
    """Return the error of a request to the model `model` at `target`.

    `doubtful` of the attempts so far ended in a doubtful error, this one among them.
    """
    is_early = doubtful < MAX_DOUBTFUL_ATTEMPTS
    match error:
        case base.ProviderRefused() if error.status in RETRIED_STATUS or error.status >= 500:
            delay = retry_delay(error.headers, datetime.now(UTC))
            is_final = _has_no_credit(error) or _NO_MEMORY in error.message
            is_retried = not is_final and (is_early or not _is_incapable(error))
            message = rejection_message(error, target, model)
            return model_error(message, retried=is_retried, delay=delay)
        case base.Rejection():
            return model_error(rejection_message(error, target, model))
        case base.TruncatedAnswer():
            return model_error(f"{target.label}: {error}", retried=True)
        case base.NoCredentials():
            message = (
                f"{target.label}: {target.redact(error.reason)}. Check the worker's environment"
            )
            return model_error(message, retried=not error.is_missing or is_early)
        case base.FailedAnswer() | base.UnreadableAnswer():
            why = target.redact(str(error))
            fix = ". Check its `baseUrl` and `provider`" * isinstance(error, base.UnreadableAnswer)
            return model_error(f"{target.label}: {why}{fix}", retried=is_early)
        case base.ProviderError():
            return model_error(str(error))
        case _:
            detail = target.redact(str(error)) or type(error).__name__
            if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
                return model_error(f"a request to {target.label} is not possible: {detail}")
            message = "had a connection error"
            if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
                message = "cannot be reached"
            elif isinstance(error, httpx.ReadTimeout):
                message = f"sent nothing for {target.endpoint.timeout.total_seconds():g} s"
            return model_error(f"{target.label} {message}: {detail}", retried=True)


def rejection_message(error: base.Rejection, target: EndpointTarget, model: str) -> str:
    """Return what the provider answered, and what to do about it."""
    message = f"{target.label} answered {error.status}: {target.redact(error.message) or 'nothing'}"
    fix = _fix(error, target, model)
    return f"{message}. {fix}" if fix else message


def used_by(error: base.ProviderError | httpx.HTTPError) -> Usage:
    """Return what a failed request has used; nothing of it is known if its end is unknown.

    A gateway's error may hide an answer, and one within an answer follows a part of it.
    """
    match error:
        case base.FailedAnswer():
            return error.usage
        case base.Rejection(is_within_answer=True):
            return Usage()
        case base.Rejection() if error.status < 500 or error.status in _NOT_PROCESSED:
            return NO_USAGE
        case base.NoCredentials() | base.UnanswerableRequest() | httpx.ConnectError():
            return NO_USAGE
        case httpx.ConnectTimeout() | httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            return NO_USAGE
        case _:
            return Usage()


def _has_no_credit(error: base.ProviderRefused) -> bool:
    return _NO_CREDIT.search(f"{error.message}\n{error.texts}") is not None


def _is_incapable(error: base.ProviderRefused) -> bool:
    message = error.message.lower()
    return error.status in _DOUBTFUL_STATUS and any(word in message for word in _INCAPABLE)


def _fix(error: base.Rejection, target: EndpointTarget, model: str) -> str:
    if not isinstance(error, base.ProviderRefused):
        is_window = isinstance(error, base.ContextOverflow) and target.endpoint.provider == "ollama"
        return _OLLAMA_WINDOW if is_window else ""
    if _has_no_credit(error):
        return "Check the balance and the limits of the provider's account"
    if error.status in (400, 422) and re.search(r"\btemperature\b", error.texts):
        return "Change the `temperature` of the agent's `model`, or set it to null"
    # Google reports a bad key as a bad request.
    is_bad_key = error.status == 400 and "api key" in error.message.lower()
    match 401 if is_bad_key else error.status:
        case 401 | 403 if target.identity is not None:
            return f"Check what the worker's {target.identity.cloud} identity is permitted"
        case 401 | 403:
            variable = target.endpoint.api_key_env
            if variable is None:
                return "If it needs a key, name the variable that holds it in `apiKeyEnv`"
            return f"Check the key in the environment variable {variable} of the worker"
        case 404 if target.endpoint.provider == "ollama":
            # Ollama has not pulled it.
            return f"Pull it where Ollama runs (`ollama pull {model}`), or check the `baseUrl`"
        case 404:
            return f"Check the model's name, `{model}`, and the endpoint's `baseUrl`"
        case status if 300 <= status < 400:
            return "Check the endpoint's `baseUrl`: redirects are not followed"
    return ""
