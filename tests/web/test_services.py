"""A decision on its way to its run (§7): whose it is, and what is signed for them, if anything."""

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.errors import DecisionRejectedError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.signing import Signer
from holdfast.runtime.absences import AbsenceReader
from holdfast.schemas.decision import (
    MAX_REPRESENTED,
    Decided,
    Decision,
    PendingApproval,
    Receipt,
)
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.names import NO_SUCH_CALL
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.runs import decide
from holdfast.web.auth.permissions import RunAccess
from holdfast.web.auth.sessions import Person
from holdfast.web.http.problems import RefusedRequest, problem_of
from holdfast.web.services import Services
from tests.web.run.test_status import PAY
from tests.workflows.approvals.test_absences import absence_of

TOKEN = "of.somebody.else"
WAITING = PAY.model_copy(update={"signed": True})
CHANGED = {"decisions": [Decided(decision="edit", by="eve", at="2026-03-01T14:04Z", digest="c")]}


class Hearing:
    """A run in which a call waits, and that takes whatever is decided on it."""

    id = "r"

    def __init__(self, **waiting: Any) -> None:
        self.heard: list[Decision] = []
        self.one = WAITING.model_copy(update=waiting)

    async def describe(self) -> None:
        """It is there."""

    async def approvals(self) -> list[PendingApproval]:
        return [self.one]

    async def decide(self, decision: Decision, _: str | None = None) -> Receipt:
        self.heard.append(decision)
        return Receipt(call_id=decision.call_id, decision=decision.decision, decided=True)


def decision(**more: Any) -> dict[str, Any]:
    return {"callId": "t1c1", "decision": "approve", **more}


def asked(parts: Services, **sent: Any) -> ApiRequest:
    async def receive() -> Any:
        return {"type": "http.request", "body": json.dumps(decision(**sent)).encode()}

    head = [(b"content-type", b"application/json")]
    ann = Person("ann", ("finance",))
    state = {"person": ann, "access": RunAccess(ann)}
    return ApiRequest(
        Request({"type": "http", "headers": head, "state": state}, receive), parts, "r"
    )


@pytest.fixture
def parts(nowhere: Client) -> Services:
    return Services(HoldfastClient(nowhere), Signer(Ed25519PrivateKey.generate()))


@pytest.mark.parametrize(
    ("signed", "sent", "is_signed"),
    [
        (True, {"by": "ann"}, True),
        (True, {"token": TOKEN}, False),
        (False, {"by": "ann"}, False),
    ],
)
async def test_the_inbox_signs_an_unsigned_decision_that_has_to_be_signed(
    parts: Services,
    monkeypatch: pytest.MonkeyPatch,
    signed: bool,
    sent: dict[str, Any],
    is_signed: bool,
) -> None:
    run = Hearing(signed=signed)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)

    await parts.decide("r", run.one, Decision.model_validate(decision(**sent)))

    [heard] = run.heard
    assert (heard.token != sent.get("token")) == is_signed


@pytest.mark.parametrize("sent", [{}, {"onBehalfOf": ["eve"]}, {"token": TOKEN}])
async def test_the_inbox_names_the_person_a_substitute_decides_for_and_no_sender_does(
    parts: Services, monkeypatch: pytest.MonkeyPatch, sent: dict[str, Any]
) -> None:
    known = [absence_of("ada", "Ann"), absence_of("bob", "ann", groups=["sales"])]

    async def read(_: AbsenceReader) -> list[Absence]:
        return known

    monkeypatch.setattr(AbsenceReader, "read", read)
    run = Hearing(approvers=["finance", "legal"], signed=False)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)

    await decide(asked(parts, **sent))
    known.clear()
    await decide(asked(parts, **sent))
    known += [absence_of(f"p{n}", "ann") for n in range(MAX_REPRESENTED + 1)]  # forged
    await decide(asked(parts, **sent))

    found = [len(one.on_behalf_of) for one in run.heard]
    assert found == ([0] * 3 if "token" in sent else [1, 0, MAX_REPRESENTED])
    assert "token" in sent or run.heard[0].on_behalf_of == ["ada"]


async def test_a_persons_absence_is_that_of_their_session_and_no_program_has_one(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = list[Absence]()

    async def set_absence(_: HoldfastClient, absence: Absence) -> None:
        heard.append(absence)

    monkeypatch.setattr(HoldfastClient, "set_absence", set_absence)
    away, ann = absence_of("eve", "bob").away, Person("ann", ("finance",))
    await parts.set_absence(ann, away.to_json() if away else None)
    await parts.set_absence(ann, None)
    with pytest.raises(RefusedRequest, match="a program is not away"):
        await parts.set_absence(replace(ann, is_program=True), None)
    with pytest.raises(RefusedRequest, match="that may `decide`"):
        await parts.set_absence(replace(ann, may=frozenset({"read"})), None)

    shown = [(one.person, one.groups, one.away) for one in heard]
    assert shown == [("ann", ["finance"], away), ("ann", ["finance"], None)]


@pytest.mark.parametrize(
    ("token", "by", "groups"), [(None, "ann", ["finance"]), (TOKEN, None, [])], ids=["own", "token"]
)
async def test_it_is_decided_by_its_sender_or_its_signer(
    parts: Services,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    by: str | None,
    groups: list[str],
) -> None:
    run = Hearing(signed=False)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)

    await decide(asked(parts, by="eve", groups=["boss"], token=token))

    [heard] = run.heard
    assert (heard.by, heard.groups, heard.token) == (by, groups, token)


async def test_no_changed_call_is_signed_for_a_person_who_has_not_seen_it(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Hearing(**CHANGED)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)

    with pytest.raises(DecisionRejectedError, match="changed since the approval") as refused:
        await decide(asked(parts))

    assert (problem_of(refused.value).code, run.heard) == ("invalid_decision", [])
    for seen in ({"digest": "d"}, {"token": TOKEN}, {"decision": "deny"}):
        await decide(asked(parts, **seen))
    assert len(run.heard) == 3


@pytest.mark.parametrize("waiting", [{}, {**CHANGED, "signed": False}], ids=["same", "unsigned"])
async def test_an_unchanged_unsigned_call_may_be_approved_without_a_digest(
    parts: Services, monkeypatch: pytest.MonkeyPatch, waiting: dict[str, Any]
) -> None:
    run = Hearing(**waiting)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)

    await decide(asked(parts))

    assert len(run.heard) == 1


class Forgetful(Hearing):
    """A run that does not know its question the first time, as after a crash of its worker."""

    async def decide(self, decision: Decision, _: str | None = None) -> Receipt:
        self.heard.append(decision)
        if len(self.heard) == 1:
            raise DecisionRejectedError("r", NO_SUCH_CALL, "no call t1c1 waits")
        return Receipt(call_id="t1c1", decision="approve", decided=True)


async def test_a_decision_is_sent_again_to_a_run_that_replays(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Forgetful(signed=False)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)
    one = Decision.model_validate(decision(digest=run.one.digest))
    assert (await Services(HoldfastClient(nowhere)).decide("r", run.one, one)).decided
    assert len(run.heard) == 2
    run.heard = []
    with pytest.raises(DecisionRejectedError, match="no call t1c1 waits"):
        await Services(HoldfastClient(nowhere)).decide(
            "r", run.one, one.model_copy(update={"digest": "another"})
        )
    assert len(run.heard) == 1
