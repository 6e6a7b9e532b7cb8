"""A decision from the command line: what it comes to, and how it is refused."""

import json
import os
import re
import time
from io import StringIO
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from temporalio.client import Client

from holdfast.cli.prompts.answers import AnswerSource, Approver
from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import remote_run
from holdfast.client.errors import HoldfastError
from holdfast.client.question_text import explanations, how_to_decide
from holdfast.client.run import Run as ClientRun
from holdfast.client.signing import Signer as Key
from holdfast.client.signing import load_signer
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decided, Decision, PendingApproval
from tests.cli.conftest import Holdfast, Start
from tests.support.backend import Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import ADA, BOB, EVE, NONCE, Signer, jwks, rsa, rsa_key
from tests.support.model_server import Answer, call

PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


@pytest.fixture
async def paying(launch: Launch) -> Backend:
    return await launch(PAYS)


async def waiting(backend: Backend, **agent: object) -> Run:
    run = await backend.start(["pay"], agent=agent)
    await run.waiting()
    return run


@pytest.mark.parametrize(
    ("words", "said", "result"),
    [
        (("approve", "--remember"), "approved", '{"paid": 5.0}'),
        (("deny", "--reason", "too much"), "denied", "too much"),
        (
            ("edit", "--arguments", '{"amount": 3}'),
            "approved with changes",
            '{"paid": 3.0}',
        ),
        (("respond", "--result", "null"), "answered by a person", "null"),
    ],
)
async def test_each_decision_has_its_effect(
    paying: Backend, holdfast: Holdfast, words: tuple[str, ...], said: str, result: str
) -> None:
    run = await waiting(paying)

    decided = await holdfast("decide", run.id, "t1c1", *words)

    assert (decided.code, decided.err) == (0, "")
    assert decided.out.startswith(f"t1c1: {said}. See holdfast watch")
    await run.result()
    assert result in (await run.results())["t1c1"]


async def test_the_approver_is_the_user_unless_another_is_named(
    paying: Backend, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "carl")
    run = await waiting(paying, approval={"quorum": 2, "approvers": ["finance"]})

    mine = await holdfast("decide", run.id, "t1c1", "approve", "--groups", "finance,ops")
    hers = await holdfast("decide", run.id, "t1c1", "approve", "--groups", "finance", "--by", "bea")

    assert mine.out == "t1c1: counted; 1 more must agree.\n"
    assert hers.out.startswith("t1c1: approved.")
    decisions = [entry for entry in await run.context() if entry["type"] == "decision"]
    assert [entry["decided"]["by"] for entry in decisions] == ["carl", "bea"]


async def test_a_rejected_decision_has_a_reason(paying: Backend, holdfast: Holdfast) -> None:
    run = await waiting(paying)
    for words, code, why in (
        (("t9c9", "approve"), 4, "t9c9"),
        (("t1c1", "edit", "--arguments", '{"amount": "much"}'), 2, "do not fit"),
        (("t1c1", "approve", "--digest", "0000"), 2, "read it again"),
        (("t1c1", "edit"), 2, "needs `arguments`"),
        (("t1c1", "edit", "--arguments", "{"), 2, "no JSON"),
        (
            ("t1c1", "edit", "--arguments", '{"amount": 1, "amount": 2}'),
            2,
            '"amount" is there twice',
        ),
        (("t1c1", "wave"), 2, "`wave` does not fit"),
        (("t1c1", "happened", "--result", "1"), 2, "unknown"),
    ):
        said = await holdfast("decide", run.id, *words)

        assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
        assert why in said.err
    assert len(await run.waiting()) == 1


async def test_a_second_decision_is_refused_and_changes_nothing(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch([Answer("", [call("pay", amount=1), call("pay", amount=2)])])
    run = await backend.start(["pay"])
    await run.waiting(2)
    await holdfast("decide", run.id, "t1c1", "deny")

    said = await holdfast("decide", run.id, "t1c1", "approve")

    assert said.code == 1
    assert "nothing was changed" in said.err


async def test_a_decision_without_a_worker_reports_that_one_is_needed(
    client: Client, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 0.2)
    await client.start_workflow("AgentWorkflow", {}, id="no-worker", task_queue="empty")

    said = await holdfast("decide", "no-worker", "t1c1", "approve")

    assert said.code == 3
    assert "start one: holdfast worker --task-queue empty" in said.err


async def test_a_call_runs_again_by_the_command_that_was_shown_for_its_attempt_alone(
    launch: Launch, holdfast: Holdfast
) -> None:
    run = await (await launch([Answer("", [call("unsure")])])).start(["unsure"])
    late: list[str] = []
    for number, times in ((1, "a second"), (2, "a third")):

        async def is_asked(count: int = number) -> bool:
            return len((await run.waiting())[0]["attempts"]) == count

        await eventually(is_asked)
        for verdict in ("did_not_happen", "approve"):
            shown = await holdfast("decide", run.id, "t1c1", verdict)
            assert shown.code == 2
            assert shown.out.startswith(f"Attempt {number}, outcome unknown: unsure (t1c1)\n")
            assert f"attempt {number}: started 20" in shown.out
            assert shown.err.endswith("else `happened --result VALUE`, or `give_up`\n")
        [command] = re.findall(rf"to run it {times} time: holdfast (decide .*?);", shown.err)
        if late:
            assert "look at it again" in (await holdfast(*late)).err
        late = command.split()
        assert (await holdfast(*late)).out.startswith("t1c1: it did not happen, run it again.")
    assert (await holdfast("decide", run.id, "t1c1", "give_up")).code in (0, 1)


PLAN = [Answer("", [call("pay", amount=1), call("pay", amount=2), call("pay", amount=3)])]


async def test_calls_are_struck_out_of_a_plan_and_the_rest_is_approved(
    launch: Launch, holdfast: Holdfast
) -> None:
    run = await waiting(await launch([*PLAN, Answer("Paid.")]), plan="lazy")
    await run.listed()
    listed = await holdfast("approvals")
    assert "plan of 3 calls" in listed.out
    assert 't1c1="pay" t1c2="pay" t1c3="pay"' in listed.out

    struck = ("--strike", "t1c2,t1c3")
    decided = await holdfast("decide", run.id, "t1-plan", "approve", "--by", "ada", *struck)

    assert (decided.code, decided.err) == (0, "")
    assert decided.out.startswith("t1-plan: approved without t1c2, t1c3. See holdfast watch")
    await run.result()
    assert "struck this call out" in (await run.results())["t1c2"]
    assert (await run.results())["t1c1"] == '{"paid": 1.0}'
    shown = (await holdfast("show", run.id)).out
    assert "decided t1-plan plan of 3 calls: approved with changes by ada (unverified)\n" in shown
    assert "  struck out: t1c2, t1c3\n" in shown


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


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """What tokens are checked with: Ada's and Bob's keys."""
    file = tmp_path / "people.json"
    file.write_text(jwks(ADA, BOB))
    return file


@pytest.fixture
async def paying_signing(launch: Launch, keys: Path) -> Backend:
    """A backend that knows their keys, and whose model calls `pay`."""
    return await launch(PAYS, keys=str(keys))


def key_file(folder: Path, signer: Signer) -> str:
    file = folder / f"{signer.key_id}.pem"
    file.write_text(signer.private_pem())
    return str(file)


async def asked(backend: Backend, **approval: Any) -> Run:
    run = await backend.start(["pay"], agent={"approval": {"signed": True, **approval}})
    await run.waiting()
    return run


async def test_a_decision_is_signed_with_a_key_and_shown_so(
    paying_signing: Backend, holdfast: Holdfast, tmp_path: Path
) -> None:
    run = await asked(paying_signing, quorum=2)
    words = ("decide", run.id, "t1c1", "approve", "--key")

    ada = await holdfast(*words, key_file(tmp_path, ADA), "--kid", "k1", "--by", "ada")
    await run.listed()
    listed = json.loads((await holdfast("approvals", "--json")).out)
    bob = await holdfast(*words, key_file(tmp_path, BOB), "--kid", "k2", "--by", "bob")

    assert (ada.err, ada.out) == ("", "t1c1: counted; 1 more must agree.\n")
    assert (bob.err, bob.code) == ("", 0)
    assert [one["signed"] for one in listed] == [True]
    assert [(one["by"], one["signed"]) for one in listed[0]["decisions"]] == [("ada", True)]
    await run.result()
    shown = (await holdfast("show", run.id)).out
    assert "approved by ada (signed)\n" in shown
    assert "approved by bob (signed)\n" in shown


async def test_no_signature_covers_changes_that_its_signer_has_not_seen(
    paying_signing: Backend, holdfast: Holdfast, tmp_path: Path
) -> None:
    run = await asked(paying_signing, quorum=2)
    bob = ("--key", key_file(tmp_path, BOB), "--by", "bob")
    ada = ("--key", key_file(tmp_path, ADA), "--by", "ada")
    await holdfast("decide", run.id, "t1c1", "edit", "--arguments", '{"amount": 9}', *ada)
    [waiting_signing] = await run.waiting()

    unseen = await holdfast("decide", run.id, "t1c1", "approve", *bob)
    assert unseen.code == 2
    assert "the arguments were changed since the approval was requested" in unseen.err
    digest = ("--digest", waiting_signing["digest"])
    assert (await holdfast("decide", run.id, "t1c1", "approve", *bob, *digest)).code == 0
    await run.result()


async def test_a_decision_without_a_valid_signature_is_rejected(
    paying_signing: Backend, holdfast: Holdfast, tmp_path: Path
) -> None:
    run = await asked(paying_signing)
    words = ("decide", run.id, "t1c1", "approve")
    [one] = await run.waiting()
    elsewhere = {"digest": one["digest"], "workflowId": "another-run"}
    (tmp_path / "token").write_text(ADA.token(**elsewhere) + "\n")

    said = [
        await holdfast(*words),
        await holdfast(*words, "--key", key_file(tmp_path, EVE), "--kid", "k1"),
        await holdfast(*words, "--token", f"@{tmp_path / 'token'}"),
    ]

    assert [each.code for each in said] == [2, 2, 2]
    assert "this call accepts only signed decisions" in said[0].err
    assert "the token's signature is wrong" in said[1].err
    assert "the token is for another run" in said[2].err
    assert all(each.err.count("\n") == 1 for each in said)
    assert len(await run.waiting()) == 1


async def test_a_watch_without_a_key_shows_how_to_sign_and_requests_nothing(client: Client) -> None:
    seen, answers = StringIO(), AnswerSource(os.open(os.devnull, os.O_RDONLY), Approver())
    people = ApprovalPrompts(ClientRun(client, "order-7"), PlainScreen(seen, "order-7"), answers)
    assert await people.ask_new([waiting_signing(signed=True)])
    assert "holdfast decide order-7 t1c1 approve|deny|edit|respond --key FILE" in seen.getvalue()
    assert "[a]pprove" not in seen.getvalue()


async def test_a_watch_with_a_key_signs_its_answers(
    paying_signing: Backend, start: Start, tmp_path: Path
) -> None:
    run = await asked(paying_signing)

    signing = start("watch", run.id, "--key", key_file(tmp_path, ADA), terminal=True)
    await signing.until("only signed decisions")
    await signing.until("[a]pprove")
    signing.type("a\n")

    await signing.until("(signed)")
    assert await signing.ended() == 0


async def test_a_run_acts_on_behalf_of_the_principal_of_its_token(
    launch: Launch, keys: Path, holdfast: Holdfast, tmp_path: Path
) -> None:
    backend = await launch([Answer("Done.")], keys=str(keys), principal_tokens=True)
    agent = tmp_path / "agent.json"
    model = {"endpoint": "fake", "name": "fake"}
    agent.write_text(json.dumps({"name": "desk", "instructions": "Help.", "model": model}))
    token = tmp_path / "token"
    claims: dict[str, Any] = {"sub": "ada", "aud": "holdfast:principal", "scope": "a b"}
    claims |= {"jti": "order-7", "exp": int(time.time()) + 3600}
    token.write_text(ADA.signed(claims))
    words = ("run", f"@{agent}", "--input", "go", "--task-queue", backend.task_queue)

    plain = await holdfast(*words, "--principal", "ada")
    signed = await holdfast(*words, "--principal-token", f"@{token}", "--json")
    both = await holdfast(*words, "--principal", "ada", "--principal-token", f"@{token}")

    assert plain.code == 1
    assert "requires a token" in plain.out + plain.err
    assert signed.code == 0, signed.err
    assert "order-7" in signed.out + signed.err, "the run that its token is for"
    assert (both.code, "not allowed with" in both.err) == (2, True)


async def test_a_new_token_starts_the_run_that_waits_for_it(
    launch: Launch, keys: Path, holdfast: Holdfast
) -> None:
    backend = await launch([], keys=str(keys))
    claims = {"sub": "ada", "aud": "holdfast:principal", "jti": "order-9"}
    late = ADA.signed({**claims, "exp": int(time.time()) - 1})
    run = await backend.call("pay", {"amount": 5}, principal={"token": late})
    await run.waiting()
    await run.decide("t1c1", "approve")

    await run.listed()
    shown = await holdfast("approvals")
    assert "holdfast renew order-9 --token @FILE, or holdfast decide order-9 t1c1 deny" in shown.out
    again = await holdfast("renew", run.id, "--token", late)
    assert (again.code, "expires no later" in again.err) == (2, True)
    new = await holdfast(
        "renew", run.id, "--token", ADA.signed({**claims, "exp": int(time.time()) + 3600})
    )
    assert new.code == 0, new.err
    assert new.out.startswith("order-9 acts for ada until ")
    assert (await run.result())["output"] == {"paid": 5}
