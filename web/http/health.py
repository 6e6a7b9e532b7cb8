"""`/health`: the state of the inbox, for probes."""

import asyncio
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from temporalio.client import Client
from temporalio.service import RPCError

HEALTH: Final = "/health"
# The minimum between two queries, however many probes there are.
BETWEEN_LOOKS_SECONDS: Final = 1.0
ANSWER_TIMEOUT_SECONDS: Final = 2.0


class InboxHealth:
    """Queries Temporal, and caches the result for a moment."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looking = asyncio.Lock()
        self._look_at = 0.0
        self._is_good = False

    async def answer(self, request: Request) -> Response:
        """Return 200 while Temporal answers, else 503."""
        async with self._looking:
            if time.monotonic() >= self._look_at:
                self._is_good = await self._look()
                self._look_at = time.monotonic() + BETWEEN_LOOKS_SECONDS
        said = "ok" if self._is_good else "Temporal does not answer"
        return JSONResponse({"status": said}, 200 if self._is_good else 503)

    async def _look(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await self._client.service_client.check_health()
        except (RPCError, RuntimeError, TimeoutError):  # RuntimeError: the client never connected
            return False
