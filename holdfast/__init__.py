"""Durable, approval-gated agents on Temporal.

The package imports nothing by itself: it is also loaded inside Temporal's workflow sandbox.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.client.errors import DecisionRejectedError as DecisionRejectedError
    from holdfast.client.errors import HoldfastError as HoldfastError
    from holdfast.client.holdfast_client import HoldfastClient as HoldfastClient
    from holdfast.client.result import RunFailedError as RunFailedError
    from holdfast.client.run import PendingCall as PendingCall
    from holdfast.client.run import Run as Run
    from holdfast.client.run_lists import RunFilter as RunFilter
    from holdfast.definitions.agent import Agent as Agent
    from holdfast.definitions.agent import Skill as Skill
    from holdfast.definitions.run_request import execute_agent as execute_agent
    from holdfast.definitions.tool import Approval as Approval
    from holdfast.definitions.tool import tool as tool
    from holdfast.hosting.plugin import HoldfastPlugin as HoldfastPlugin
    from holdfast.runtime.attachments import read_file as read_file
    from holdfast.schemas.budget import Budget as Budget
    from holdfast.schemas.run import CallContext as CallContext
    from holdfast.schemas.settings.budgets import SharedBudget as SharedBudget

_MODULES = {
    "Agent": "holdfast.definitions.agent",
    "Approval": "holdfast.definitions.tool",
    "Budget": "holdfast.schemas.budget",
    "CallContext": "holdfast.schemas.run",
    "DecisionRejectedError": "holdfast.client.errors",
    "HoldfastClient": "holdfast.client.holdfast_client",
    "HoldfastError": "holdfast.client.errors",
    "HoldfastPlugin": "holdfast.hosting.plugin",
    "PendingCall": "holdfast.client.run",
    "Run": "holdfast.client.run",
    "RunFailedError": "holdfast.client.result",
    "RunFilter": "holdfast.client.run_lists",
    "SharedBudget": "holdfast.schemas.settings.budgets",
    "Skill": "holdfast.definitions.agent",
    "execute_agent": "holdfast.definitions.run_request",
    "read_file": "holdfast.runtime.attachments",
    "tool": "holdfast.definitions.tool",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        from holdfast.schemas.names import DISTRIBUTION

        return version(DISTRIBUTION)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
