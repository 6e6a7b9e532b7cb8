"""Requests that are refused, with a status and a sentence for the sender."""


class RefusedRequest(Exception):
    """A refused request: the HTTP status, and one sentence for the sender."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers or {}


def unauthorized(sentence: str) -> RefusedRequest:
    """Return the refusal of an unauthenticated request."""
    return RefusedRequest(401, sentence, {"WWW-Authenticate": "Bearer"})
