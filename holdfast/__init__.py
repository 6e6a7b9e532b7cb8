"""Durable, approval-gated agents on Temporal.

The package imports nothing by itself: it is also loaded inside Temporal's workflow sandbox.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.hosting.plugin import HoldfastPlugin as HoldfastPlugin

__all__ = ["HoldfastPlugin"]


def __getattr__(name: str) -> Any:
    if name == "HoldfastPlugin":
        from holdfast.hosting.plugin import HoldfastPlugin

        return HoldfastPlugin
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
