"""Callers of the MCP server: whose runs a client may read, and whose answers in it decide.

A client's answers decide only where the operator trusts it to show approvals to a person: over
standard input and output, the operator names that person; over HTTP, the operator lists clients,
and a token names the client and the person. Nothing else in a request makes a client trusted.
"""

from dataclasses import dataclass
from typing import Any

from holdfast.web.auth.sessions import Person


@dataclass(frozen=True)
class Caller:
    """The owner of a request's runs, their principal, and who decides in a trusted client."""

    owner: str = ""
    principal: dict[str, Any] | None = None
    approver: Person | None = None
