"""What can go wrong with one call, and how it is said.

A failure never ends a run: it becomes the call's result, which the model reads.
"""

from enum import StrEnum

from holdfast.schemas.base import Lenient


class ErrorCode(StrEnum):
    """Why a call has no result of its own."""

    TOOL_NOT_ALLOWED = "tool_not_allowed"
    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_OUTPUT = "invalid_output"
    UNRESOLVED_REFERENCE = "unresolved_reference"
    DENIED = "denied"
    APPROVAL_TIMEOUT = "approval_timeout"
    TIMEOUT = "timeout"
    TOOL_ERROR = "tool_error"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOKEN_SCOPE_INSUFFICIENT = "token_scope_insufficient"
    BLOCKED = "blocked"
    DELEGATE_FAILED = "delegate_failed"
    CANCELLED = "cancelled"


class CallError(Lenient):
    """The error of one call: its code, and a message for the model."""

    code: ErrorCode
    message: str
