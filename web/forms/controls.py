"""The control of a value that has no fields inside it, and what its text can mean.

What a control cannot hold exactly (a text with what cannot be seen, a line end of another kind) is
written as JSON, which can.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from holdfast.runtime.text_safety import as_json, clean
from holdfast.web.forms import control_names
from holdfast.web.forms.control_names import MISSING, Misread, pointer
from holdfast.web.forms.fields import MEANINGS, Button, Field, Option
from holdfast.web.forms.hints import format_hint
from holdfast.web.forms.schema_shape import Shape, said_as

# So much of a text can be seen in one line on a phone.
_LINE_CHARS: Final = 30
_SCHEMA_CHARS: Final = 4_000


def with_leaving_out(drawn: Field) -> Field:
    """Have what may be left out, or be null, offer it."""
    where = pointer(drawn.place)
    if not drawn.needed:
        drawn.buttons.append(Button(f"drop:{where}", "Leave out"))
    if drawn.shape.nullable:
        drawn.buttons.append(Button(f"null:{where}", "Make it nothing (null)"))
    return drawn


def absent(drawn: Field) -> Field:
    """An object or a list that is not there, and can be made."""
    drawn.control = "none"
    drawn.text = control_names.GONE if drawn.value is MISSING else control_names.NULL
    drawn.buttons = [Button(f"make:{pointer(drawn.place)}", f"Add {drawn.label}")]
    return drawn


def pick(drawn: Field) -> Field:
    """A value out of a list; the one that stands there now is in it, whether or not it fits."""
    drawn.control = "pick"
    here = None if drawn.value is MISSING else as_json(drawn.value)
    offered = [(as_json(value), label) for value, label in drawn.shape.choices]
    if drawn.shape.nullable:
        offered.append(("null", MEANINGS["null"]))
    if here is not None and here not in dict(offered):
        offered.append((here, f"{said_as(drawn.value)} (as it is)"))
    if not drawn.needed or here is None:
        offered.append(("", "(choose)" if drawn.needed else MEANINGS["gone"]))
    drawn.options = [Option(value, label, value == (here or "")) for value, label in offered]
    drawn.text = here or ""
    if len(drawn.options) == 1:
        drawn.control = "fixed"
    return drawn


def misread(drawn: Field, value: Misread) -> Field:
    """What could not be read, as it was typed."""
    drawn.wrong = [value.why] if value.why else []
    drawn.text = value.text
    if value.meant == "pick":
        drawn.value = MISSING
        return pick(drawn)
    drawn.control = "lines" if value.meant == "json" else "line"
    return _meant(drawn, value.meant)


def in_json(drawn: Field) -> Field:
    """Whatever it is, as JSON, with its schema beside it."""
    drawn.control = "lines"
    drawn.text = "" if drawn.value is MISSING else as_json(drawn.value, indent=2)
    drawn.schema = clean(as_json(dict(drawn.shape.rules), indent=2))[:_SCHEMA_CHARS]
    may_lack = drawn.value is MISSING or not drawn.needed
    drawn.meant = [Option("json/gone" if may_lack else "json", MEANINGS["json"], chosen=True)]
    return drawn


def scalar(drawn: Field) -> Field:
    """A text, a number, or what stands in place of one."""
    value = drawn.value
    now = _kind_of(value, drawn.shape)
    match now:
        case "text":
            drawn.text = value
        case "number" | "json":
            drawn.text = as_json(value)
    long = now == "json" or "\n" in drawn.text or len(drawn.text) > _LINE_CHARS
    drawn.control = "lines" if long else "line"
    wants_date = drawn.shape.rules.get("format") == "date"
    if wants_date and (not drawn.text or _is_date(drawn.text)):
        drawn.control = "date"
        # A browser shows a day as its reader writes one, which is not as it is written here.
        drawn.limits = [one for one in drawn.limits if one != format_hint("date")]
    return _meant(drawn, now)


def _meant(drawn: Field, now: str) -> Field:
    """What the text of a control can mean, and what else can be said in its place."""
    shape = drawn.shape
    written = [kind for kind in _written(shape) if kind != now]
    if now in ("text", "number", "json"):
        written.insert(0, now)
    unwritten = ["true", "false"] if "boolean" in shape.kinds else []
    unwritten += [now] if now in ("true", "false") and now not in unwritten else []
    unwritten += ["null"] if shape.nullable or now == "null" else []
    unwritten += ["gone"] if not drawn.needed or now == "gone" else []
    drawn.mode = _mode(shape)
    first = written[0] if written else "json"
    if len(written) <= 1 and len(unwritten) <= 1 and _says_by_nothing(first, unwritten, drawn):
        both = "/".join([first, *unwritten])
        drawn.meant = [Option(both, MEANINGS[first], chosen=True)]
        return drawn
    drawn.meant = [
        # Whoever writes something where nothing stood means what they have written.
        Option(
            f"{first}/{each}" if each == now and each in unwritten else each,
            MEANINGS[each],
            each == now,
        )
        for each in (*written, *unwritten)
    ]
    return drawn


def _says_by_nothing(first: str, unwritten: Sequence[str], drawn: Field) -> bool:
    """Whether an empty control can only mean that nothing is said."""
    if not unwritten:
        return True
    rules = drawn.shape.rules
    never_empty = bool(rules.get("minLength") or rules.get("format") or rules.get("pattern"))
    empty_now = drawn.value == "" and isinstance(drawn.value, str)
    fresh = drawn.value is MISSING and drawn.needed
    return unwritten[0] in ("null", "gone") and (
        first == "number" or fresh or (never_empty and not empty_now)
    )


def _written(shape: Shape) -> list[str]:
    """The kinds of value that are written as a text."""
    if not shape.kinds:
        return ["text", "json"]
    kinds = {"string": "text", "number": "number", "integer": "number", "boolean": ""}
    return [kind for kind in dict.fromkeys(kinds.get(one, "json") for one in shape.kinds) if kind]


def _kind_of(value: Any, shape: Shape) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # What cannot be seen, or a browser would change, is written out.
            return "text" if clean(value) == value else "json"
        case int() | float():
            return "number" if shape.kinds else "json"
        case None:
            return "null" if shape.kinds or shape.nullable else "json"
        case _:
            return "gone"


def _mode(shape: Shape) -> str:
    """The keyboard that a phone shows."""
    if set(shape.kinds) == {"integer"}:
        least = shape.rules.get("minimum")
        return "numeric" if isinstance(least, int) and least >= 0 else "text"
    if set(shape.kinds) == {"number"}:
        return "decimal"
    return {"email": "email", "uri": "url"}.get(str(shape.rules.get("format")), "text")


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
