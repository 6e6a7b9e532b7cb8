"""The interceptors of a worker's activities, as the one that the SDK takes."""

from collections.abc import Callable, Collection

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, Interceptor

from holdfast.schemas import names

# Returns an interceptor of one execution around another one.
WrapActivity = Callable[[ActivityInboundInterceptor], ActivityInboundInterceptor]


class ActivityInterceptors(Interceptor):
    """Wraps each execution in several interceptors, the outermost first.

    With `ours`, activities of other names are wrapped in runs of Holdfast alone.
    """

    def __init__(self, *wraps: WrapActivity, ours: Collection[str] | None = None) -> None:
        self.wraps, self._ours = wraps, ours

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        info = activity.info()
        is_theirs = self._ours is not None and info.activity_type not in self._ours
        if is_theirs and info.workflow_type not in names.WORKFLOWS:
            return inner
        for wrap in reversed(self.wraps):
            inner = wrap(inner)
        return inner
