"""The interceptors of a worker's activities, as the one that the SDK takes."""

from collections.abc import Callable

from temporalio.worker import ActivityInboundInterceptor, Interceptor

# Returns an interceptor of one execution around another one.
WrapActivity = Callable[[ActivityInboundInterceptor], ActivityInboundInterceptor]


class ActivityInterceptors(Interceptor):
    """Wraps each execution in several interceptors, the outermost first."""

    def __init__(self, *wraps: WrapActivity) -> None:
        self.wraps = wraps

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        for wrap in reversed(self.wraps):
            inner = wrap(inner)
        return inner
