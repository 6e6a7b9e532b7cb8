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
from holdfast.schemas.internal.absences import Absence, Absences
from holdfast.validation.text_safety import is_same_person

KEPT_SECONDS: Final = 60.0
_ANSWER: Final = timedelta(seconds=2)

logger = logging.getLogger("holdfast")


def present_absences(absences: Iterable[Absence]) -> list[Absence]:
    """Return the absences of now whose substitutes are not away themselves."""
    now = datetime.now(UTC)
    present = [one for one in absences if one.away and one.away.from_ <= now < one.away.until]
    return [
        one
        for one in present
        if one.away and not any(is_same_person(each.person, one.away.to) for each in present)
    ]


def find_represented(
    present: Iterable[Absence], approvers: Collection[str], name: str, groups: Iterable[str]
) -> list[Absence]:
    """Return the absences of approvers whose substitute is this person, an approver too."""
    return [
        one
        for one in present
        if one.away
        and is_same_person(one.away.to, name)
        and not {*groups}.isdisjoint(approvers)
        and not {*one.groups}.isdisjoint(approvers)
    ]


class AbsenceReader:
    """Reads the absences of a namespace, and keeps them for `KEPT_SECONDS`."""

    def __init__(self, client: Client) -> None:
        self._client, self._lock = client, asyncio.Lock()
        self._found = list[Absence]()
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
                    # Absences give no right: pages and notifications do without.
                    if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                        self._found = []
                    else:
                        logger.warning("the absences cannot be read: %s", clean(str(error)))
            return self._found
