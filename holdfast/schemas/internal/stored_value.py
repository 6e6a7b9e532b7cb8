"""The value that represents a result too large for the run."""

from typing import Any, Self

from pydantic import ValidationError

from holdfast.schemas.base import Lenient

_KEY = "_stored"
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
        if not (isinstance(value, dict) and value.keys() == {_KEY}):
            return None
        try:
            return cls.read(value[_KEY])
        except ValidationError:
            return None

    def value(self) -> dict[str, Any]:
        """Return its representation in the run."""
        return {_KEY: self.to_json()}
