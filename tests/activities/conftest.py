"""Fixtures of the tests of activities."""

from tests.catalog.conftest import folder as folder
from tests.catalog.conftest import shop as shop
