"""Signing: a person's key, and the token that is sent with a decision.

The key is not sent. The token is valid for one decision on one question of one execution of a run,
for five minutes.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from holdfast.client.errors import DecisionRejectedError, wrong_command
from holdfast.runtime.text_safety import clean
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval, digest_of
from holdfast.schemas.names import INVALID_DECISION
from holdfast.schemas.settings.keys import AUDIENCES

VALID_SECONDS: Final = 300
MAX_KEY_BYTES: Final = 100_000
_MIN_RSA_BITS: Final = 2_048
_WANTED: Final = "name a PEM file with a private key of Ed25519, or of RSA with 2048 bits or more"


@dataclass(frozen=True)
class Signer:
    """A person's key, and its id in the worker's key set."""

    private: Ed25519PrivateKey | RSAPrivateKey
    key_id: str | None = None

    def sign(self, decision: Decision, waiting: PendingApproval, run_id: str) -> Decision:
        """Return the decision with a token that is valid for this decision only.

        Raises:
            HoldfastError: it cannot be signed, or approves edited arguments without their digest.
        """
        if decision.by is None:
            raise wrong_command(
                "a signed decision names its approver", "name yourself with --by NAME"
            )
        is_changed = any(one.decision == "edit" for one in waiting.decisions)
        if is_changed and decision.decision == "approve" and decision.digest is None:
            why = "the arguments were changed since the approval was requested: read it again, then"
            todo = "approve with the digest that is shown now (`holdfast approvals --json`)"
            raise DecisionRejectedError(run_id, INVALID_DECISION, f"{why} {todo}")
        # The digest that the person saw, even if the pending call has changed.
        seen = signed = decision.digest or waiting.digest
        if decision.decision == "edit":
            round_ = 1 if waiting.kind == "call" else waiting.find_round()
            if round_ is None:
                id = clean(waiting.call_id)
                wrong = f"{id} is too large to be shown whole, and so to be edited"
                raise wrong_command(wrong, "approve or deny it")
            signed = digest_of(waiting.tool, decision.arguments or {}, waiting.kind, round_)
        now = round(time.time(), 3)
        claims: dict[str, Any] = {
            "sub": decision.by,
            "groups": decision.groups,
            "workflowId": run_id,
            "callId": decision.call_id,
            "decision": decision.decision,
            "aud": AUDIENCES["decisions"],
            "digest": signed,
            "nonce": waiting.nonce,
            "iat": now,
            "exp": now + VALID_SECONDS,
        }
        if decision.decision in ("respond", "happened"):
            claims["resultDigest"] = sha256(canonical_json(decision.result))
        if decision.on_behalf_of:
            claims["onBehalfOf"] = decision.on_behalf_of
        if decision.remember:
            claims["remember"] = True
        token = self.encode(claims, {})
        return decision.model_copy(update={"token": token, "digest": seen})

    def encode(self, claims: dict[str, Any], headers: dict[str, str]) -> str:
        algorithm = "RS256" if isinstance(self.private, RSAPrivateKey) else "EdDSA"
        key_id = {} if self.key_id is None else {"kid": self.key_id}
        return jwt.encode(claims, self.private, algorithm, headers | key_id)


def load_signer(file: str | None, key_id: str | None) -> Signer | None:
    """Return the key in the PEM file of `--key`, with the id of `--kid`; None without both options.

    Raises:
        HoldfastError: the file has no usable key, or no file is named.
    """
    if file is None:
        if key_id is None:
            return None
        raise wrong_command(
            "--kid names a key, and no key is given", "name its file with --key FILE"
        )
    try:
        with Path(file).open("rb") as opened:
            pem = opened.read(MAX_KEY_BYTES)
        private = load_pem_private_key(pem, password=None)
    except OSError as error:
        raise wrong_command(f"`--key`: {file} cannot be read: {error.strerror}", _WANTED) from None
    except TypeError:
        todo = "write it without one, or sign elsewhere and use --token"
        raise wrong_command(f"`--key`: {file} is locked with a password", todo) from None
    except (ValueError, UnsupportedAlgorithm):
        raise wrong_command(f"`--key`: {file} holds no private key", _WANTED) from None
    match private:
        case Ed25519PrivateKey():
            return Signer(private, key_id)
        case RSAPrivateKey(key_size=bits) if bits >= _MIN_RSA_BITS:
            return Signer(private, key_id)
    raise wrong_command(f"`--key`: the key in {file} is not of a supported type", _WANTED)
