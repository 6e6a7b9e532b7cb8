"""How a history of ours is replayed."""

from typing import Any

from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from holdfast.runtime.data_converter import data_converter
from holdfast.workflows.agent import AgentWorkflow

REPLAYED: dict[str, Any] = {
    "workflows": [AgentWorkflow],
    "workflow_runner": workflow_runner(),
    "data_converter": data_converter,
}
