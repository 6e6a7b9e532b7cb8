"""A worker for each test, and a ledger of what its tools did: as for `tests/workflows`."""

from tests.workflows.conftest import ledger, open_house

__all__ = ["ledger", "open_house"]
