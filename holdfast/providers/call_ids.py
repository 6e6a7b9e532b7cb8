"""Ids of calls as servers accept them.

An id goes back unchanged to the server that it came from. One from elsewhere, such as another model
of the agent's list, or the run's own where a server gave none, may not fit: then it is replaced by
one made of its digest, the same in each request.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple


class IdForm(NamedTuple):
    """The form of ids that a server requires: which fit, and how one is made of a digest."""

    fits: re.Pattern[str]
    prefix: str
    digits: int

    def fitted(self, number: str) -> str:
        """Return an id that fits, itself if it does."""
        if self.fits.fullmatch(number):
            return number
        digest = sha256(number.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.prefix}{digest[: self.digits]}"


# By their names in a request (`ProviderRequest.id_form`).
NINE: Final = IdForm(re.compile(r"[a-zA-Z0-9]{9}"), "", 9)  # Mistral
FORTY: Final = IdForm(re.compile(r".{1,40}", re.DOTALL), "call_", 32)  # OpenAI, chat completions
SIXTY_FOUR: Final = IdForm(re.compile(r".{1,64}", re.DOTALL), "call_", 32)  # OpenAI, responses

# The fields of encoded messages that hold the ids of calls.
_FIELDS = ("tool_call_id", "call_id")


def with_ids(message: dict[str, Any], form: IdForm) -> dict[str, Any]:
    """Return an encoded message, or an item of it, with ids that fit."""
    fitted: dict[str, Any] = {
        name: form.fitted(message[name]) for name in _FIELDS if name in message
    }
    if "tool_calls" in message:
        calls = message["tool_calls"]
        fitted["tool_calls"] = [{**call, "id": form.fitted(call["id"])} for call in calls]
    return {**message, **fitted}


def form_of_host(host: str, forms: Mapping[tuple[str, ...], IdForm]) -> IdForm | None:
    """Return the form that a vendor's host requires, if it is one of these."""
    return next((form for hosts, form in forms.items() if host.endswith(hosts)), None)
