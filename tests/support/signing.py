"""Somebody who decides with a key of their own, and the key set that a worker checks it with."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support import signers

GOOD_FOR_SECONDS = 300


class Signer:
    """A new key, by its id."""

    def __init__(self, key_id: str = "key-1") -> None:
        self.id = key_id
        self._signer = signers.Signer(Ed25519PrivateKey.generate(), key_id)

    def public(self) -> dict[str, Any]:
        """The public key, as a JWK."""
        return self._signer.jwk(alg="EdDSA", use="sig")

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good for some minutes, unless it says otherwise."""
        return self._signer.signed({"exp": int(time.time()) + GOOD_FOR_SECONDS, **claims}, header)

    def on(self, run: str, waiting: dict[str, Any], by: str = "ann", **claims: Any) -> str:
        """A token on a waiting call, as it is shown. A token counts once: a number of its own keeps
        two of one second apart."""
        said = {"sub": by, "groups": [], "digest": waiting["digest"], "workflowId": run}
        said["jti"] = uuid.uuid4().hex
        return self.token(**{**said, **claims})


def write_keys(file: Path, *people: Signer) -> Path:
    """Write the key set of these people into a file, which a worker is given by `--keys`."""
    file.write_text(json.dumps({"keys": [person.public() for person in people]}))
    return file
