"""The two base classes of every model, durations, JSON and its digests, and stored values.

`Strict` is for the input of a person or a model: an unknown field is reported as an error.
`Lenient` is for values from history: a newer worker may have added a field.
"""

import hashlib
import json
import re
from datetime import datetime, timedelta
from itertools import repeat
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SkipValidation,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"
_SOME_DURATION = r"^(?=.*[1-9])" + _DURATION.removeprefix("^")
# Far within what can be written: a value stands deeper in an entry, and deeper still in an answer.
MAX_JSON_DEPTH = 64


# What an editor checks a settings file with: it is no entry of the file.
SCHEMA_URI: JsonValue = {
    "type": "string",
    "description": "What an editor checks the file with; not read.",
}


class Lenient(BaseModel):
    """An object that the engine writes and reads back, perhaps with another version's fields."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore"
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the object itself, which does not change: a field's default is not copied."""
        return self

    @classmethod
    def read(cls, data: Any) -> Self:
        """Read the object, and every strict object inside it, without minding unknown fields."""
        return cls.model_validate(data, extra="ignore")

    def to_json(self) -> dict[str, Any]:
        """Return the object as others read it, in camelCase, without fields at their defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


# Of a dataclass whose fields change as a run works: a model looks up each name that is assigned to.
MUTABLE: Final = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class Explicit(Lenient):
    """An object that is written with all of its fields, also those at their defaults."""

    left_out_if_empty: ClassVar[tuple[str, ...]] = ()
    """The fields that are left out if they are empty."""

    def to_json(self) -> dict[str, Any]:
        empty = {name for name in self.left_out_if_empty if not getattr(self, name)}
        return self.model_dump(mode="json", by_alias=True, exclude=empty)


class Strict(Lenient):
    """An object that a person or a model writes.

    `use_attribute_docstrings` is set only where descriptions are shown: reading docstrings takes a
    program's start longer.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def over(self, defaults: "Strict") -> Self:
        """Return this object, with each unset field (None) taken from `defaults`."""
        own = self.__dict__.items()  # iterating over a model is a Python call for each field
        taken = {name: getattr(defaults, name, None) for name, value in own if value is None}
        return self.model_copy(update=taken)


def _publish_one_of(schema: dict[str, Any], model: type["OneOf"]) -> None:
    schema["oneOf"] = [{"required": [to_camel(name)]} for name in model.one_of]


class OneOf(Strict):
    """An object that has one of several fields, and no two of them."""

    model_config = ConfigDict(json_schema_extra=_publish_one_of)

    one_of: ClassVar[tuple[str, ...]]

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        found = [f"`{to_camel(name)}`" for name in self.one_of if getattr(self, name) is not None]
        if len(found) > 1:
            raise ValueError(f"{' and '.join(found)} exclude each other; keep one of them")
        if not found:
            names = " or ".join(f"`{to_camel(name)}`" for name in self.one_of)
            raise ValueError(f"{names} is missing; add one of them")
        return self


class SettingsFile(Strict):
    """A file that a person writes."""

    schema_uri: Annotated[str | None, Field(alias="$schema")] = None
    """What an editor checks the file with; not read."""


def _variable_name(value: Any) -> str:
    """Check a variable's name before other checks: their messages show the value, perhaps a key."""
    if isinstance(value, str) and re.fullmatch(VARIABLE_PATTERN, value):
        return value
    raise ValueError(
        "this names no environment variable; write the name of the one that holds it, never the"
        " value"
    )


Variable = Annotated[
    str, BeforeValidator(_variable_name), Field(json_schema_extra={"pattern": VARIABLE_PATTERN})
]
"""The name of an environment variable that holds a secret."""


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects stand inside each other more than `levels` times."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels <= 0 or any(map(is_deeper, inner, repeat(levels - 1)))


def _shallow(value: Any) -> Any:
    if is_deeper(value, MAX_JSON_DEPTH):
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
    return value


Shallow = AfterValidator(_shallow)
Json = Annotated[JsonValue, Shallow]
"""A JSON value that a person writes, of a depth that can be kept and shown."""
KnownJson = Annotated[JsonValue, SkipValidation]
"""A JSON value that the engine has made, or read: to check each node again costs a Python call."""


def parse_duration(value: Any) -> timedelta:
    """Read `"30s"`, `"24h"`, `"7d"` or `"1h30m"`.

    Raises:
        ValueError: the text is no duration, or none that Temporal can wait for.
    """
    if isinstance(value, timedelta):
        return value
    if not (isinstance(value, str) and len(value) <= 64 and re.fullmatch(_DURATION, value, re.A)):
        raise ValueError('a duration is a number and a unit: "500ms", "30s", "5m", "24h", "7d"')
    pairs = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in pairs)
    if not 0.001 <= seconds <= 3650 * 86400:
        raise ValueError("a duration is at least 1ms and at most 3650d")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Write a duration in the largest unit that holds it without a fraction."""
    milliseconds = round(value.total_seconds() * 1000)
    for unit in ("d", "h", "m", "s"):
        size = int(_SECONDS[unit] * 1000)
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _SOME_DURATION, "examples": ["30s", "24h", "7d"]}),
]


def rfc3339(moment: datetime) -> str:
    """Return a moment as RFC 3339, in UTC, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def readable_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def parsed_or_none(text: str) -> Any:
    """Return the value of a JSON text, or None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# Made once: with settings, `json.dumps` makes one for each value.
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no white space, UTF-8: equal values give equal bytes.

    Raises:
        ValueError: the value holds a NaN or an infinity, which JSON does not have.
    """
    return _CANONICAL.encode(value).encode("utf-8", "surrogatepass")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def link(previous: str, entry_digest: str) -> str:
    """Return the next link of a digest chain: it fixes an entry and everything before it."""
    return sha256(f"{previous}{entry_digest}".encode())


def json_size(value: Any) -> int:
    return len(_COMPACT.encode(value).encode("utf-8", "surrogatepass"))


_STORED = "_stored"
BEGINNING_CHARACTERS = 2_000


class Stored(Lenient):
    """A result that is kept outside of Temporal, in the worker's store, and is never read by a run.

    It is in a run as `{"_stored": {…}}`.
    """

    sha256: str
    """What it is kept under."""
    size_bytes: int
    """How large it is, as JSON."""
    beginning: str
    """Its first characters: of a text as it is, of all else as JSON."""

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the stored value that a value represents, where it represents one."""
        if not (isinstance(value, dict) and value.keys() == {_STORED}):
            return None
        try:
            return cls.read(value[_STORED])
        except ValidationError:
            return None

    def value(self) -> dict[str, Any]:
        return {_STORED: self.to_json()}
