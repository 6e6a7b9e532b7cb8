"""Access to the codec endpoint: by its secret, or by a session that was opened with it.

Programs send the secret as `Authorization: Bearer`. A user enters it once on the endpoint's own
page, which sets a session cookie: random, known to this process only, and of limited life. A
browser sends the cookie with requests from any page, so it is accepted only with an allowed origin.

    name of the endpoint ─► page of origin ─► session, or secret ─► work
"""

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.web.codec.shared_secret import Clock, Secret, digest, keep_newest
from holdfast.web.http.origins import hosts_of
from holdfast.web.http.problems import RefusedRequest, unauthorized

SESSION_SECONDS = 8 * 3600
MAX_SESSIONS = 1_000


@dataclass(frozen=True)
class CodecAccess:
    """The secret, the origins of allowed pages, and the endpoint's own origins."""

    secret: str = field(repr=False)
    origins: frozenset[str]
    own: frozenset[str]


class CodecGuard:
    """Checks each request; `address` is the network address of the sender."""

    def __init__(self, access: CodecAccess, clock: Clock = time.monotonic) -> None:
        self._access = access
        self._hosts = hosts_of(access.own)
        self._secret = Secret(access.secret, "the secret of this codec endpoint", clock)
        self._sessions = _Sessions(clock)

    def check_name(self, host: str | None) -> None:
        """Accept a request to one of the endpoint's own names.

        Raises:
            RefusedRequest: it was sent to another name.
        """
        if host is None or host.lower() not in self._hosts:
            raise RefusedRequest(421, "this endpoint has another name; name this one with `--url`")

    def check_page(self, origin: str | None) -> None:
        """Accept a request of no page, of an allowed page, or of the endpoint's own.

        Raises:
            RefusedRequest: it comes from another page.
        """
        if origin is not None and origin not in self._access.origins | self._access.own:
            raise RefusedRequest(403, "pages from there may not ask; name them with `--origin`")

    def admit(
        self, authorization: str | None, sessions: Iterable[str], origin: str | None, address: str
    ) -> None:
        """Accept a request with a session or the secret.

        Raises:
            RefusedRequest: the sender has neither a session nor the secret.
        """
        if origin in self._access.origins and self.left_seconds(sessions):
            return
        kind, _, shown = (authorization or "").partition(" ")
        if kind.lower() != "bearer":
            raise unauthorized("sign in on the page of this endpoint, or send its secret")
        self._secret.check(shown.strip(), address)

    def sign_in(self, shown: str, origin: str | None, address: str) -> str:
        """Open a session for the secret, entered on the endpoint's own page.

        Raises:
            RefusedRequest: the secret is wrong, or the request is from another page.
        """
        self.check_own_page(origin)
        self._secret.check(shown, address)
        return self._sessions.open()

    def sign_out(self, sessions: Iterable[str], origin: str | None) -> None:
        """End the sessions.

        Raises:
            RefusedRequest: the request is from another page.
        """
        self.check_own_page(origin)
        for session in sessions:
            self._sessions.close(session)

    def check_own_page(self, origin: str | None) -> None:
        """Accept a request of the endpoint's own page.

        Raises:
            RefusedRequest: the request is from another page, or from none.
        """
        if origin not in self._access.own:
            raise RefusedRequest(
                403, "only the page of this endpoint does that; open it, and try again"
            )

    def left_seconds(self, sessions: Iterable[str]) -> int:
        """Return the seconds until the last of these sessions ends; 0 for none."""
        return max((self._sessions.left_seconds(one) for one in sessions), default=0)


class _Sessions:
    """The sessions of users who entered the secret. Only digests are kept, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()

    def open(self) -> str:
        """Open a session and return the value of its cookie."""
        session = secrets.token_urlsafe(32)
        self._ends[digest(session)] = self._clock() + SESSION_SECONDS
        keep_newest(self._ends, MAX_SESSIONS)
        return session

    def left_seconds(self, session: str) -> int:
        """Return the seconds until a session ends; 0 for one that has ended or does not exist."""
        return max(0, math.floor(self._ends.get(digest(session), 0.0) - self._clock()))

    def close(self, session: str) -> None:
        """End a session."""
        self._ends.pop(digest(session), None)
