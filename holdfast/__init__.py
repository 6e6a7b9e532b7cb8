"""Durable, approval-gated agents on Temporal.

The package imports nothing by itself: it is also loaded inside Temporal's workflow sandbox.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.hosting.plugin import HoldfastPlugin as HoldfastPlugin
    from holdfast.schemas.run import CallContext as CallContext

__all__ = ["CallContext", "HoldfastPlugin"]

_MODULES = {
    "CallContext": "holdfast.schemas.run",
    "HoldfastPlugin": "holdfast.hosting.plugin",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
