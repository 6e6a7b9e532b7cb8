"""Somebody who signs: a key of their own, the key set that a worker checks it with, and tokens."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

GOOD_FOR_SECONDS = 300


class Signer:
    """A key by its id."""

    def __init__(self, key_id: str = "key-1") -> None:
        self.id = key_id
        self._key = Ed25519PrivateKey.generate()

    def public(self) -> dict[str, Any]:
        """The public key, as a JWK."""
        jwk = json.loads(OKPAlgorithm.to_jwk(self._key.public_key()))
        return {**jwk, "kid": self.id, "alg": "EdDSA", "use": "sig"}

    def token(self, **claims: Any) -> str:
        """A token that is good for some minutes, unless it says otherwise."""
        said = {"exp": int(time.time()) + GOOD_FOR_SECONDS, **claims}
        return jwt.encode(said, self._key, algorithm="EdDSA", headers={"kid": self.id})

    def on(self, run: str, waiting: dict[str, Any], by: str = "ann", **claims: Any) -> str:
        """A token on a waiting call, as it is shown."""
        said = {"sub": by, "groups": [], "digest": waiting["digest"], "workflowId": run}
        return self.token(**{**said, **claims})


def write_keys(file: Path, *signers: Signer) -> Path:
    """Write the key set of these people into a file, which a worker is given by `--keys`."""
    file.write_text(json.dumps({"keys": [signer.public() for signer in signers]}))
    return file
