"""Arguments and their schemas as people read them: `€249.00` for 249.0, `Order id` for `order_id`.

A `Shape` is the part of a schema that people are shown: kinds of value, choices, parts, and hints.
A constraint without a control of a form is left to the run's validator, which checks a whole value.
A value is formatted only where that loses nothing; any other is shown as it is written, so each
formatted text is of exactly one value.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.runtime.narration import phrases
from holdfast.runtime.text_safety import as_json, format_argument, one_line, shorten
from holdfast.schemas.json_schema import target_of
from holdfast.schemas.reference import MARK
from holdfast.schemas.tool import loop_arguments
from holdfast.validation.formats import fits_format, format_words

_SAID_CHARS: Final = 200
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} entries"),
    ("maxItems", "at most {} entries"),
    ("pattern", "matching {}"),
    ("default", "default: {}"),
)
_OF_NUMBERS: Final = {key for key, _ in _BOUNDS[:5]}
MAX_REFERENCES: Final = 16
MAX_CHOICES: Final = 200
MAX_BRANCHES: Final = 10
# The limit for the schemas of one value: schemas that refer to each other can expand without end.
MAX_READ: Final = 20_000
_NAMES_A_READ: Final = 50
_LABEL_CHARS: Final = 120
# Annotations of a value for people, which do not apply to the parts of its schema.
_NOTES: Final = ("title", "description", "default", "examples")
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})
Rules = Mapping[str, Any]
# Larger numbers, and fractions with more digits, may not be exact.
_EXACT: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?")
_SYMBOLS: Final = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "INR": "₹"}
# The currencies by the digits of their minor units, where these are not two (ISO 4217).
_DIGITS: Final = {
    "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF": 0,
    "BHD IQD JOD KWD LYD OMR TND": 3,
    "CLF UYW": 4,
}
# An integer without bounds may well be an identifier, which has no groups of digits.
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


@dataclass(frozen=True)
class Shape:
    """A schema with its references resolved.

    `kinds` are the allowed types except null; none: any type. `choices` are the allowed values with
    their labels. One of `branches` applies.
    """

    rules: Rules
    kinds: tuple[str, ...] = ()
    nullable: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    branches: tuple["Shape", ...] = ()

    @property
    def title(self) -> str:
        """Return the title of the schema."""
        return one_line(str(self.rules.get("title") or ""), _LABEL_CHARS)

    def property_schema(self, key: str) -> Any:
        """Return the schema of a property."""
        properties = self.rules.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
        return self.rules.get("additionalProperties", True)

    def item_schema(self, index: int) -> Any:
        """Return the schema of an item."""
        prefix = self.rules.get("prefixItems")
        if isinstance(prefix, list) and index < len(prefix):
            return prefix[index]
        return self.rules.get("items", True)

    @property
    def properties(self) -> list[str]:
        """Return the names of its properties."""
        named = self.rules.get("properties")
        return list(named) if isinstance(named, Mapping) else []

    def requires(self, key: str) -> bool:
        """Report whether a property is required."""
        required = self.rules.get("required")
        return isinstance(required, list) and key in required

    @property
    def takes_properties(self) -> bool:
        """Report whether properties with any name may be added, as far as the schema shows it."""
        rule = self.rules.get("additionalProperties")
        unsaid = rule is None and not self.properties
        return isinstance(rule, Mapping) or rule is True or unsaid


class ShapeReader:
    """Reads the schemas of one form; references point into `root`.

    Beyond `MAX_READ`, a schema allows any value.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._room = MAX_READ

    def read(self, schema: Any, depth: int = 0) -> Shape:
        """Return the shape of a schema; `depth` counts the references that led to it."""
        rules = self._whole(schema, depth)
        types = rules.get("type")
        types = [types] if isinstance(types, str) else types if isinstance(types, list) else []
        if not types and isinstance(rules.get("properties"), Mapping):
            types = ["object"]
        names = [kind for kind in types if isinstance(kind, str) and kind != "null"]
        kinds, nullable, values = tuple(dict.fromkeys(names)), "null" in types, rules.get("enum")
        choices: tuple[tuple[Any, str], ...] = ()
        if "const" in rules:
            title = one_line(str(rules.get("title") or ""), _LABEL_CHARS)
            choices = ((rules["const"], title or choice_label(rules["const"])),)
        elif isinstance(values, list) and len(values) <= MAX_CHOICES:
            choices = tuple((value, choice_label(value)) for value in values)
        if choices:
            nullable = nullable or any(value is None for value, _ in choices)
            choices = tuple(choice for choice in choices if choice[0] is not None)
            return Shape(rules, kinds, nullable, choices)
        if kinds == ("boolean",):
            return Shape(rules, kinds, nullable, ((True, "yes"), (False, "no")))
        return self._with_branches(Shape(rules, kinds, nullable), depth)

    def _whole(self, schema: Any, depth: int) -> Rules:
        """Return the schema merged with its reference and all of `allOf`."""
        if not isinstance(schema, Mapping) or depth >= MAX_REFERENCES or self._room <= 0:
            return {}
        rules = dict(schema)
        # Each reading iterates over the names of a schema.
        names = 0
        for key in ("properties", "required", "enum"):
            if isinstance(named := rules.get(key), dict | list):
                names += len(named)
        self._room -= 1 + names // _NAMES_A_READ
        reference, every = rules.get("$ref"), rules.pop("allOf", None)
        parts = every[:MAX_BRANCHES] if isinstance(every, list) else []
        if isinstance(reference, str):
            del rules["$ref"]
            parts = [target_of(reference, self.root), *parts]
        for part in parts:
            rules = _merged(rules, self._whole(part, depth + 1))
        return rules

    def _with_branches(self, shape: Shape, depth: int) -> Shape:
        """Read `anyOf` or `oneOf`, where a form can show more of it than JSON.

        They become one list of choices, one control for several kinds, or branches.
        """
        several = shape.rules.get("anyOf") or shape.rules.get("oneOf")
        if not isinstance(several, list) or depth >= MAX_REFERENCES or len(several) > MAX_BRANCHES:
            return shape
        base = {key: rule for key, rule in shape.rules.items() if key not in ("anyOf", "oneOf")}
        rest = {key: rule for key, rule in base.items() if key not in _NOTES}
        wholes = [self._whole(one, depth + 1) for one in several]
        others = [
            one for one in wholes if one.get("type") != "null" and one.get("const", 0) is not None
        ]
        nullable = shape.nullable or len(others) < len(wholes)
        branches = [self.read(_merged(whole, rest), depth + 1) for whole in others]
        if not all(one.kinds or one.choices or one.branches for one in branches):
            return Shape(base, shape.kinds, nullable)
        nullable = nullable or any(one.nullable for one in branches)
        if len(branches) == 1:
            [one] = branches
            return replace(one, rules=_merged(base, one.rules), nullable=nullable)
        choices = tuple(choice for one in branches for choice in one.choices)
        if branches and all(one.choices for one in branches) and len(choices) <= MAX_CHOICES:
            return Shape(base, nullable=nullable, choices=choices)
        if all(_SCALARS.issuperset(one.kinds) for one in branches):
            kinds = tuple(dict.fromkeys(kind for one in branches for kind in one.kinds))
            return Shape(base, kinds, nullable)
        return Shape(base, (), nullable, branches=tuple(branches))


def choice_label(value: Any) -> str:
    """Return the label of a choice."""
    plain = isinstance(value, str) and value.strip() == value and value
    return one_line(value if plain else as_json(value), _LABEL_CHARS)


def _merged(rules: Rules, more: Rules) -> dict[str, Any]:
    """Merge two schemas; keywords of the first win."""
    merged = {**more, **rules}
    for key in ("properties", "$defs"):
        if isinstance(more.get(key), Mapping) and isinstance(rules.get(key), Mapping):
            merged[key] = {**more[key], **rules[key]}
    if isinstance(more.get("required"), list) and isinstance(rules.get("required"), list):
        both = (*rules["required"], *more["required"])
        merged["required"] = [*dict.fromkeys(name for name in both if isinstance(name, str))]
    return merged


def describe_doubt(shape: Shape, value: Any) -> str:
    """Return a warning where a value does not look like its `format`, although it fits."""
    name = str(shape.rules.get("format"))
    if not isinstance(value, str) or MARK in value:
        return ""
    try:
        match name:
            case "email":
                fits = bool(re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", value))
            case "date-time":
                fits = "T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None
            case "uri":
                parts = urlsplit(value)
                is_whole = bool(parts.scheme and (parts.netloc or parts.path))
                fits = is_whole and not re.search(r"\s", value)
            case _:
                return ""
    except ValueError:
        fits = False
    return "" if fits else f"this does not look like {format_words(name)}."


def describe_limits(shape: Shape) -> list[str]:
    """Describe the constraints of a value, a few words each."""
    rules = shape.rules
    limits = [words] if (words := format_words(rules.get("format"))) else []
    if shape.kinds == ("integer",):
        limits.append("a whole number")
    if rules.get("format") == "money":
        unit = "minor units" if rules.get("minorUnits") is True else ""
        code = rules["currency"] if isinstance(rules.get("currency"), str) else ""
        if unit or code:
            limits.append("in " + " of ".join(filter(None, [unit, _said(code) if code else ""])))
    for key, words in _BOUNDS:
        if key in rules and rules[key] not in (None, "", [], {}):
            limits.append(words.format(_said(rules[key])))
    if rules.get("uniqueItems") is True:
        limits.append("unique entries")
    examples = rules.get("examples")
    if isinstance(examples, list) and examples:
        limits.append(f"for example {_said(examples[0])}")
    return limits


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(value if isinstance(value, str) and value else as_json(value), _SAID_CHARS)


def readable_name(name: str) -> str:
    """Return the title of a value without one: `Order id` for `order_id` and for `orderId`."""
    if not _NAME.fullmatch(name):
        return name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+", " ", name).split()
    title = " ".join(word if word.isupper() else word.lower() for word in words)
    return f"{title[:1].upper()}{title[1:]}"


def argument_name(name: str, limit_chars: int) -> str:
    """Return a readable name for a line of arguments, which it must not look like."""
    return one_line(as_json(name) if DOT.search(name) else readable_name(name), limit_chars)


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
    is_quantity = "number" in shape.kinds or not _OF_NUMBERS.isdisjoint(rules)
    if isinstance(value, int | float) and is_quantity and _EXACT.fullmatch(repr(value)):
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
    for name, value in arguments.items():
        shape = shapes.read(whole.property_schema(name))
        text = one_line(written := format_value(value, shape, arguments), most)
        # A text must not look like a further argument.
        is_unclear = DOT.search(text) or (part_of and text != written)
        text = shorten(as_json(value), most) if is_unclear else text
        title = shape.title or argument_name(name, _VALUE_CHARS)
        named = f"{title.removesuffix(' id')} {text}"
        if shape.rules.get("format") == "money":
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
    for name, value in arguments.items():
        part = {"title": "Item", "items": schema} if is_loop else whole.property_schema(name)
        shape, found = shapes.read(part), [("", value, part)]
        title = shape.title or one_line(readable_name(name), _LABEL_CHARS)
        if value and isinstance(value, list) and isinstance(value[0], Mapping | None):
            found = [(f" {n + 1}", one, shape.item_schema(n)) for n, one in enumerate(value)]
        for number, one, of_one in found:
            text = phrases.NOT_RUN if is_loop else format_value(one, shapes.read(of_one), arguments)
            if isinstance(one, Mapping):
                text = arguments_in_line(one, of_one, limit_chars + 1, shapes)
            rows.append((title + number, text[: limit_chars + 1]))
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

    def cells(item: Any) -> list[str] | None:
        if not isinstance(item, Mapping):
            return None
        return [
            format_value(item[name], shape, item) if name in item else ""
            for name, shape in columns.items()
        ]

    titles = [shape.title or readable_name(name) for name, shape in columns.items()]
    return ItemTable(titles, [cells(item) for item in items])


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
            amount, code = _exact_money(value, rules, arguments)
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
