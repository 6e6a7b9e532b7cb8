"""What tests in a browser share with those that need none: an inbox, and runs that wait."""

from tests.web.conftest import crowd, patience, stage

__all__ = ["crowd", "patience", "stage"]
