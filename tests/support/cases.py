"""Many cases of one promise: a few of them for `make test`, the others for `make test-slow`."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_of(names: Iterable[str], kept: Container[str]) -> list[Any]:
    """Return the names of cases for `parametrize`; those that are not kept are slow."""
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]
