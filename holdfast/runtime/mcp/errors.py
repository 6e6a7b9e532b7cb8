"""The errors of requests to MCP servers: each states whether the server has received it."""

from holdfast.runtime.text_safety import as_json, one_line
from holdfast.schemas.names import ErrorCode

_QUOTED_CHARS = 300


class ServerUnreachableError(Exception):
    """A server has not received a request, or has refused it unread."""


class SessionEndedError(ServerUnreachableError):
    """A server has refused a request unread, and may accept it on a new connection."""


class UnreadableReplyError(ConnectionResetError):
    """A server may have run a call, and its reply has no result that can be read."""


class NoResultError(Exception):
    """A server has replied, and the call has no result: it failed, or its outcome is unknown."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.TOOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


def quote(text: str) -> str:
    """Return a server's text as a person reads it: quoted, cut, and clean."""
    return as_json(one_line(text.replace("`", "'"), _QUOTED_CHARS))


def no_result(error: Exception) -> str:
    """Return why a call has no result: no reply, or one that cannot be read."""
    is_read = isinstance(error, UnreadableReplyError)
    return f"{'the reply has no result' if is_read else 'no reply was received'}: {error}"


def describe(error: BaseException) -> str:
    """Return the text of an error in one line, or its type; of a group, that of the first in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split()) or type(error).__name__
