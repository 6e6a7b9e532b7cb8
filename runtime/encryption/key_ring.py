"""The keys of a worker or a command, all of them read at start from `encryption.yaml`.

The first key encrypts, every key decrypts. The file names the places of the keys: a key in the
file itself is rejected, and no message repeats a value that may be a key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.runtime.encryption.key import KEY_BYTES, AesKey, read_key
from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError, UnreadableError
from holdfast.runtime.settings_files.source import Source, load_source, read_text
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.settings.encryption import Encryption, EncryptionKey
from holdfast.validation.problems import ValueProblem, Where

MAX_KEY_FILE_BYTES = 1_000
_WRITTEN = f"write {KEY_BYTES} bytes in base64: openssl rand -base64 {KEY_BYTES}"
_ELSEWHERE = "name the variable (`env`) or the file (`file`) that holds the key"


class KeyRing:
    """A set of keys, the newest first."""

    def __init__(self, keys: Sequence[AesKey]) -> None:
        self.newest = keys[0]
        self._by_id = {key.id: key for key in keys}

    def __repr__(self) -> str:
        return f"KeyRing({list(self._by_id)})"

    @property
    def ids(self) -> list[str]:
        """Return the ids of the keys, the newest first."""
        return list(self._by_id)

    def find(self, id: str) -> AesKey | None:
        """Return the key of this id, or None."""
        return self._by_id.get(id)

    @classmethod
    def load(cls, file: Path, environ: Mapping[str, str]) -> "KeyRing":
        """Load the keys that a file names.

        Raises:
            LoadError: the file does not load, or a key is missing.
        """
        source = _source(file)
        entries = _checked(source).keys
        faults = list(_doubles(entries))
        keys = []
        for n, entry in enumerate(entries):
            try:
                keys.append(AesKey(entry.id, _secret(entry, ("keys", n), file.parent, environ)))
            except _WrongKeyError as error:
                faults.append(error.fault)
        if faults:
            raise LoadError(source.problems(faults))
        return cls(keys)


class _WrongKeyError(Exception):
    def __init__(self, where: Where, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.fault = ValueProblem(where, reason, fix)


def _source(file: Path) -> Source:
    if read_key(str(file)) is not None:
        fix = "name the file that says where the keys are kept"
        raise LoadError([FileProblem("the name of the file", None, "this is a key itself", fix)])
    return load_source(file)


def _checked(source: Source) -> Encryption:
    said = source.parse_as(Encryption, _hide_value)
    faults = [
        ValueProblem(("keys", n, name), "this is a key, or looks like one", _ELSEWHERE)
        for n, entry in enumerate(said.keys)
        for name, value in (("id", entry.id), ("env", entry.env), ("file", entry.file))
        if value is not None and read_key(value) is not None
    ]
    if faults:
        raise LoadError(source.problems(faults))
    return said


def _hide_value(fault: ValueProblem) -> ValueProblem:
    """Remove the value from a problem: it may be a key."""
    if fault.reason.startswith("unknown field") and fault.where[:1] == ("keys",):
        return replace(fault, fix=_ELSEWHERE)
    if fault.reason.endswith("does not fit"):
        return replace(fault, reason="the value does not fit")
    return fault


def _doubles(entries: Sequence[EncryptionKey]) -> Iterator[ValueProblem]:
    seen = set()
    for n, entry in enumerate(entries):
        if entry.id in seen:
            fix = "give each key an id of its own, and never give it to another"
            yield ValueProblem(
                ("keys", n, "id"), f"there is a key {quote_value(entry.id)} already", fix
            )
        seen.add(entry.id)


def _secret(entry: EncryptionKey, where: Where, folder: Path, environ: Mapping[str, str]) -> bytes:
    if entry.env is not None:
        place, text = (*where, "env"), environ.get(entry.env, "")
        if not text.strip():
            raise _WrongKeyError(place, f"the variable {entry.env} is not set", "set it to the key")
        what = f"what the variable {entry.env} holds"
    else:
        place, path = (*where, "file"), folder / (entry.file or "")
        text, what = _text(path, place), f"what {path} holds"
    secret = read_key(text)
    if secret is None:
        raise _WrongKeyError(place, f"{what} is no key", _WRITTEN)
    return secret


def _text(path: Path, place: Where) -> str:
    try:
        return read_text(path, MAX_KEY_FILE_BYTES)
    except UnreadableError as error:
        raise _WrongKeyError(place, f"{path}: {error.reason}", error.fix) from None
