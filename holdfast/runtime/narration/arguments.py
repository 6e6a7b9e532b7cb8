"""Arguments as people read them: `€249.00` for 249.0, `Order id` for `order_id`.

A value is formatted only where that loses nothing; any other is shown as it is written, so each
formatted text is of exactly one value.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.schema_shapes import LABEL_CHARS, Shape, ShapeReader
from holdfast.runtime.text_safety import as_json, format_argument, one_line, shorten
from holdfast.schemas.reference import MARK
from holdfast.schemas.tool import loop_arguments
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
_LEAST_GROUPED: Final = 10_000
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
# The separator of arguments, and what looks like it.
DOT: Final = re.compile("[·\u0387\u1427\u16eb\u2022\u2027\u2219\u22c5\u2e31\u30fb\ua78f\uff65]")
_WORD: Final = re.compile(r"[\w@.+-]*")
_SUBJECT: Final = re.compile(r"^subject: *(\S.*)$", re.IGNORECASE | re.MULTILINE)
_HEAD_CHARS: Final = 2_000
_VALUE_CHARS: Final = 80
_EFFECT_CHARS: Final = 120


def readable_name(name: str) -> str:
    """Return the title of a value without one: `Order id` for `order_id` and for `orderId`."""
    if not _NAME.fullmatch(name):
        return exact_name(name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+", " ", name).split()
    title = " ".join(word if word.isupper() else word.lower() for word in words)
    return shorten(f"{title[:1].upper()}{title[1:]}", LABEL_CHARS)


def exact_name(name: str) -> str:
    """Return a name, as JSON where it would look like that of another value, or like several."""
    is_clear = one_line(name, LABEL_CHARS) == name and not DOT.search(name)
    return name if is_clear else shorten(as_json(name), LABEL_CHARS)


def labels_of(whole: Shape, names: Iterable[str], without: str = "") -> dict[str, str]:
    """Return the labels of the values of an object, without a suffix; each is of one name alone.

    The label of a property is its own title, not that of its type, or its readable name. Names in
    an object whose schema has other properties, or a schema for any, are data: shown exactly.
    """
    is_data = whole.properties or isinstance(whole.rules.get("additionalProperties"), Mapping)
    labels = {name: whole.title_of(name) or readable_name(name) for name in whole.properties}
    other = exact_name if is_data else readable_name
    labels |= {name: other(name) for name in names if name not in labels}
    return distinct_labels({name: text.removesuffix(without) for name, text in labels.items()})


def distinct_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of values by name, each with its name where another has the same."""
    uses = Counter(labels.values())
    named = {
        name: text + f" ({exact_name(name)})" * (uses[text] > 1) for name, text in labels.items()
    }
    uses = Counter(named.values())
    return {name: text if uses[text] == 1 else as_json(name) for name, text in named.items()}


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
        is_text = shape.kinds == ("string",) and not (shape.nullable and value == "null")
        if value in ("yes", "no") and not (is_text or shape.choices):
            return as_json(value)
        is_plain = value.isascii() and value.isalnum() and is_text
        return _date(value, rules.get("format")) or (value if is_plain else text)
    if isinstance(value, int | float) and shape.is_quantity and _EXACT.fullmatch(repr(value)):
        return f"{Decimal(repr(value)):,}" if abs(value) >= _LEAST_GROUPED else text
    return text


def arguments_in_line(
    arguments: Mapping[str, Any], schema: Any, limit_chars: int, part_of: ShapeReader | None = None
) -> str:
    """Return arguments in one line, money first: `€249.00 · Order 1042 · Reason broken`.

    Where the schema is `part_of` another, each text is of exactly one value.
    """
    shapes, most = part_of or ShapeReader(schema), limit_chars if part_of else _VALUE_CHARS
    whole, money, others = shapes.read(schema), list[tuple[str, str]](), list[str]()
    read = {name: shapes.read(whole.property_schema(name)) for name in arguments}
    labels = labels_of(whole, arguments, without=" id")
    for name, value in arguments.items():
        text = one_line(written := format_value(value, read[name], arguments), most)
        # A text must not look like a further argument.
        is_unclear = DOT.search(text) or (part_of and text != written)
        text = shorten(as_json(value), most) if is_unclear else text
        named = f"{labels[name]} {text}"
        if read[name].rules.get("format") == "money":
            money.append((named, text))
        else:
            others.append(named)
    amounts = [text if len(money) == 1 else named for named, text in money]
    return shorten(" · ".join([*amounts, *others]), limit_chars)


def argument_rows(arguments: Any, schema: Any, limit_chars: int) -> list[tuple[str, str]]:
    """Return arguments by title, as a page shows them; each text is of exactly one value.

    Each object of a list and each item of a loop is a row. A longer text has one character more
    than the limit.
    """
    shapes, rows = ShapeReader(schema), list[tuple[str, str]]()
    whole, is_loop = shapes.read(schema), loop_arguments(arguments) is not None
    parts = {
        name: {"items": schema} if is_loop else whole.property_schema(name) for name in arguments
    }
    read = {name: shapes.read(part) for name, part in parts.items()}
    titles = dict.fromkeys(arguments, "Item") if is_loop else labels_of(whole, arguments)
    for name, value in arguments.items():
        shape, found = read[name], [("", value, parts[name])]
        if value and isinstance(value, list) and isinstance(value[0], Mapping | None):
            found = [(f" {n + 1}", one, shape.item_schema(n)) for n, one in enumerate(value)]
        for number, one, of_one in found:
            text = phrases.NOT_RUN if is_loop else format_value(one, shapes.read(of_one), arguments)
            if isinstance(one, Mapping):
                text = arguments_in_line(one, of_one, limit_chars + 1, shapes)
            rows.append((titles[name] + number, text[: limit_chars + 1]))
    return rows


@dataclass(frozen=True)
class ItemTable:
    """The arguments of the items of a loop, by name: a row each, None where it does not run."""

    columns: list[str]
    rows: list[list[str] | None]


def item_table(arguments: Any, parameters: Any) -> ItemTable | None:
    """Return the arguments of a loop as a table, or None; each item has these `parameters`."""
    if (items := loop_arguments(arguments)) is None:
        return None
    shapes = ShapeReader(parameters)
    whole, found = shapes.read(parameters), [one for one in items if isinstance(one, Mapping)]
    used = dict.fromkeys(name for one in found for name in one)
    names = [name for name in dict.fromkeys((*whole.properties, *used)) if name in used]
    columns = {name: shapes.read(whole.property_schema(name)) for name in names}

    def cell(item: Any, name: str) -> str:
        return format_value(item[name], columns[name], item) if name in item else ""

    rows = [
        [cell(one, name) for name in names] if isinstance(one, Mapping) else None for one in items
    ]
    labels = labels_of(whole, names)
    return ItemTable([labels[name] for name in names], rows)


def effect_text(template: str, arguments: Mapping[str, Any], schema: Any) -> str:
    """Return the effect of a call from its template: `refund of €249.00`.

    Empty where a value is missing or cannot be shown whole, and where all of it is too long.
    """
    names = effect_names(template)
    if not all(name in arguments and fits_in_line(arguments[name]) for name in names):
        return ""
    shapes, found = ShapeReader(schema), dict[str, str]()
    whole = shapes.read(schema)
    for name in names:
        value, shape = arguments[name], shapes.read(whole.property_schema(name))
        found[name] = text = format_value(value, shape, arguments)
        # Several words must not look like those of the template: `order 7 (€1.00)`.
        if isinstance(value, str) and not _WORD.fullmatch(value) and as_json(value) not in text:
            found[name] = text.replace(value, as_json(value))
    text = _PLACEHOLDER.sub(lambda one: found[one[1]], template)
    return text if len(text) <= _EFFECT_CHARS else ""


def run_title(template: str | None, content: Any, schema: Any) -> str:
    """Return the title of a run from that of its agent and its input, which has this schema.

    `Refund of order 1042`, and with the subject of a text `Support: broken espresso machine`. Empty
    without a template, and where `effect_text` is.
    """
    values = content if isinstance(content, Mapping) else {}
    title = effect_text(template or "", values, schema)
    subject = subject_line(content) if title and isinstance(content, str) else ""
    return ": ".join(filter(None, [title, one_line(subject, _VALUE_CHARS)]))


def subject_line(text: str) -> str:
    """Return the subject of a text: its line `Subject: …`, or the first."""
    subject = _SUBJECT.search(text[:_HEAD_CHARS])
    return subject[1] if subject else text.strip().partition("\n")[0]


def fits_in_line(value: Any) -> bool:
    """Report whether a line shows all of a value: a number, or a short text that is known."""
    if isinstance(value, str):
        return one_line(value, _VALUE_CHARS) == value and MARK not in value
    return isinstance(value, int | float)


def effect_names(template: str | None) -> list[str]:
    """Return the names of the arguments that the template of an effect contains."""
    return _PLACEHOLDER.findall(template or "")


def money_amount(arguments: Mapping[str, Any], schema: Any) -> str:
    """Return the one amount of money in a call's arguments, `1200.00 EUR`; empty without one.

    Of a loop, it is the sum of its items, if each has one, in one currency.
    """
    if (items := loop_arguments(arguments)) is not None:
        amounts = [money_amount(one, schema).partition(" ") for one in items if one is not None]
        codes = {code for _, _, code in amounts}
        total = sum((Decimal(value or 0) for value, _, _ in amounts), Decimal())
        return f"{total} {codes.pop()}" if len(codes) == 1 and "" not in codes else ""
    shapes = ShapeReader(schema)
    whole, found = shapes.read(schema), list[str]()
    for name, value in arguments.items():
        rules = shapes.read(whole.property_schema(name)).rules
        if rules.get("format") == "money" and isinstance(value, str | int | float):
            amount, code = exact_money(value, rules, arguments)
            found.append("" if amount is None else f"{amount} {code}")
    return found[0] if len(found) == 1 else ""


def total_text(amounts: Iterable[str]) -> str:
    """Return the sum by currency of amounts as `money_amount` returns them: `€20.00 + $5.00`."""
    sums = dict[str, Decimal]()
    for value, _, code in (amount.partition(" ") for amount in amounts if amount):
        sums[code] = sums.get(code, Decimal()) + Decimal(value)
    return " + ".join(_money(f"{sums[code]}", {"currency": code}, None) for code in sums)


def cost_text(cost: float, currency: str | None) -> str:
    """Return what model requests cost: `$0.0123`, and `0.0123` where no currency is stated."""
    return f"{_SYMBOLS.get(currency, f'{currency} ') if currency else ''}{cost:,.4f}"


def _money(value: str | float, rules: Mapping[str, Any], siblings: Any) -> str:
    """Return an amount in its currency, raw where it has fractions of the minor unit."""
    amount, code = exact_money(value, rules, siblings)
    if amount is None:
        written, is_minor = format_argument(value), rules.get("minorUnits") is True
        raw = f"{written} minor units of {code}" if is_minor else f"{code} {written}"
        return raw if code else ""
    return f"{'-' * (amount < 0)}{_SYMBOLS.get(code, f'{code} ')}{abs(amount):,f}"


def exact_money(
    value: str | float, rules: Mapping[str, Any], siblings: Any = None
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
    if re.search(r"\.0*[1-9]", text) or at.tzinfo is None:
        return ""
    clock = f"{at:%H:%M:%S}".removesuffix(":00")
    return f"{day}, {clock} {at:%Z}"
