"""Many cases of one promise: a few of them for `make test`, the others for `make test-slow`."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_of(cases: Iterable[Any], kept: Container[Any]) -> list[Any]:
    """Return cases for `parametrize`; those that are not kept are slow."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.slow) for case in cases]
