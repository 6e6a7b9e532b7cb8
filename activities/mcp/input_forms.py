"""Read the forms of an MCP server: checked, cleaned, and without any that asks for a secret.

The protocol has flat forms of primitive values. A server that needs a password, a key or payment
data has to send the person to an address of its own instead: here, such a form is refused.
"""

import re
import unicodedata
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult

from holdfast.activities.mcp.connection import NoResultError
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.base import json_size
from holdfast.schemas.internal.mcp_input import McpForm, McpInputRequired
from holdfast.validation.problems import summarize_problems
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.text_safety import visible

MAX_STATE_AND_FORMS_BYTES: Final = 100_000
MAX_FORMS_BYTES: Final = 20_000
MAX_MESSAGE_CHARACTERS: Final = 2_000
MAX_NAME_CHARACTERS: Final = 120
# By type, the keywords of a field; `title`, `description`, `default` and choices are of all.
_KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
# Secrets, wherever their names are in a text; a few words after them name something else.
_CLEAR = re.compile(
    r"\b(pass ?(word|phrase|code)|passwd|pwd|passwort|kennwort|mot de passe|contraseña|senha"
    r"|(secret|private|access|api|auth\w*|ssh|encryption|signing|recovery|client) ?(key|secret)"
    r"|(access|api|auth\w*|bearer|refresh|session|security) ?token|pin (code|number)|your pin"
    r"|your (secret|token|credential)|otp|cvv2?|cvc2?|iban|(seed|recovery|secret) phrase"
    r"|card ?(number|no)|(credit|debit) ?card|bank account"
    r"|(security|one time|verification|recovery) (code|password))s?\b"
    r"(?! (count|limit|length|budget|policy|policies|types?|names?|id|manager|rotation|expiry))"
)
# Names and titles that are, or end in, a secret: `token count` and `issue key` do not.
_NAMED = re.compile(r"^((the|new|current|my) )?(keys?|pin)$|\b(secrets?|token|credentials?)$")
_WANTED = re.compile(
    r"\b(enter|provide|give|send|type|paste|tell|share|submit|supply|confirm|what is|need|input)\b"
)
_WARNED = re.compile(r"\b(never|not|don t|without|no)\b")


def read_forms(result: InputRequiredResult) -> McpInputRequired:
    """Return what a server requires.

    Raises:
        NoResultError: it is no form that is shown to people; the message says why.
    """
    if not result.input_requests:
        raise NoResultError("it requires the call again and again, without a form")
    forms = {}
    for key, request in result.input_requests.items():
        if not isinstance(request, ElicitRequest):
            raise NoResultError(f"it requires `{request.method}`, which is not supported")
        forms[key] = _form(request.params)
    required = McpInputRequired(state=result.request_state, forms=forms)
    size, forms_size = json_size(required.to_json()), json_size(required.schema_of_answer)
    if size > MAX_STATE_AND_FORMS_BYTES or forms_size > MAX_FORMS_BYTES:
        bounds = f"{MAX_STATE_AND_FORMS_BYTES}, of which {MAX_FORMS_BYTES} the forms"
        raise NoResultError(f"its forms and state have {size} bytes; at most {bounds}")
    return required


def _form(params: Any) -> McpForm:
    message = one_line(params.message, MAX_MESSAGE_CHARACTERS)
    if isinstance(params, ElicitRequestURLParams):
        return McpForm(message=message, url=params.url, host=_host(params.url))
    written = params.requested_schema
    properties, required = written.get("properties"), written.get("required") or []
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise NoResultError("its form has no fields")
    fields = {name: _field(name, each) for name, each in properties.items()}
    if wants_secret(message):
        raise NoResultError("its form asks for a secret in its message; it has to use an address")
    needed = [name for name in fields if name in required]
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": needed}
    schema["additionalProperties"] = False
    if problems := schema_problems(schema):
        raise NoResultError(f"its form is no JSON Schema: {summarize_problems(problems)}")
    return McpForm(message=message, fields=schema)


def _field(name: str, written: Any) -> dict[str, Any]:
    """Return a field with the keywords that the protocol has."""
    shown = one_line(name, MAX_NAME_CHARACTERS)
    kind = written.get("type") if isinstance(written, Mapping) else None
    if not isinstance(kind, str) or kind not in _KEYWORDS or visible(name) != name:
        raise NoResultError(f"field `{shown}` of its form is no text, number, choice, or yes or no")
    texts = {"title": MAX_NAME_CHARACTERS, "description": MAX_MESSAGE_CHARACTERS}
    field: dict[str, Any] = {
        "type": kind,
        **{key: one_line(str(written[key]), texts[key]) for key in texts if written.get(key)},
        **{key: written[key] for key in (*_KEYWORDS[kind], "default") if key in written},
    }
    choices = _choices(written, "oneOf") if kind == "string" else {}
    if kind == "array":
        choices = {"items": {"type": "string", **_choices(written.get("items"), "anyOf")}}
    is_open = kind in ("string", "number", "integer") and not choices
    if is_open and is_secret(name, field.get("title", ""), field.get("description", "")):
        raise NoResultError(
            f"field `{shown}` of its form asks for a secret; it has to use an address"
        )
    return {**field, **choices}


def _choices(written: Any, titled: str) -> dict[str, Any]:
    """Return the allowed values; those with titles are constants."""
    values = written.get("enum") if isinstance(written, Mapping) else None
    if isinstance(values, list) and isinstance(written.get("enumNames"), list):
        pairs = zip(values, written["enumNames"], strict=False)
        return {titled: [_constant(value, name) for value, name in pairs]}
    if isinstance(values, list):
        return {"enum": values}
    several = written.get(titled) if isinstance(written, Mapping) else None
    if not isinstance(several, list):
        return {}
    return {titled: [_constant(each.get("const"), each.get("title")) for each in several]}


def _constant(value: Any, title: Any) -> dict[str, Any]:
    return {"const": value, "title": one_line(str(title), MAX_NAME_CHARACTERS)}


def is_secret(name: str, title: str = "", description: str = "") -> bool:
    """Return whether a field is for a password, a key, a token or payment data."""
    names = [_plain(name), _plain(title)]
    return any(_CLEAR.search(each) or _NAMED.search(each) for each in names) or wants_secret(
        description, needs_verb=False
    )


def wants_secret(text: str, *, needs_verb: bool = True) -> bool:
    """Return whether a sentence wants a secret: one that warns of it does not."""
    return any(
        _CLEAR.search(each)
        and not _WARNED.search(each)
        and (_WANTED.search(each) or not needs_verb)
        for each in _plain(text).split(".")
    )


def _plain(text: str) -> str:
    """Return the words of a text in lower case, also of `cardNumber` and `card_number`."""
    folded = unicodedata.normalize("NFKC", text)
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^\w.]|_", " ", folded)
    return " ".join(apart.lower().split())


def _host(url: str) -> str:
    """Return the host of an address that a person may open.

    Raises:
        NoResultError: it is no such address.
    """
    problem = "the address of its form is not one of https, in plain characters, without a user"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_local = host == "localhost" or (host[:1].isdigit() and ip_address(host).is_loopback)
    except ValueError:
        raise NoResultError(problem) from None
    is_plain = re.fullmatch(r"[!-~]{1,2000}", url) and not re.search(r"[\\\"'<>`@]", url)
    if not (is_plain and host and parts.scheme in ("https", *(["http"] if is_local else []))):
        raise NoResultError(problem)
    return host
