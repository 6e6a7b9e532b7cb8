"""The steps of a workflow: the engine returns the next one, and the workflow executes it."""

from dataclasses import dataclass

from holdfast.schemas.agent import BudgetName
from holdfast.schemas.base import Duration
from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.schemas.run import RunResult
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.tool_call import Turn


@dataclass(frozen=True)
class AskModel:
    """Make one request to the model, with the log up to the pointer."""

    pointer: ConversationPointer


@dataclass(frozen=True)
class RunCalls:
    """Run the calls of a turn."""

    turn: Turn


@dataclass(frozen=True)
class AskPeople:
    """Wait until people have extended a budget or ended the run."""

    question: Question
    budget: BudgetName


@dataclass(frozen=True)
class AwaitMessage:
    """Wait for the next message of a conversation, or until it is closed."""

    idle_timeout: Duration | None


@dataclass(frozen=True)
class Finish:
    """The run ends with a result."""

    result: RunResult


@dataclass(frozen=True)
class Fail:
    """The run ends with an error."""

    code: str
    message: str


Step = AskModel | RunCalls | AskPeople | AwaitMessage | Finish | Fail
