"""The absences of a namespace, as every process reads them.

    inbox ──update──► `AbsencesWorkflow` ◄──query, once a minute while it is needed──  inbox, worker

An answer may be a minute old; without one, the last is used. A forged absence gives no right: a
substitute decides by groups of their own, and mail goes only to addresses that the channel lists
for a group of the approval. So a forgery can misname a substitute, and where `notBy` excludes the
person who is away, refuse the substitute's decision. A substitute who is away is not followed.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.decision import MAX_REPRESENTED
from holdfast.schemas.internal.absences import Absence, Absences
from holdfast.validation.text_safety import normalized_person

KEPT_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 5.0  # after a query that failed
_ANSWER: Final = timedelta(seconds=2)

logger = logging.getLogger("holdfast")


def present_absences(absences: Iterable[Absence]) -> list[Absence]:
    """Return the absences of now whose substitutes are not away themselves."""
    now = datetime.now(UTC)
    present = [one for one in absences if one.away and one.away.from_ <= now < one.away.until]
    people = {normalized_person(one.person) for one in present}
    return [one for one in present if one.away and normalized_person(one.away.to) not in people]


def own_substitutions(absences: Iterable[Absence], name: str) -> list[Absence]:
    """Return the present absences whose substitute is this person."""
    own, present = normalized_person(name), present_absences(absences)
    return [one for one in present if one.away and normalized_person(one.away.to) == own]


def find_represented(
    own: Iterable[Absence], approvers: Collection[str], groups: Iterable[str]
) -> list[Absence]:
    """Return those of approvers, as many as a decision names; the substitute has these groups."""
    is_approver = not {*groups}.isdisjoint(approvers)
    found = [one for one in own if is_approver and not {*one.groups}.isdisjoint(approvers)]
    return found[:MAX_REPRESENTED]


class AbsenceReader:
    """Reads the absences of a namespace, and keeps them for `KEPT_SECONDS`."""

    def __init__(self, client: Client) -> None:
        self._client, self._lock, self._found = client, asyncio.Lock(), list[Absence]()
        self.expire()

    def expire(self) -> None:
        """Read again when it is next needed."""
        self._due = 0.0

    async def read(self) -> list[Absence]:
        """Return the absences, also past ones; none without the workflow."""
        async with self._lock:
            if monotonic() >= self._due:
                self._due = monotonic() + KEPT_SECONDS
                handle = self._client.get_workflow_handle(names.ABSENCES_ID)
                try:
                    answer = await handle.query(names.READ, rpc_timeout=_ANSWER)
                    self._found = Absences.read(answer).absences
                except Exception as error:
                    if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                        self._found = []
                    else:
                        self._due = min(self._due, monotonic() + RETRY_SECONDS)
                        logger.warning("the absences cannot be read: %s", clean(str(error)))
                except BaseException:
                    self.expire()
                    raise
            return self._found
