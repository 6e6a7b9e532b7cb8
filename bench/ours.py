"""How a history of ours is replayed."""

from typing import Any

from holdfast.hosting.sandbox import sandbox
from holdfast.hosting.temporal import data_converter
from holdfast.workflows.agent import AgentWorkflow

REPLAYED: dict[str, Any] = {
    "workflows": [AgentWorkflow],
    "workflow_runner": sandbox(),
    "data_converter": data_converter,
}
