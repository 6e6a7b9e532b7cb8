"""Somebody on their way to a provider and back: kept by their own browser, sealed, for minutes.

Whoever comes back with the address of another's way, or with their own for a second time, has
nothing in their browser that belongs to it.
"""

import hmac
import secrets
from dataclasses import asdict, dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.auth.cookies import forget, keep, kept
from holdfast.web.auth.sealed_text import TextSealer

GOING_SECONDS: Final = 600
_KIND: Final = "going"
_STATE_CHARS: Final = 8


@dataclass(frozen=True)
class Going:
    """One way there and back: where it leads in the end, and what nobody else can know of it."""

    home: str
    state: str
    nonce: str
    verifier: str

    @classmethod
    def to(cls, home: str) -> "Going":
        """A new way."""
        return cls(home, *(secrets.token_urlsafe(32) for _ in range(3)))

    def begin(self, answer: Response, request: Request, seal: TextSealer) -> None:
        """Have the browser keep it; several tabs may be on their way at a time."""
        sealed = seal.close(_KIND, asdict(self), GOING_SECONDS)
        # It is to come along when the provider's page sends the browser back.
        keep(answer, request, _cookie(self.state), sealed, GOING_SECONDS, "lax")

    @classmethod
    def back(cls, request: Request, state: str, seal: TextSealer) -> "Going | None":
        """The way with this state, if it was begun in this browser, and lately."""
        opened = seal.open(_KIND, kept(request, _cookie(state)) or "")
        if opened is None:
            return None
        going = cls(**opened.said)
        is_its = hmac.compare_digest(going.state.encode(), state.encode("utf-8", "surrogatepass"))
        return going if is_its else None

    def end(self, answer: Response, request: Request) -> None:
        """Have the browser keep it no longer."""
        forget(answer, request, _cookie(self.state))


def _cookie(state: str) -> str:
    return f"{_KIND}_{state[:_STATE_CHARS]}"
