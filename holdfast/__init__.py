"""Durable, approval-gated agents on Temporal.

The package imports nothing by itself: it is also loaded inside Temporal's workflow sandbox.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
