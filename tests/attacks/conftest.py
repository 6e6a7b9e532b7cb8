"""A worker for each test, and a ledger of the effects of its tools."""

from tests.support.fixtures import ledger, open_house

__all__ = ["ledger", "open_house"]
