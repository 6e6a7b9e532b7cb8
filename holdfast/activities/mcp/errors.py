"""The errors of requests to MCP servers: each states whether the server has received it."""

from holdfast.schemas.names import ErrorCode


class ServerUnreachableError(Exception):
    """A server has not received a request, or has refused it unread."""


class SessionEndedError(ServerUnreachableError):
    """A server has refused a request unread, and may accept it on a new connection."""


class NoResultError(Exception):
    """A server has replied, and the call has no result: it failed, or its outcome is unknown."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.TOOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


def describe(error: BaseException) -> str:
    """Return the text of an error in one line, or its type; of a group, that of the first in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split()) or type(error).__name__
