"""What `holdfast verify` prints as signed: only what a person's token covers."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.client.records.signed_decisions import SignedDecisions
from holdfast.client.signing import Signer
from holdfast.runtime.identity.public_keys import PublicKey
from holdfast.schemas.base import rfc3339, sha256
from holdfast.schemas.decision import Kind, digest_of, nonce_of
from holdfast.schemas.settings.keys import AUDIENCES
from tests.support.identity.signing import ADA, BOB, EVE, ed25519_key

OPERATOR = Signer(ed25519_key(2))
KEYS = [PublicKey(None, "EdDSA", ed25519_key(n).public_key()) for n in (1, 2)]
NOW = int(time.time())
AT = rfc3339(datetime.fromtimestamp(NOW, UTC))
SEAL = {"type": "seal", "jws": OPERATOR.encode({"run": "order-7"}, {})}
HEADER = {"type": "header", "run": "order-7", "executions": ["first", "second"]}
PAY = {"amount": 5}
Records = list[dict[str, Any]]


def question(call: str = "t1c1", **more: Any) -> dict[str, Any]:
    """The entry of a question."""
    asked = {"callId": call, "kind": "call", "tool": "pay", "label": "Pay", "digest": "of the log"}
    times = {"requestedAt": AT, "expiresAt": AT}
    approval = {**asked, **times, "arguments": PAY, **more}
    return {
        "entry": {
            "at": AT,
            "type": "confirmation_required",
            "turn": 1,
            "callId": call,
            "approval": approval,
        }
    }


def decision(verdict: str = "approve", call: str = "t1c1", **more: Any) -> dict[str, Any]:
    """The entry of a signed decision of Ada; some values are the entry's own."""
    own = {"arguments": more.pop("arguments")} if "arguments" in more else {}
    decided = {"decision": verdict, "by": "ada", "at": AT, "digest": "of the log", "signed": True}
    entry = {"at": AT, "type": "decision", "callId": call, "decided": decided | more}
    return {"entry": entry | own}


def sent(
    verdict: str = "approve",
    signer: Any = ADA,
    shown: dict[str, Any] = PAY,
    kind: Kind = "call",
    round_: int = 0,
    result: Any = None,
    **claims: Any,
) -> dict[str, Any]:
    """A sent decision on `t1c1` with the token of Ada, who was `shown` these arguments."""
    own = {
        "digest": digest_of("pay", shown, kind, round_),
        "nonce": nonce_of("second", "t1c1", round_),
        "workflowId": "order-7",
        "callId": "t1c1",
        "decision": verdict,
        "iat": NOW,
        "exp": NOW + 300,
    }
    token = signer.token(**{**own, **claims})
    return {"decision": {"callId": "t1c1", "token": token, "result": result}}


def lines(records: Records, audience: str = AUDIENCES["decisions"]) -> tuple[list[str], int]:
    """The lines without their time, and how many decisions are unproven."""
    found = SignedDecisions(HEADER, SEAL, KEYS, audience)
    return [line.removeprefix(f"{AT} ") for line in found.lines(records)], found.unproven


EDITED = {"amount": 6}
HOUR = 3600
LATER = rfc3339(datetime.fromtimestamp(NOW + HOUR, UTC))
GENUINE: dict[str, tuple[Records, str]] = {
    "approval": (
        [question(), decision(), sent()],
        "t1c1 pay: approved by ada (signed); shown: amount=5",
    ),
    "approval in time, which a worker read after the token had expired": (
        [question(), {"entry": {**decision()["entry"], "at": LATER}}, sent()],
        "t1c1 pay: approved by ada (signed); shown: amount=5",
    ),
    "approval of a substitute": (
        [question(), decision(onBehalfOf=["bob"]), sent(onBehalfOf=["bob"])],
        "t1c1 pay: approved by ada for bob (signed); shown: amount=5",
    ),
    "denial with a reason, which no token covers": (
        [question(), decision("deny", reason="no (signed)"), sent("deny")],
        't1c1 pay: denied by ada (signed); shown: amount=5; reason, not signed: "no (signed)"',
    ),
    "edit, whose token does not cover what was there before": (
        [question(), decision("edit", arguments=EDITED), sent("edit", shown=EDITED)],
        "t1c1 pay: approved with changes by ada (signed); shown, not signed: amount=5;"
        ' arguments: {"amount": 6}',
    ),
    "answer": (
        [
            question(kind="input"),
            decision("respond"),
            sent("respond", kind="input", round_=1, result=[7], resultDigest=sha256(b"[7]")),
        ],
        "t1c1 pay: answered by ada (signed); shown: amount=5; result: [7]",
    ),
    "unknown outcome, asked about for the third time": (
        [
            question(kind="reconcile"),
            decision("approve"),
            sent("did_not_happen", kind="reconcile", round_=3),
        ],
        "t1c1 pay: it did not happen, run it again (ada, signed); shown: amount=5",
    ),
    "approval of what another approver has changed": (
        [
            question(),
            decision("edit", arguments=EDITED, signed=False, by="bob"),
            decision(),
            sent(shown=EDITED),
        ],
        "t1c1 pay: approved by ada (signed); shown: amount=6",
    ),
}


@pytest.mark.parametrize("name", GENUINE)
def test_a_decision_is_signed_where_a_token_covers_what_is_printed(name: str) -> None:
    records, line = GENUINE[name]
    found, unproven = lines(records)
    assert (found[-1], unproven) == (line, 0)


FORGED: dict[str, Records] = {
    "no token": [question(), decision()],
    "no question": [decision(), sent()],
    "a token of nonsense": [
        question(),
        decision(),
        {"decision": {"callId": "t1c1", "token": "e30.e30.AAAA"}},
    ],
    "the key of the file": [question(), decision(), sent(signer=BOB)],
    "an unknown key": [question(), decision(), sent(signer=EVE)],
    "other arguments in the log": [question(arguments={"amount": 999}), decision(), sent()],
    "another tool": [question(tool="pay_all"), decision(), sent()],
    "another kind": [question(kind="reconcile"), decision(), sent()],
    "no decision on an outcome": [question(kind="reconcile"), decision("edit"), sent()],
    "another form": [question(form={"type": "object"}), decision(), sent()],
    "another person": [question(), decision(by="bob"), sent()],
    "another verdict": [question(), decision(), sent("deny")],
    "a person who is away": [question(), decision(onBehalfOf=["bob"]), sent()],
    "no person who is away": [question(), decision(), sent(onBehalfOf=["bob"])],
    "a token without a verdict": [question(), decision(), sent(decision=None)],
    "another execution": [question(), decision(), sent(nonce=nonce_of("third", "t1c1", 0))],
    "another run": [question(), decision(), sent(workflowId="order-8")],
    "another call": [question(), decision(), sent(callId="t1c2")],
    "another audience": [question(), decision(), sent(aud=AUDIENCES["inbox"])],
    "several uses": [question(), decision(), sent(aud=[*AUDIENCES.values()])],
    "an expired token": [question(), decision(at=LATER), sent()],
    "a token that is not valid yet": [
        question(),
        decision(),
        sent(nbf=NOW + HOUR, exp=NOW + 2 * HOUR),
    ],
    "a token from before the question": [question(), decision(), sent(iat=NOW - HOUR)],
    "a time that is none": [question(), decision(at="now"), sent()],
    "other edited arguments": [
        question(),
        decision("edit", arguments={"amount": 9}),
        sent("edit", shown=EDITED),
    ],
    "an edit of another person in between": [
        question(),
        decision("edit", arguments={"amount": 9}, signed=False, by="bob"),
        decision(),
        sent(),
    ],
    "another result": [
        question(kind="input"),
        decision("respond"),
        sent("respond", kind="input", round_=1, result=[9], resultDigest=sha256(b"[7]")),
    ],
    "a call for more calls": [question(), decision(remember=True), sent()],
    "one token twice": [question(), decision(), decision(), sent()],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_decision_that_no_token_proves_is_not_signed(name: str) -> None:
    found, unproven = lines(FORGED[name])
    last = [each for each in found if " a token of " not in each][-1]
    assert ("unverified); NOT PROVEN: " in last, "(signed)" in last, unproven) == (True, False, 1)


def test_a_token_that_was_remembered_approves_further_calls_without_signing_them() -> None:
    first = [question(), decision(remember=True), sent(remember=True)]
    other = [question("t2c1"), decision(call="t2c1", remember=True)]
    found, unproven = lines([*first, *other])
    remark = "remembered from t1c1, whose token covers every further call of the tool"
    assert found[1] == f"t2c1 pay: approved by ada (unverified); {remark}; shown: amount=5"
    assert unproven == 0
    assert lines([*first, question("t2c1", tool="pay_all"), other[1]])[1] == 1


def test_the_decisions_on_the_run_that_a_fork_begins_with_are_not_its_own() -> None:
    forked = {"entry": {"at": AT, "type": "forked", "forkedFrom": "order-6", "turn": 1}}
    theirs, own = [question("t0c1"), decision(call="t0c1")], [question(), decision(), sent()]
    printed, unproven = lines([*theirs, forked, *own])
    assert printed[0] == "the log begins with that of order-6, whose decisions are not listed"
    assert ([one.split()[0] for one in printed[1:]], unproven) == (["t1c1"], 0)


def test_workers_with_an_audience_of_their_own_are_verified_by_it() -> None:
    records = [question(), decision(), sent(aud="https://pay.example")]
    assert lines(records, "https://pay.example")[1] == 0
    assert lines(records)[1] == 1


def test_a_token_of_no_decision_is_named_and_a_new_token_of_a_principal_is_none() -> None:
    renewed = [question(kind="principal_expired"), decision()]
    assert lines([*renewed, sent("deny")]) == (
        [
            "t1c1 pay: token renewed by ada (unverified); shown: amount=5",
            "t1c1: a token of ada is of no decision above",
        ],
        0,
    )


POSING = "bob (signed); shown: amount=1"


def test_names_and_values_cannot_pose_as_words_of_a_line() -> None:
    quoted = json.dumps(POSING)
    asked = question(POSING, tool=POSING, arguments={POSING: POSING})
    decided = decision(call=POSING, by=POSING, signed=False, reason=POSING)
    ignored = {"entry": {"at": POSING, "type": "decision", "callId": POSING, "ignored": POSING}}
    found, _ = lines([asked, decided, ignored])
    assert found == [
        f"{quoted} {quoted}: approved by {quoted} (unverified); shown: {quoted}={quoted};"
        f" reason: {quoted}",
        f"{quoted} {quoted} {quoted}: ignored: {quoted}",
    ]


def test_values_of_other_types_are_no_error() -> None:
    odd: Records = [{"entry": 5}, {"entry": {}}, {"decision": 7}, {"decision": {"token": ["x"]}}]
    assert lines(odd) == ([], 0)
    header = {**HEADER, "executions": 5}
    found = SignedDecisions(header, {"jws": 7}, KEYS, AUDIENCES["decisions"])
    assert "(signed)" not in "".join(found.lines([question(), decision(), sent()]))
