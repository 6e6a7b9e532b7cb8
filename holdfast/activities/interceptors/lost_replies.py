"""The errors of client libraries after which the outcome of a request is unknown.

The request was sent, or may have been, and no complete reply came. The errors are recognized by the
names of their types, so that no library is imported. An error that is known to occur before a
request is sent, such as a refused connection, is none of them; it also explains the errors of
Python that it was made from.
"""

from typing import Final

# The names of types, by their package.
LOST_REPLIES: Final = {
    "httpx": "ReadTimeout ReadError WriteTimeout WriteError RemoteProtocolError",
    "requests": "ReadTimeout ChunkedEncodingError",
    "urllib3": "ReadTimeoutError ProtocolError IncompleteRead InvalidChunkLength",
    "aiohttp": "ServerDisconnectedError SocketTimeoutError ServerTimeoutError ClientOSError"
    " ClientPayloadError",
    "botocore": "ReadTimeoutError ConnectionClosedError HTTPClientError ResponseStreamingError"
    " IncompleteReadError",
    "http": "RemoteDisconnected IncompleteRead BadStatusLine",
    "asyncio": "IncompleteReadError",
    "builtins": "ConnectionResetError ConnectionAbortedError BrokenPipeError TimeoutError",
}
NOT_SENT: Final = {
    "httpx": "ConnectTimeout ConnectError PoolTimeout",
    "requests": "ConnectTimeout ProxyError SSLError",
    "urllib3": "NewConnectionError ConnectTimeoutError NameResolutionError",
    "aiohttp": "ConnectionTimeoutError ClientConnectorError ClientConnectorDNSError",
    "botocore": "ConnectTimeoutError EndpointConnectionError ProxyConnectionError",
}
# The status codes of gRPC's errors, which all have the same types.
LOST_STATUSES: Final = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE")


def lost_reply(error: BaseException) -> str | None:
    """Return the first error of a chain that leaves the outcome unknown, as `package.Type: text`.

    `raise … from None` ends the chain.
    """
    was_not_sent, errors = False, [error]
    for each in errors:  # it grows meanwhile
        package, name = type(each).__module__.partition(".")[0], type(each).__name__
        was_not_sent = was_not_sent or name in NOT_SENT.get(package, "").split()
        code = getattr(each, "code", None) if package == "grpc" else None
        has_lost_status = callable(code) and getattr(code(), "name", "") in LOST_STATUSES
        is_lost = name in LOST_REPLIES.get(package, "").split() or has_lost_status
        if is_lost and not (was_not_sent and package == "builtins"):
            return f"{package}.{name}: {each}" if str(each) else f"{package}.{name}"
        causes = list(each.exceptions) if isinstance(each, BaseExceptionGroup) else []
        causes += [each.__cause__, None if each.__suppress_context__ else each.__context__]
        errors += [cause for cause in causes if cause is not None and cause not in errors]
    return None
