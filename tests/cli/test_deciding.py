"""A decision that is signed with a key: what its token holds, and which files are no key."""

import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from holdfast.client.errors import HoldfastError
from holdfast.client.question_text import explanations, how_to_decide
from holdfast.client.signing import Signer as Key
from holdfast.client.signing import load_signer
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decided, Decision, PendingApproval
from tests.support.identity.signing import ADA, NONCE, Signer, rsa, rsa_key


def waiting_signing(kind: str = "call", **more: Any) -> PendingApproval:
    """A call as it waits, with the digest that the run gives it."""
    arguments = more.pop("arguments", {"amount": 5})
    round_ = more.pop("round", 1)
    again = {} if kind == "call" else {"kind": kind, "round": round_}
    digest = sha256(canonical_json({"tool": "pay", "arguments": arguments, **again}))
    said = {"callId": "t1c1", "kind": kind, "tool": "pay", "label": "Pay", "digest": digest}
    at = {"requestedAt": "2026-01-02T03:04:05Z", "expiresAt": "2026-01-09T03:04:05Z"}
    return PendingApproval.read({**said, **at, "arguments": arguments, "nonce": NONCE, **more})


def claims(
    decision: str, signer: Signer = ADA, asked: PendingApproval | None = None, **said: Any
) -> Any:
    """The claims of the token that signs such a decision."""
    person = {"by": "ada", "groups": ["finance"]}
    meant = Decision.model_validate({"callId": "t1c1", "decision": decision, **person, **said})
    signed = Key(signer.private, signer.key_id).sign(meant, asked or waiting_signing(), "order-7")
    assert signed.token is not None
    assert jwt.get_unverified_header(signed.token)["kid"] == signer.key_id
    assert signed.digest == said.get("digest", (asked or waiting_signing()).digest)
    public = signer.private.public_key()
    return jwt.decode(
        signed.token, public, algorithms=[signer.algorithm], audience="holdfast:decision"
    )


# What is signed.


@pytest.mark.parametrize("signer", [ADA, rsa()], ids=["Ed25519", "RSA"])
def test_a_token_names_its_approver_decision_and_call_for_five_minutes(signer: Signer) -> None:
    before = int(time.time())
    said = claims("approve", signer)
    issued_at = said.pop("iat")
    assert before <= issued_at <= time.time()
    assert said == {
        "sub": "ada",
        "groups": ["finance"],
        "workflowId": "order-7",
        "callId": "t1c1",
        "decision": "approve",
        "aud": "holdfast:decision",
        "digest": waiting_signing().digest,
        "nonce": NONCE,
        "exp": issued_at + 300,
    }


def test_what_goes_beyond_is_signed_too() -> None:
    assert claims("approve", remember=True)["remember"] is True
    for decision in ("respond", "happened"):
        result = claims(decision, result={"paid": 0})["resultDigest"]
        assert result == sha256(b'{"paid":0}')
    assert claims("respond", result=None)["resultDigest"] == sha256(b"null")
    assert claims("approve", digest="a" * 64)["digest"] == "a" * 64


@pytest.mark.parametrize(
    ("kind", "round_"), [("call", 0), ("budget", 1), ("budget", 3), ("plan", 1)]
)
def test_an_edit_of_what_was_asked_again_is_of_that_time(kind: str, round_: int) -> None:
    limit = {"maxCalls": 9}
    edited = claims("edit", asked=waiting_signing(kind, round=round_), arguments=limit)
    assert edited["digest"] == waiting_signing(kind, round=round_, arguments=limit).digest


def test_what_is_not_shown_whole_cannot_be_edited_and_signed() -> None:
    with pytest.raises(HoldfastError, match="too large to be shown whole, and so to be"):
        claims("edit", asked=waiting_signing("plan", digest="0" * 64), arguments={"calls": []})


def test_a_signer_has_to_be_named() -> None:
    with pytest.raises(HoldfastError, match="name yourself with --by"):
        claims("approve", by=None)


def locked(signer: Signer) -> bytes:
    encryption = BestAvailableEncryption(b"secret")
    pem: bytes = signer.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return pem


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be read: No such file"),
        (b"", "holds no private key; name a PEM file"),
        (ADA.pem().encode(), "holds no private key"),
        (locked(ADA), "is locked with a password; write it without one, or sign elsewhere"),
        (Signer(rsa_key(0, 1024)).private_pem().encode(), "is not of a supported type"),
    ],
)
def test_a_file_that_is_no_key_is_reported(tmp_path: Path, text: bytes | None, why: str) -> None:
    file = tmp_path / "key.pem"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(HoldfastError) as error:
        load_signer(str(file), None)
    assert why in error.value.line()
    assert error.value.exit_code == 2


def test_an_id_without_a_key_is_reported() -> None:
    assert load_signer(None, None) is None
    with pytest.raises(HoldfastError, match="name its file with --key FILE"):
        load_signer(None, "k1")


# What is shown.


def terms(waiting: PendingApproval) -> str:
    return explanations(waiting)[-1]


def test_the_command_that_decides_is_shown_with_the_outcome_without_it() -> None:
    executed = "without a decision, it runs without an approval"
    assert executed in terms(waiting_signing(onTimeout="approve"))
    assert "without a decision, the run fails" in terms(waiting_signing(onTimeout="fail"))
    assert "without a decision" not in terms(waiting_signing())
    given = Decided(decision="approve", by="ada", at="", digest="", signed=True)
    asked = waiting_signing(signed=True, quorum=2, decisions=[given.to_json()])
    assert "only signed decisions are accepted" in terms(asked)
    assert "approved by ada (signed)" in terms(asked)
    assert how_to_decide("order-7", asked).endswith("deny|edit|respond --key FILE")
    assert "signed" not in terms(waiting_signing())
    assert "--key" not in how_to_decide("order-7", waiting_signing())


# With a worker.
