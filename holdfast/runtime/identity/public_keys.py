"""Public keys, read from a JWK set (RFC 7517) or from PEM.

A key's type determines its algorithm: a token cannot choose another one. A secret key and a key
that is too short are rejected in both formats.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

from holdfast.runtime.settings_files.file_problems import LoadError, UnreadableError
from holdfast.runtime.settings_files.source import Source
from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import FixableError, ValueProblem, Where

MIN_RSA_BITS, MAX_RSA_BITS = 2_048, 8_192
# A token that does not name its key is verified with each of them.
MAX_KEYS = 30
MAX_KEY_ID_CHARACTERS = 500

Algorithm = Literal["EdDSA", "RS256"]
_ALGORITHMS: dict[str, Algorithm] = {"OKP": "EdDSA", "RSA": "RS256"}
_READERS: dict[Any, Any] = {"OKP": OKPAlgorithm.from_jwk, "RSA": RSAAlgorithm.from_jwk}
# The parameters that only the owner of a key may know.
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_TAKEN = "Ed25519 (kty `OKP`) and RSA are read"
_PEM = re.compile(r"^-----BEGIN ([A-Z0-9 ]{1,50})-----\n.*?^-----END \1-----[ \t]*$", re.M | re.S)
_BEGINNING = re.compile(r"^-----BEGIN ", re.M)


class PublicKeyError(FixableError):
    """An invalid key, or, if `is_unusable`, a valid key of a kind not used here."""

    def __init__(
        self, reason: str, fix: str, *, is_unusable: bool = False, field: str = ""
    ) -> None:
        super().__init__(reason, fix)
        self.is_unusable, self.field = is_unusable, field


@dataclass(frozen=True)
class PublicKey:
    """A public key; a key without an id is tried on every token of its algorithm."""

    id: str | None
    algorithm: Algorithm
    public: Ed25519PublicKey | RSAPublicKey


def parse_key_set(source: Source, *, skip_unusable: bool = False) -> tuple[PublicKey, ...]:
    """Parse a JWK set; a provider's may also hold keys for other uses, but not these alone.

    Raises:
        LoadError: the value is no set of keys, or a key is invalid or not usable.
    """
    listed = source.value.get("keys") if isinstance(source.value, dict) else None
    if not isinstance(listed, list):
        fix = 'write `{"keys": [...]}`, or name a file that is one'
        raise LoadError([source.problem(ValueProblem((), "this is no JWK set", fix))])
    if len(listed) > MAX_KEYS:
        reason, fix = f"{len(listed)} keys are too many", f"keep at most {MAX_KEYS}"
        raise LoadError([source.problem(ValueProblem(("keys",), reason, fix))])
    keys: list[PublicKey] = []
    faults: list[ValueProblem] = []
    odd: list[ValueProblem] = []
    for index, each in enumerate(listed):
        try:
            keys.append(_key(each))
        except PublicKeyError as error:
            field = (error.field,) if error.field else ()
            where: Where = ("keys", index, *field)
            reported = odd if error.is_unusable else faults
            reported.append(ValueProblem(where, error.reason, error.fix))
    if not listed:
        odd.append(ValueProblem(("keys",), "there is no key in it", "add one, of Ed25519 or RSA"))
    if not (keys and skip_unusable):
        faults += odd
    if faults:
        raise LoadError(source.problems(faults))
    return tuple(keys)


def is_pem(text: str) -> bool:
    """Return whether the text holds PEM, and not JSON or YAML."""
    return _BEGINNING.search(text) is not None


def parse_pem_keys(text: str) -> tuple[PublicKey, ...]:
    """Parse the keys of a PEM text; they have no ids.

    Raises:
        UnreadableError: the text holds a value that is not a supported public key.
    """
    blocks = list(_PEM.finditer(text))
    if len(blocks) != len(_BEGINNING.findall(text)):
        raise UnreadableError(1, "this PEM is incomplete", "copy it again, to its last line")
    if len(blocks) > MAX_KEYS:
        raise UnreadableError(1, f"{len(blocks)} keys are too many", f"keep at most {MAX_KEYS}")
    keys = []
    for block in blocks:
        line = text.count("\n", 0, block.start()) + 1
        kind = block.group(1)
        try:
            if "PRIVATE KEY" in kind:
                raise _private()
            if not kind.endswith("PUBLIC KEY"):
                fix = "write the public key itself (`-----BEGIN PUBLIC KEY-----`)"
                raise PublicKeyError(f"this is a {quote_value(kind)}, and no public key", fix)
            keys.append(_usable(None, load_pem_public_key(block.group().encode())))
        except PublicKeyError as error:
            raise UnreadableError(line, error.reason, error.fix) from None
        except (ValueError, UnsupportedAlgorithm):
            fix = "create the PEM file again"
            raise UnreadableError(line, "this is no public key", fix) from None
    return tuple(keys)


def _key(said: Any) -> PublicKey:
    if not isinstance(said, dict):
        raise PublicKeyError("a key is an object", 'write it as `{"kty": …}`')
    kind = said.get("kty")
    if kind == "oct":
        fix = "take it out, and have the signer use a key pair: Ed25519 or RSA"
        raise PublicKeyError("this is a shared secret (kty `oct`)", fix)
    if not _SECRET.isdisjoint(said):
        raise _private()
    _check_kind(said)
    key_id = said.get("kid")
    if key_id is not None and not (
        isinstance(key_id, str) and len(key_id) <= MAX_KEY_ID_CHARACTERS
    ):
        fix = f"write a text of at most {MAX_KEY_ID_CHARACTERS} characters"
        raise PublicKeyError("`kid` does not fit", fix, field="kid")
    try:
        return _usable(key_id, _READERS[kind](said))
    except (InvalidKeyError, ValueError, KeyError, TypeError, OverflowError):
        raise PublicKeyError(f"this is no {kind} key", "copy it again, whole") from None


def _check_kind(said: Mapping[str, Any]) -> None:
    kind = said.get("kty")
    if kind is None:
        raise PublicKeyError("`kty` is missing", f"add it: {_TAKEN}")
    if not isinstance(kind, str) or kind not in _ALGORITHMS:
        raise _odd("kty", kind, _TAKEN)
    if kind == "OKP" and said.get("crv") != "Ed25519":
        raise _odd("crv", said.get("crv"), "write `Ed25519`")
    if said.get("use", "sig") != "sig":
        raise _odd("use", said["use"], "only keys for signatures (`sig`) are read")
    wanted = _ALGORITHMS[kind]
    # RFC 9864 names the algorithm by its curve.
    fitting = (wanted, "Ed25519") if kind == "OKP" else (wanted,)
    if said.get("alg", wanted) not in fitting:
        raise _odd("alg", said["alg"], f"a key of kty `{kind}` is read for `{wanted}` alone")
    may = said.get("key_ops", ["verify"])
    if not isinstance(may, list) or "verify" not in may:
        raise _odd("key_ops", may, "a key is to be for `verify`")


def _usable(key_id: str | None, public: object) -> PublicKey:
    match public:
        case Ed25519PublicKey():
            return PublicKey(key_id, "EdDSA", public)
        case RSAPublicKey(key_size=bits):
            if MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
                return PublicKey(key_id, "RS256", public)
            fix = f"make one of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits"
            raise PublicKeyError(f"an RSA key of {bits} bits is not accepted", fix)
        case _:
            raise PublicKeyError("this is a key of another type", "make one of Ed25519 or RSA")


def _private() -> PublicKeyError:
    fix = "write its public key here; replace the key, since it is no longer secret"
    return PublicKeyError("this is a private key", fix)


def _odd(field: str, value: Any, fix: str) -> PublicKeyError:
    return PublicKeyError(
        f"`{field}` {quote_value(value)} is not read", fix, is_unusable=True, field=field
    )
