"""People who sign: their keys, and tokens as they make them."""

import base64
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt import api_jws
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm

from holdfast.schemas.settings.keys import AUDIENCES

# Many are made when tests are collected.
GOOD_FOR_SECONDS = 3_600
DIGEST = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
NONCE = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

# A tool that needs a signed approval.
SIGNED_PAY = {
    "_tool": "pay_out",
    "_activity": "pay",
    "_sideEffects": True,
    "_approval": {"signed": True},
    "properties": {"amount": {"type": "number"}},
}


@cache
def rsa_key(number: int, bits: int = 2_048) -> RSAPrivateKey:
    """The RSA key of that number, made once: that takes a while."""
    return generate_private_key(public_exponent=65_537, key_size=bits)


def ed25519_key(number: int) -> Ed25519PrivateKey:
    """The Ed25519 key of that number, always the same."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


@dataclass(frozen=True)
class Signer:
    """A person with a key and its id."""

    private: Any
    key_id: str | None = "k1"

    @property
    def algorithm(self) -> str:
        """What the key signs with."""
        return "RS256" if isinstance(self.private, RSAPrivateKey) else "EdDSA"

    def jwk(self, **more: Any) -> dict[str, Any]:
        """The public key, as a set has it."""
        made = RSAAlgorithm if self.algorithm == "RS256" else OKPAlgorithm
        said = {**made.to_jwk(self.private.public_key(), as_dict=True), "kid": self.key_id, **more}
        return {name: value for name, value in said.items() if value is not None}

    def pem(self) -> str:
        """The public key as PEM."""
        public = self.private.public_key()
        encoded = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        text: str = encoded.decode()
        return text

    def private_pem(self) -> str:
        """The private key as PEM."""
        encoded = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        text: str = encoded.decode()
        return text

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token with these claims beside those of a good decision; None leaves one out."""
        return self.signed(decision(**claims), header)

    def signed(self, claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
        """A token with these claims alone."""
        kid = {} if self.key_id is None else {"kid": self.key_id}
        payload = json.dumps(claims, separators=(",", ":")).encode()
        return api_jws.encode(payload, self.private, self.algorithm, {**kid, **(header or {})})

    def raw(self, header: bytes, payload: bytes) -> str:
        """Any two texts, signed."""
        said = f"{base64url(header)}.{base64url(payload)}"
        made = RSAAlgorithm(RSAAlgorithm.SHA256) if self.algorithm == "RS256" else OKPAlgorithm()
        return f"{said}.{base64url(made.sign(said.encode(), self.private))}"


def decision(**claims: Any) -> dict[str, Any]:
    """The claims of a good decision, with these; None leaves one out."""
    now = int(time.time())
    good: dict[str, Any] = {"sub": "ada", "digest": DIGEST, "nonce": NONCE, "workflowId": "order-7"}
    good |= {"aud": AUDIENCES["decisions"], "exp": now + GOOD_FOR_SECONDS, "iat": now}
    return {name: value for name, value in (good | claims).items() if value is not None}


def jwks(*signers: Signer) -> str:
    """Their public keys, as a set in JSON."""
    return json.dumps({"keys": [signer.jwk() for signer in signers]})


def base64url(data: bytes) -> str:
    """As tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


ADA = Signer(ed25519_key(1))
BOB = Signer(ed25519_key(2), "k2")
EVE = Signer(ed25519_key(3))  # with the id of Ada's key


def rsa(key_id: str | None = "r1", number: int = 0) -> Signer:
    """A person with an RSA key."""
    return Signer(rsa_key(number), key_id)


class Approver:
    """A new key, by its id."""

    def __init__(self, key_id: str = "key-1") -> None:
        self.id = key_id
        self._signer = Signer(Ed25519PrivateKey.generate(), key_id)

    def public(self) -> dict[str, Any]:
        """The public key, as a JWK."""
        return self._signer.jwk(alg="EdDSA", use="sig")

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good for an hour, unless its claims differ."""
        return self._signer.signed({"exp": int(time.time()) + GOOD_FOR_SECONDS, **claims}, header)

    def principal(self, by: str = "ada", **claims: Any) -> str:
        """A token of a person on whose behalf a run acts, for one of a new id; see `run_of`."""
        run_id = f"run-{uuid.uuid4().hex[:12]}"
        return self.token(**{"sub": by, "aud": AUDIENCES["principals"], "jti": run_id, **claims})

    def program(self, by: str = "till", **claims: Any) -> str:
        """A token that a program sends to the inbox."""
        return self.token(**{"sub": by, "aud": AUDIENCES["inbox"], **claims})

    def on(self, run: str, waiting: dict[str, Any], by: str = "ann", **claims: Any) -> str:
        """A token on a pending approval. A token counts once: a number of its own keeps
        two of one second apart."""
        said = {"sub": by, "groups": [], "workflowId": run, "jti": uuid.uuid4().hex}
        said["aud"] = AUDIENCES["decisions"]
        said |= {name: waiting[name] for name in ("digest", "nonce")}
        return self.token(**{**said, **claims})


def run_of(principal: Any) -> str | None:
    """The id of the run that a principal's token is for, if it is one."""
    with suppress(jwt.InvalidTokenError, TypeError, KeyError):
        said = jwt.decode(principal["token"], options={"verify_signature": False})["jti"]
        return said if isinstance(said, str) else None
    return None


def write_keys(file: Path, *people: Approver) -> Path:
    """Write the key set of these people into a file, which a worker is given by `--keys`."""
    file.write_text(json.dumps({"keys": [person.public() for person in people]}))
    return file
