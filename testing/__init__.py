"""The test kit: runs of agents in pytest, with answers in place of a model.

pytest loads its plugin wherever Holdfast is installed, so the package imports nothing by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.runs import HoldfastRun as HoldfastRun
    from holdfast.testing.runs import RunUnderTest as RunUnderTest
    from holdfast.testing.runs import assert_replays as assert_replays
    from holdfast.testing.scripted_model import ModelRequest as ModelRequest
    from holdfast.testing.scripted_model import call as call

_RUNS = ("HoldfastRun", "RunUnderTest", "assert_replays")


def __getattr__(name: str) -> Any:
    if name in (*_RUNS, "ModelRequest", "call"):
        module = "runs" if name in _RUNS else "scripted_model"
        return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
