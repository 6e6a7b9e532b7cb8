"""Arguments as a person reads them: `€249.00` for 249.0, `Order id` for `order_id`.

The schema names and describes the values. A value is formatted only where that loses nothing; any
other is shown as it is written, so each formatted text is of exactly one value.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from holdfast.runtime.narration.schema_shape import Shape, ShapeReader
from holdfast.runtime.text_safety import as_json, format_argument, one_line, shorten
from holdfast.schemas.reference import MARK
from holdfast.validation.formats import fits_format

# Larger numbers, and fractions with more digits, may not be exact.
_EXACT: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?")
_SYMBOLS: Final = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "INR": "₹"}
# The currencies by the digits of their minor units, where these are not two (ISO 4217).
_DIGITS: Final = {
    "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF": 0,
    "BHD IQD JOD KWD LYD OMR TND": 3,
    "CLF UYW": 4,
}
_BOUNDS: Final = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
# An integer without bounds may well be an identifier, which has no groups of digits.
_LEAST_GROUPED: Final = 10_000
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
# The separator of arguments, and what looks like it.
_DOT: Final = re.compile("[·\u0387\u1427\u16eb\u2022\u2027\u2219\u22c5\u2e31\u30fb\ua78f\uff65]")
_WORD: Final = re.compile(r"[\w@.+-]*")
_VALUE_CHARS: Final = 80
_EFFECT_CHARS: Final = 120


def readable_name(name: str) -> str:
    """Return the title of a value without one: `Order id` for `order_id` and for `orderId`."""
    if not _NAME.fullmatch(name):
        return name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+", " ", name).split()
    title = " ".join(word if word.isupper() else word.lower() for word in words)
    return f"{title[:1].upper()}{title[1:]}"


def format_value(value: Any, shape: Shape, siblings: Any = None) -> str:
    """Return a value for a person; `siblings` are the values beside it, by name."""
    text, rules = format_argument(value).rstrip("\n"), shape.rules
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and MARK in value:
        return text  # a reference: the value is not known yet
    if rules.get("format") == "money" and isinstance(value, str | int | float):
        return _money(value, rules, siblings) or text
    if isinstance(value, str):
        # A text that looks like a number is clearly a text where nothing else fits.
        is_plain = value.isascii() and value.isalnum() and shape.kinds == ("string",)
        return _date(value, rules.get("format")) or (value if is_plain else text)
    is_quantity = "number" in shape.kinds or not _BOUNDS.isdisjoint(rules)
    if isinstance(value, int | float) and is_quantity and _EXACT.fullmatch(repr(value)):
        return f"{Decimal(repr(value)):,}" if abs(value) >= _LEAST_GROUPED else text
    return text


def arguments_in_line(arguments: Mapping[str, Any], schema: Any, limit_chars: int) -> str:
    """Return arguments in one line, money first: `€249.00 · Order 1042 · Reason broken`."""
    shapes = ShapeReader(schema)
    whole, parts = shapes.read(schema), list[tuple[bool, str, str]]()
    for name, value in arguments.items():
        shape = shapes.read(whole.property_schema(name))
        text = one_line(format_value(value, shape, arguments), _VALUE_CHARS)
        # A text must not look like a further argument.
        text = shorten(as_json(value), _VALUE_CHARS) if _DOT.search(text) else text
        name = as_json(name) if _DOT.search(name) else readable_name(name)
        title = shape.title or one_line(name, _VALUE_CHARS)
        is_money = shape.rules.get("format") == "money"
        parts.append((not is_money, title.removesuffix(" id"), text))
    has_one = sum(not other for other, _, _ in parts) == 1
    ordered = sorted(parts, key=lambda part: part[0])
    texts = [text if has_one and not other else f"{name} {text}" for other, name, text in ordered]
    return shorten(" · ".join(texts), limit_chars)


def effect_text(template: str, arguments: Mapping[str, Any], schema: Any) -> str:
    """Return the effect of a call from its template: `refund of €249.00`.

    Empty where a value is missing or cannot be shown whole, and where all of it is too long.
    """
    names = effect_names(template)
    if not all(name in arguments and fits_in_line(arguments[name]) for name in names):
        return ""
    shapes = ShapeReader(schema)
    whole = shapes.read(schema)
    found = dict[str, str]()
    for name in names:
        value, shape = arguments[name], shapes.read(whole.property_schema(name))
        found[name] = text = format_value(value, shape, arguments)
        # Several words must not look like those of the template: `order 7 (€1.00)`.
        if isinstance(value, str) and not _WORD.fullmatch(value) and as_json(value) not in text:
            found[name] = text.replace(value, as_json(value))
    text = _PLACEHOLDER.sub(lambda one: found[one[1]], template)
    return text if len(text) <= _EFFECT_CHARS else ""


def fits_in_line(value: Any) -> bool:
    """Report whether a line shows all of a value: a number, or a short text that is known."""
    if isinstance(value, str):
        return one_line(value, _VALUE_CHARS) == value and MARK not in value
    return isinstance(value, int | float)


def effect_names(template: str | None) -> list[str]:
    """Return the names of the arguments that the template of an effect contains."""
    return _PLACEHOLDER.findall(template or "")


def money_amount(arguments: Mapping[str, Any], schema: Any) -> str:
    """Return the one amount of money in a call's arguments, `1200.00 EUR`; empty without one."""
    shapes = ShapeReader(schema)
    whole, found = shapes.read(schema), list[str]()
    for name, value in arguments.items():
        rules = shapes.read(whole.property_schema(name)).rules
        if rules.get("format") == "money" and isinstance(value, str | int | float):
            amount, code = _exact_money(value, rules, arguments)
            found.append("" if amount is None else f"{amount} {code}")
    return found[0] if len(found) == 1 else ""


def total_text(amounts: Iterable[str]) -> str:
    """Return the sum by currency of amounts as `money_amount` returns them: `€20.00 + $5.00`."""
    sums = dict[str, Decimal]()
    for value, _, code in (amount.partition(" ") for amount in amounts if amount):
        sums[code] = sums.get(code, Decimal()) + Decimal(value)
    return " + ".join(_money(f"{sums[code]}", {"currency": code}, None) for code in sums)


def _money(value: str | float, rules: Mapping[str, Any], siblings: Any) -> str:
    """Return an amount in its currency, raw where it has fractions of the minor unit."""
    amount, code = _exact_money(value, rules, siblings)
    if amount is None:
        written, is_minor = format_argument(value), rules.get("minorUnits") is True
        raw = f"{written} minor units of {code}" if is_minor else f"{code} {written}"
        return raw if code else ""
    return f"{'-' * (amount < 0)}{_SYMBOLS.get(code, f'{code} ')}{abs(amount):,f}"


def _exact_money(
    value: str | float, rules: Mapping[str, Any], siblings: Any
) -> tuple[Decimal | None, str]:
    """Return an amount in its currency and the code; None with fractions of the minor unit."""
    code, raw = rules.get("currency"), value if isinstance(value, str) else repr(value)
    if isinstance(code, Mapping):
        code = siblings.get(code.get("property")) if isinstance(siblings, Mapping) else None
    if not isinstance(code, str) or not re.fullmatch("[A-Za-z]{3}", code):
        return None, ""
    code, is_minor = code.upper(), rules.get("minorUnits") is True
    digits = next((count for codes, count in _DIGITS.items() if code in codes), 2)
    amount = Decimal(raw if _EXACT.fullmatch(raw) else "NaN").scaleb(-digits if is_minor else 0)
    is_exact = amount.is_finite() and amount == round(amount, digits)
    return round(amount, digits) if is_exact else None, code


def _date(text: str, name: Any) -> str:
    """Return a date, or a time with its zone, in words; empty where that would lose something."""
    if name not in ("date", "date-time") or not fits_format(name, text):
        return ""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return ""
    day = f"{at:%A}, {at.day} {at:%B} {at.year}"
    if name == "date":
        return day
    if at.microsecond or at.tzinfo is None:
        return ""
    clock = f"{at:%H:%M:%S}".removesuffix(":00")
    return f"{day}, {clock} {at:%Z}"
