"""What nobody planned: it is logged, and whoever asked is told what to do, with no trace of it."""

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.http.responses import failure


class Failing:
    """An application that answers also where it fails."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            if begun:
                raise  # nothing can be said any more; the server logs it, and cuts the answer off
            await failure(Request(scope), error)(scope, receive, send)
