"""Requests that are not served, and what is said to whoever sent them."""


class RefusedRequest(Exception):
    """A request that is not served: the HTTP status, and one sentence for whoever sent it."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


def unauthorized(sentence: str) -> RefusedRequest:
    """Nobody is let in who is not known."""
    return RefusedRequest(401, sentence, {"WWW-Authenticate": "Bearer"})
