"""The decisions in a file of evidence, and which of them a signature proves.

The holder of the key for evidence can write any log. A decision is signed if one token in the file,
by a key that has not signed the file, covers what is printed of it:

    sub ─► name          workflowId, nonce ─► run, execution, call     digest ─► tool and arguments
    decision ─► verdict  resultDigest ─► result     remember           nbf, iat, exp ─► time
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from holdfast.client.records.evidence_file import Record, signed_by
from holdfast.runtime.identity.public_keys import PublicKey
from holdfast.runtime.identity.tokens import InvalidTokenError, SignedToken, decision_claims
from holdfast.runtime.narration.phrases import EXPIRED, NAME_CHARS, decided_phrase
from holdfast.runtime.text_safety import arguments_line, as_json, name_in_line, read_time
from holdfast.schemas import decision
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    ForkedEntry,
    read_record,
)
from holdfast.schemas.settings.keys import AUDIENCES, MAX_LEEWAY

# What a log has as a decision on an unknown outcome, and what its token has.
_RECONCILED: Final[dict[decision.Verdict, decision.Verdict]] = {
    "respond": "happened",
    "approve": "did_not_happen",
    "deny": "give_up",
}
_LEEWAY_SECONDS: Final = MAX_LEEWAY.total_seconds()


class _Token(NamedTuple):
    sent: Record
    claims: decision.DecisionClaims
    not_before: float


class SignedDecisions:
    """Describes the decisions of a file; without keys, none is signed.

    `audience` is the `aud` that the workers require. `unproven` counts the decisions that the log
    has as signed, and that no token proves.
    """

    def __init__(
        self, header: Record, seal: Record, keys: Sequence[PublicKey], audience: str
    ) -> None:
        self.unproven = 0
        self._header, self._audience, self._has_keys = header, audience, bool(keys)
        # The signer of a file proves who wrote it, and not who decided.
        self._keys = [key for key in keys if signed_by(seal.get("jws"), [key], {}) is None]
        self._tokens: list[_Token] = []
        self._remembered: dict[tuple[str | None, str], str] = {}

    def lines(self, records: Sequence[Record]) -> Iterator[str]:
        """Yield a line for each decision, and for each valid token of no decision."""
        sent = [each["decision"] for each in records if isinstance(each.get("decision"), dict)]
        self._tokens = [token for each in sent if (token := self._read_token(each))]
        asked, shown = dict[str, decision.PendingApproval](), dict[str, dict[str, Any]]()
        entries = [each["entry"] for each in records if isinstance(each.get("entry"), dict)]
        log = [*map(read_record, entries)]
        # The decisions before were sent to another run.
        begin = max(
            (n for n, one in enumerate(log) if isinstance(one.entry, ForkedEntry)), default=0
        )
        for read in log[begin:]:
            match read.entry:
                case ForkedEntry(forked_from=source):
                    source = name_in_line(source, NAME_CHARS)
                    yield f"the log begins with that of {source}, whose decisions are not listed"
                case ConfirmationRequiredEntry(call_id=call, approval=approval):
                    asked[call], shown[call] = approval, approval.arguments
                case DecisionEntry(call_id=call) as end:
                    about = [call, *([asked[call].tool] if call in asked else [])]
                    names = " ".join(name_in_line(each, NAME_CHARS) for each in about)
                    at = read.at if end.decided is None else end.decided.at
                    parts = self._parts(end, asked.get(call), shown.get(call, {}))
                    yield f"{name_in_line(at, NAME_CHARS)} {names}: {'; '.join(parts)}"
                    if isinstance(end.arguments, dict):  # the next approver is shown these
                        shown[call] = end.arguments
        for unused in self._tokens:
            by = name_in_line(unused.claims.sub, NAME_CHARS)
            of = name_in_line(str(unused.sent.get("callId")), NAME_CHARS)
            yield f"{of}: a token of {by} is of no decision above"

    def _read_token(self, sent: Record) -> _Token | None:
        """Return the token of a decision, if one of the keys has signed it for decisions."""
        try:
            token = SignedToken.read(str(sent.get("token", "")))
            claims = decision_claims(token)
        except InvalidTokenError:
            return None
        others = {*AUDIENCES.values()} - {self._audience}
        is_for_this = self._audience in token.audiences and others.isdisjoint(token.audiences)
        is_signed = is_for_this and signed_by(token.text, self._keys, {}) is not None
        return _Token(sent, claims, token.claims.get("nbf", 0)) if is_signed else None

    def _parts(
        self, entry: DecisionEntry, asked: decision.PendingApproval | None, shown: dict[str, Any]
    ) -> Iterator[str]:
        """Yield what is printed of a decision, each part with what its signature does not cover."""
        if (decided := entry.decided) is None:
            yield f"ignored: {as_json(entry.ignored)}" if entry.ignored else EXPIRED
            return
        kind, is_edit = asked.kind if asked else "call", decided.decision == "edit"
        own = decided.by, asked.tool if asked else ""
        # A principal's new token is recorded as a signed decision, and is none.
        claims_proof = decided.signed and self._has_keys and kind != "principal_expired"
        proof = self._find_proof(entry, asked, shown) if claims_proof and asked else None
        unsigned, remark = "" if proof is None else ", not signed", ""
        if proof is not None:
            self._remembered |= {own: entry.call_id} if decided.remember else {}
        elif claims_proof and decided.remember and own in self._remembered:
            first = name_in_line(self._remembered[own], NAME_CHARS)
            remark = f"remembered from {first}, whose token covers every further call of the tool"
        elif claims_proof:
            self.unproven += 1
            remark = "NOT PROVEN: the log has it as signed, and no token covers all of this"
        yield decided_phrase(decided.model_copy(update={"signed": proof is not None}), kind)
        if remark:
            yield remark
        line = arguments_line(decision.brief_arguments(kind, shown))
        yield f"shown{unsigned if is_edit else ''}: {line}"
        if is_edit:
            yield f"arguments: {as_json(entry.arguments)}"
        if proof is not None and decided.decision == "respond":
            yield f"result: {as_json(proof.get('result'))}"
        if decided.reason:
            yield f"reason{unsigned}: {as_json(decided.reason)}"

    def _find_proof(
        self, entry: DecisionEntry, asked: decision.PendingApproval, shown: dict[str, Any]
    ) -> Record | None:
        """Return the sent decision that proves one of the log."""
        decided, call = entry.decided, entry.call_id
        assert decided is not None  # the end of a wait is not signed
        verdicts = [decided.decision]
        if asked.kind == "reconcile":
            verdicts += [_RECONCILED.get(decided.decision, decided.decision)]
        arguments: Any = entry.arguments if decided.decision == "edit" else shown
        times = [read_time(decided.at), read_time(asked.requested_at)]
        decided_at, asked_at = (time.timestamp() if time else math.nan for time in times)
        for token in self._tokens:
            sent, claims, not_before = token
            issued = asked_at if claims.iat is None else claims.iat
            digest = sha256(canonical_json(sent.get("result")))
            is_covered = (
                (claims.workflow_id, claims.sub) == (self._header.get("run"), decided.by)
                and claims.on_behalf_of == decided.on_behalf_of
                and sent.get("callId") == call == (claims.call_id or call)
                and claims.decision in verdicts
                and (claims.remember or not decided.remember)
                and (decided.decision != "respond" or claims.result_digest == digest)
                and asked_at - _LEEWAY_SECONDS <= issued <= decided_at + _LEEWAY_SECONDS
                and not_before - _LEEWAY_SECONDS <= decided_at <= claims.exp + _LEEWAY_SECONDS
            )
            for round_ in self._rounds(call, claims.nonce) if is_covered else ():
                of = (asked.tool, arguments, asked.kind, round_, asked.form)
                if decision.digest_of(*of) == claims.digest:
                    self._tokens.remove(token)  # it proves one decision
                    return sent
        return None

    def _rounds(self, call: str, nonce: str) -> Iterator[int]:
        """Yield the round of the question that has this nonce in one of the executions."""
        listed = self._header.get("executions")
        for execution in listed if isinstance(listed, list) else ():
            for round_ in range(decision.MAX_ROUNDS + 1):
                if decision.nonce_of(execution, call, round_) == nonce:
                    yield round_
