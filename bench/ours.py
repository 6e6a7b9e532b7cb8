"""How a history of ours is replayed."""

from typing import Any

from hosting.sandbox import sandbox
from hosting.temporal import data_converter
from workflows.agent import AgentWorkflow

REPLAYED: dict[str, Any] = {
    "workflows": [AgentWorkflow],
    "workflow_runner": sandbox(),
    "data_converter": data_converter,
}
