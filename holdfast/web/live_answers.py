"""The address at which workers connect to send the answers that models are writing.

It is not for people: the shared key alone opens it, without a session, and nothing else.
"""

import hmac

from starlette.routing import Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.schemas.internal.live_answer import LIVE_ANSWERS_PATH
from holdfast.web.codec.shared_secret import digest


def with_live_answers(app: ASGIApp, live: LiveAnswers, key: str) -> ASGIApp:
    """Return the application, which also receives live answers of the workers that have the key."""
    secret = digest(key)

    async def serve(worker: WebSocket) -> None:
        _, _, shown = worker.headers.get("authorization", "").partition(" ")
        # Wrong keys are not counted: behind a proxy, all workers have the address of the guesser.
        if not hmac.compare_digest(digest(shown.strip()), secret):
            await worker.close()  # the handshake is answered with 403
            return
        await worker.accept()
        await live.serve(worker.iter_bytes(), worker.send_text)

    workers = Router([WebSocketRoute(LIVE_ANSWERS_PATH, serve)])

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (workers if scope["type"] == "websocket" else app)(scope, receive, send)

    return answer
