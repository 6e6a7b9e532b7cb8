"""A file of evidence: every changed byte is found, in its own line."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.client.records.evidence_file import (
    BrokenEvidenceError,
    _line,
    describe,
    read_lines,
    write_lines,
)
from holdfast.client.signing import Signer
from holdfast.runtime.identity.public_keys import PublicKey
from holdfast.schemas.base import canonical_json
from tests.support.identity.signing import ed25519_key

MADE_BY = Signer(ed25519_key(1), "audit")
KEYS = [
    PublicKey(None, "EdDSA", ed25519_key(2).public_key()),
    PublicKey("audit", "EdDSA", ed25519_key(1).public_key()),
]
ASKED = {"callId": "t3c1", "kind": "call", "tool": "refund", "label": "Refund", "digest": "d"}
TIMES = {"requestedAt": "2026-01-02T03:04:05.678Z", "expiresAt": "2026-01-09T03:04:05.678Z"}
DECIDED = {"decision": "edit", "by": "grace", "at": "2026-01-02T04:00:00.000Z", "digest": "d"}
ENTRIES: list[dict[str, Any]] = [
    {"type": "message", "message": {"role": "user", "content": "Größe 7 \ud83d \x1b[1m"}},
    {
        "type": "confirmation_required",
        "turn": 3,
        "callId": "t3c1",
        "approval": {**ASKED, **TIMES, "arguments": {"amount": 1e-07, "for": None}},
    },
    {"type": "decision", "callId": "t3c1", "decided": DECIDED, "arguments": {"amount": 20.0}},
    {"type": "decision", "callId": "t3c1", "outcome": "expired"},
]
RECORDS: list[dict[str, Any]] = [
    {"type": "header", "version": 1, "run": "order/7"},
    *({"type": "log", "entry": {"n": n, **entry}} for n, entry in enumerate(ENTRIES, 1)),
]
LINES = [*write_lines(RECORDS, "order/7", MADE_BY)]
WHAT = (
    "the header",
    "the message",
    "the confirmation_required on t3c1",
    "the decision of grace on t3c1",
    "the decision on t3c1",
    "the seal",
)


def broken(lines: Sequence[bytes], keys: Sequence[PublicKey] = KEYS) -> str:
    """What is wrong with a file of these lines."""
    with pytest.raises(BrokenEvidenceError) as found:
        list(read_lines(lines, keys))
    return str(found.value)


def test_what_is_written_is_read_and_its_signature_is_checked_with_every_key() -> None:
    found = list(read_lines(LINES, KEYS))
    assert [canonical_json(each) for each in found[:-1]] == [*map(canonical_json, RECORDS)]
    assert broken(LINES, KEYS[:1]) == "line 6: none of the keys has signed these lines"
    unsigned = [*write_lines(RECORDS, "order/7", None)]
    assert [each.get("jws") for each in read_lines(unsigned, KEYS)][-1] is None


@pytest.mark.parametrize("how", ["another", "left out", "added"])
def test_every_changed_byte_is_found_in_its_line(how: str) -> None:
    whole = b"".join(LINES)
    ends = [len(b"".join(LINES[: n + 1])) for n in range(len(LINES))]
    for place in range(len(whole)):
        byte = whole[place : place + 1]
        new = {"another": bytes([byte[0] ^ 1]), "left out": b"", "added": b" " + byte}[how]
        changed = (whole[:place] + new + whole[place + 1 :]).splitlines(keepends=True)
        number = next(n for n, end in enumerate(ends, 1) if place < end)
        assert broken(changed).startswith(f"line {number}: "), place


def test_the_seal_which_is_not_signed_itself_has_nothing_else() -> None:
    [*records, seal] = read_lines(LINES, KEYS)
    forged = _line(len(LINES), {**seal, "note": "audited"}, digest_before_seal())
    assert broken([*LINES[:-1], forged[0]]) == f"line {len(records) + 1}: the seal was changed"


def digest_before_seal() -> str:
    """The digest that the seal follows."""
    return str(json.loads(LINES[-2])["digest"])


def test_what_a_changed_line_holds_is_named() -> None:
    for n, what in enumerate(WHAT):
        spaced = LINES[n].replace(b'"record":{', b'"record": {')
        wrong = broken([*LINES[:n], spaced, *LINES[n + 1 :]])
        assert wrong == f"line {n + 1}: {what} was changed, or a line before it was left out"
        unreadable = broken([*LINES[:n], LINES[n][:-5], *LINES[n + 1 :]])
        after = WHAT[n - 1] if n else "the beginning"
        assert unreadable.startswith(f"line {n + 1}: what follows {after} was changed")
    posing = {"entry": {"type": "decision", "callId": "t1c1", "decided": {"by": "ann on t1c2"}}}
    assert describe(posing) == 'the decision of "ann on t1c2" on t1c1'


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([], "line 1: the seal is missing, which is the last line"),
        (LINES[:-1], "line 6: the seal is missing, which is the last line"),
        ([*LINES, LINES[-1]], "line 7: it follows the seal, which is the last line"),
        ([*write_lines([], "", None)], "line 1: it is no header of version 1"),
        # Whole lines in another chain, with the old signature.
        (
            [*list(write_lines(RECORDS[:-1], "order/7", None))[:-1], LINES[-1]],
            "line 5: the seal was changed, or a line before it was left out",
        ),
    ],
)
def test_lines_that_are_missing_or_too_many_are_found(lines: list[bytes], wrong: str) -> None:
    assert broken(lines) == wrong


def test_a_signature_is_of_one_file_alone() -> None:
    seal = list(read_lines(LINES, ()))[-1]
    for records, run in ((RECORDS[:-1], "order/7"), ([{**RECORDS[0], "run": "b"}], "order/7")):
        *lines, _ = write_lines([*records, seal], run, None)
        assert broken(lines).endswith("none of the keys has signed these lines")
    with_nonsense = [*write_lines([*RECORDS, {"type": "seal", "jws": {"a": 1}}], "", None)][:-1]
    assert broken(with_nonsense).endswith("none of the keys has signed these lines")
