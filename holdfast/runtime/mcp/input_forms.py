"""Read the forms of an MCP server: checked, cleaned, and without any that asks for a secret.

The protocol has flat forms of primitive values. A server that needs a password, a key or payment
data has to send the person to an address of its own instead: here, such a form is refused.
"""

import re
import unicodedata
from typing import Any, Final

from mcp_types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult

from holdfast.runtime.mcp.errors import NoResultError
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
_KINDS: Final = ("string", "number", "integer", "boolean", "array")
_TEXTS: Final = {"title": MAX_NAME_CHARACTERS, "description": MAX_MESSAGE_CHARACTERS}
_PARTS: Final = ("items", "oneOf", "anyOf")
_LIMITS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "format")
_KEYWORDS: Final = frozenset((*_TEXTS, *_PARTS, *_LIMITS, "type", "const", "enum", "default"))
# In plain characters, and without a user: what a person sees is where it leads.
_ADDRESS = re.compile(
    r"(?:https://(?P<host>[A-Za-z0-9.-]+)|http://(?P<local>localhost|127\.0\.0\.1))(:\d{1,5})?"
    r"([/?#][!#-&(-;=?-\[\]-_a-~]{0,2000})?"
)
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
# Letters of Cyrillic, Greek, Armenian and Latin, and digits, that look like Latin letters.
_LOOK_ALIKE = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаԁеһіјкӏмпорԛгѕтцսѵԝшхувснΑΒΕΗΙΚΜΝΟΡΤΥΧαβϲεηικνορτυχγωօհոɑɡıłøđħŧƙʀᴀʙᴄᴅ"
    "ᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꜱᴛᴜᴠᴡʏᴢ",
    "ABESIJKMHOPCTYXadehijklmnopqrstuuvwwxybchABEHIKMNOPTYXabcenikvoptuxywohnagilodhtkrabcd"
    "efghijklmnopstuvwyz",
)
_DIGITS = [str.maketrans("0345@$1", f"oeasas{one}") for one in "li"]
_WANTED = re.compile(
    r"\b(enter|provide|give|send|type|paste|tell|share|submit|supply|confirm|what is|need|input)\b"
)
_WARNED = re.compile(r"\b(never|not|don t|without|no)\b")


def read_forms(result: InputRequiredResult) -> McpInputRequired:
    """Return what a server requires.

    Raises:
        NoResultError: it is no form that is shown to people; the message is the reason.
    """
    if not result.input_requests:
        raise NoResultError("it requires the call repeatedly, without a form")
    bounds = f"at most {MAX_STATE_AND_FORMS_BYTES}, of which {MAX_FORMS_BYTES} the forms"
    # Before their words are checked, which keeps the worker from its other work.
    if (size := len(result.model_dump_json())) > MAX_STATE_AND_FORMS_BYTES:
        raise NoResultError(f"its forms and state have {size} bytes; {bounds}")
    forms = {}
    for key, request in result.input_requests.items():
        if not isinstance(request, ElicitRequest):
            raise NoResultError(f"it requires `{request.method}`, which is not supported")
        forms[key] = _form(request.params)
    required = McpInputRequired(state=result.request_state, forms=forms)
    size, forms_size = json_size(required.to_json()), json_size(required.schema_of_answer)
    if forms_size > MAX_FORMS_BYTES:
        raise NoResultError(f"its forms and state have {size} bytes; {bounds}")
    return required


def _form(params: Any) -> McpForm:
    message = one_line(params.message, MAX_MESSAGE_CHARACTERS)
    if isinstance(params, ElicitRequestURLParams):
        if (address := _ADDRESS.fullmatch(params.url)) is None:
            raise NoResultError("its address is not one of https, in plain characters")
        return McpForm(message=message, url=params.url, host=address["host"] or address["local"])
    if wants_secret(message):
        raise NoResultError(
            "its form requires a secret in its message; the server has to use an address"
        )
    written = params.requested_schema
    if not isinstance(properties := written.get("properties"), dict):
        raise NoResultError("its form has no fields")
    fields = {name: _field(name, each) for name, each in properties.items()}
    needed = [name for name in fields if name in (written.get("required") or [])]
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": needed}
    schema["additionalProperties"] = False
    if problems := schema_problems(schema):
        raise NoResultError(f"its form is no JSON Schema: {summarize_problems(problems)}")
    return McpForm(message=message, fields=schema)


def _field(name: str, written: Any) -> dict[str, Any]:
    """Return a field with the keywords that the protocol has, and cleaned texts."""
    shown = one_line(name, MAX_NAME_CHARACTERS)
    field: dict[str, Any] = _cleaned(written) if isinstance(written, dict) else {}
    kind = field.get("type")
    items: Any = field.get("items") if kind == "array" else {}
    is_nested = not isinstance(items, dict) or items.get("type", "string") != "string"
    if kind not in _KINDS or is_nested or visible(name) != name:
        raise NoResultError(f"field `{shown}` of its form is no text, number, choice, or yes or no")
    choices = field.keys() & {"enum", "oneOf"}
    texts = field.get("title", ""), field.get("description", "")
    if kind not in ("boolean", "array") and not choices and is_secret(name, *texts):
        raise NoResultError(f"field `{shown}` requires a secret; the server has to use an address")
    return field


def _cleaned(written: Any) -> Any:
    if isinstance(written, list):
        return [_cleaned(each) for each in written]
    if not isinstance(written, dict):
        return written
    return {
        key: one_line(str(value), _TEXTS[key])
        if key in _TEXTS
        else _cleaned(value)
        if key in _PARTS
        else value
        for key, value in written.items()
        if key in _KEYWORDS
    }


def is_secret(name: str, title: str = "", description: str = "") -> bool:
    """Return whether a field is for a password, a key, a token or payment data."""
    names = [*_spellings(name), *_spellings(title)]
    return any(_CLEAR.search(each) or _NAMED.search(each) for each in names) or wants_secret(
        description, needs_verb=False
    )


def wants_secret(text: str, *, needs_verb: bool = True) -> bool:
    """Return whether a sentence requests a secret: one that warns of it does not."""
    return any(
        _CLEAR.search(each)
        and not _WARNED.search(each)
        and (_WANTED.search(each) or not needs_verb)
        for spelling in _spellings(text)
        for each in spelling.split(".")
    )


def _spellings(text: str) -> list[str]:
    """Return a text's words in lower case, also of `cardNumber`, and in Latin for look-alikes."""
    folded = unicodedata.normalize("NFKC", text)
    letters = unicodedata.normalize("NFKD", folded).translate(_LOOK_ALIKE)
    latin = "".join(each for each in letters if not unicodedata.combining(each))
    return [
        " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^\w.]|_", " ", each).lower().split())
        for each in (folded, latin, *(latin.translate(digits) for digits in _DIGITS))
    ]
