"""§7: on a call that requires a signature, nothing counts but a good token for it, by the signal
or the update; on a real server, with a worker that knows ann's key."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from holdfast.schemas.base import sha256
from holdfast.schemas.settings.keys import AUDIENCES
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Launch, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys
from tests.support.model_server import Answer, call

PAY = {
    "_tool": "pay_out",
    "_activity": "pay",
    "_sideEffects": True,
    "_approval": {"signed": True, "approvers": ["finance"]},
    "properties": {"amount": {"type": "number"}},
}
ANN, EVE = Approver("ann"), Approver("ann")
HOUR_SECONDS = 3600
Waiting = dict[str, Any]


def part(value: Any) -> str:
    said = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def claims(run: Run, waiting: Waiting, **more: Any) -> dict[str, Any]:
    own = {"sub": "ann", "groups": ["finance"], "workflowId": run.id, "aud": AUDIENCES["decisions"]}
    own |= {name: waiting[name] for name in ("digest", "nonce")}
    return {**own, "exp": int(time.time()) + HOUR_SECONDS, **more}


def good(run: Run, waiting: Waiting, **more: Any) -> str:
    return ANN.token(**claims(run, waiting, **more))


def without_signature(run: Run, waiting: Waiting, alg: str, signature: bytes = b"") -> str:
    header = {"alg": alg, "kid": ANN.id, "typ": "JWT"}
    return f"{part(header)}.{part(claims(run, waiting))}.{part(signature)}"


def by_public_key(run: Run, waiting: Waiting) -> str:
    """Signed with public values, as if they were a secret."""
    public = base64.urlsafe_b64decode(ANN.public()["x"] + "=")
    signed = without_signature(run, waiting, "HS256").rpartition(".")[0]
    return f"{signed}.{part(hmac.digest(public, signed.encode(), hashlib.sha256))}"


def with_its_own_key(run: Run, waiting: Waiting) -> str:
    """A token that brings the key along that it was signed with."""
    headers = {"kid": ANN.id, "jwk": EVE.public(), "jku": "http://127.0.0.1:9/keys", "x5c": ["x"]}
    return EVE.token(headers, **claims(run, waiting))


def changed(run: Run, waiting: Waiting) -> str:
    """A good token for a denial, with another claim put in."""
    header, _, signature = good(run, waiting, decision="deny").split(".")
    return f"{header}.{part(claims(run, waiting, decision='approve'))}.{signature}"


# What its claims are for: `inputs/decisions/tokens.input`.
NOW = int(time.time())
Forgery = Callable[[Run, Waiting], Any]
FORGED: dict[str, Forgery] = {
    "another's key": lambda run, one: EVE.token(**claims(run, one)),
    "no signature": lambda run, one: without_signature(run, one, "none"),
    "nothing for a signature": lambda run, one: without_signature(run, one, "EdDSA"),
    "NONE": lambda run, one: without_signature(run, one, "NONE", b"x"),
    "signed with the public key": by_public_key,
    "its own key": with_its_own_key,
    "a changed claim": changed,
    "a principal": lambda run, one: good(run, one, aud=AUDIENCES["principals"]),
    "a program": lambda run, one: good(run, one, aud=AUDIENCES["inbox"]),
    "no audience": lambda run, one: good(run, one, aud=None),
    "several audiences": lambda run, one: good(run, one, aud=[*AUDIENCES.values()]),
    "another question": lambda run, one: good(run, one, nonce=sha256(b"t1c1")),
    "no question": lambda run, one: good(run, one, nonce=None),
    "out of date": lambda run, one: good(run, one, exp=NOW - HOUR_SECONDS),
    "no date": lambda run, one: good(run, one, exp=None),
    "not yet": lambda run, one: good(run, one, nbf=NOW + HOUR_SECONDS),
    "older than the call": lambda run, one: good(run, one, iat=NOW - HOUR_SECONDS),
    "two in one": lambda run, one: f"{good(run, one)}.{good(run, one)}",
    "a list": lambda run, one: [good(run, one)],
}


async def tried(run: Run, **said: Any) -> None:
    """A decision that is refused by the update, and ignored by the signal."""
    with pytest.raises(WorkflowUpdateFailedError):
        await run.decide("t1c1", **said)
    await run.signal("t1c1", **said)


async def test_no_forged_token_moves_money(launch: Launch, tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "keys.json", ANN)
    answers = [Answer(calls=[call("pay_out", amount=5)]), Answer("done")]
    backend = await launch(answers, keys=str(keys), **SIDE_BY_SIDE)
    run = await backend.start([PAY])
    [waiting] = await run.waiting()
    says_so = {"by": "ann", "groups": ["finance"], "digest": waiting["digest"]}

    await tried(run, decision="approve", **says_so)
    for forged in FORGED.values():
        await tried(run, decision="approve", token=forged(run, waiting), **says_so)
    token = good(run, waiting, decision="approve")
    for other in (
        {"decision": "edit", "arguments": {"amount": 5000}},
        {"decision": "respond", "result": {"paid": 5}},
        {"decision": "approve", "remember": True},
    ):
        await tried(run, token=token, **other)

    count = len(FORGED) + 4

    async def noted() -> bool:
        return len([each for each in await run.context() if _ignored(each)]) == count

    await eventually(noted)
    assert [one["callId"] for one in await run.waiting()] == ["t1c1"]
    assert tools.read() == []
    await run.decide("t1c1", "approve", token=token)
    await run.result()
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


def _ignored(entry: dict[str, Any]) -> bool:
    return "ignored" in entry or (entry["type"] == "notice" and "ignored" in entry["text"])
