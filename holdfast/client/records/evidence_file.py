r"""The file of a run's evidence: JSON lines in a chain of digests, and a signature of its end.

    {"digest": sha256(digest before + "\n" + record), "n": 1, "record": {…}}

A line has one spelling, canonical JSON, so that each changed byte is found in its own line. The
last record is the seal: a JWS over the digest before it, or none in an unsigned file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import jwt

from holdfast.client.signing import Signer
from holdfast.runtime.identity.public_keys import PublicKey
from holdfast.runtime.text_safety import name_in_line
from holdfast.schemas.base import canonical_json, sha256

AUDIENCE: Final = "holdfast:evidence"
SEAL: Final = "seal"
VERSION: Final = 1
_NAME_CHARS: Final = 200
# Evidence is read long after it was made, with the clock of another machine.
_AT_ANY_TIME: Final[Any] = {f"verify_{name}": False for name in ("exp", "iat", "nbf", "aud")}

Record = Mapping[str, Any]


class BrokenEvidenceError(Exception):
    """Evidence that was changed; the message has the line and what it holds."""


def write_lines(records: Iterable[Record], run_id: str, signer: Signer | None) -> Iterator[bytes]:
    """Yield the lines of a file with these records, and its seal."""
    digest, n = "", 0
    for n, record in enumerate(records, 1):
        line, digest = _line(n, record, digest)
        yield line
    token = None
    if signer is not None:
        token = signer.encode(_claims(run_id, n, digest), {"typ": "holdfast-evidence"})
    yield _line(n + 1, {"type": SEAL, "jws": token}, digest)[0]


def read_lines(lines: Iterable[bytes], keys: Sequence[PublicKey]) -> Iterator[Record]:
    """Yield the records of a file, each of them after its line is checked.

    Raises:
        BrokenEvidenceError: a line was changed, added or left out, or, if there are keys, a
            signature is by none of them.
    """
    digest, n, run_id, record = "", 0, "", dict[str, Any]()
    for n, line in enumerate(lines, 1):
        if record.get("type") == SEAL:
            raise BrokenEvidenceError(f"line {n}: it follows the seal, which is the last line")
        earlier, record, before = record, _record(line), digest
        expected, digest = _line(n, record, before)
        if line != expected:
            what = describe(record) if record else f"what follows {describe(earlier)}"
            wrong = f"line {n}: {what} was changed, or a line before it was left out"
            raise BrokenEvidenceError(wrong)
        if n == 1 and (record.get("type"), record.get("version")) != ("header", VERSION):
            raise BrokenEvidenceError(f"line 1: it is no header of version {VERSION}")
        run_id = record.get("run", "") if n == 1 else run_id
        token = record.get("jws") if record.get("type") == SEAL else None
        if record.get("type") == SEAL and record.keys() - {"type", "jws"}:
            raise BrokenEvidenceError(f"line {n}: the seal was changed")
        claims = _claims(run_id, n - 1, before)
        if keys and token is not None and signed_by(token, keys, claims) is None:
            raise BrokenEvidenceError(f"line {n}: none of the keys has signed these lines")
        yield record
    if record.get("type") != SEAL:
        raise BrokenEvidenceError(f"line {n + 1}: the seal is missing, which is the last line")


def signed_by(token: Any, keys: Sequence[PublicKey], claims: Record) -> PublicKey | None:
    """Return the key that signed a token with these claims, at any time."""
    for key in keys:
        with suppress(jwt.PyJWTError, ValueError):  # half of a surrogate pair
            found = jwt.decode(token, key.public, [key.algorithm], options=_AT_ANY_TIME)
            if claims.items() <= found.items():
                return key
    return None


def describe(record: Record) -> str:
    """Return what a record is: `the decision of grace on t3c1`."""
    entry = record.get("entry")
    shown = entry if isinstance(entry, dict) else record
    decided, call = shown.get("decided"), shown.get("callId")
    by = decided.get("by") if isinstance(decided, dict) else None
    named = (("the", shown.get("type", "beginning")), ("of", by), ("on", call))
    return " ".join(
        f"{word} {name_in_line(str(name), _NAME_CHARS)}" for word, name in named if name
    )


def _claims(run_id: str, lines: int, digest: str) -> dict[str, Any]:
    return {"aud": AUDIENCE, "run": run_id, "lines": lines, "digest": digest}


def _line(n: int, record: Record, before: str) -> tuple[bytes, str]:
    body = canonical_json(record)
    digest = sha256(before.encode() + b"\n" + body)
    return b'{"digest":"%s","n":%d,"record":%s}\n' % (digest.encode(), n, body), digest


def _record(line: bytes) -> dict[str, Any]:
    """Return the record of a line; empty if it cannot be read."""
    try:
        record = json.loads(line.decode("utf-8", "surrogatepass"))["record"]
        canonical_json(record)
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
