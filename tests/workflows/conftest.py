"""A worker for each test, and a ledger of the effects of its tools."""

from tests.support.fixtures import launch, ledger

__all__ = ["launch", "ledger"]
