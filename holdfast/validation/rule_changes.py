"""Rules that changed while runs were open: a run that decided by the old rule continues with it.

A run that began before them asks `temporalio.workflow.patched`, which records a marker in the
history, so that a replay decides the same. Elsewhere, every change applies.
"""

from collections.abc import Callable
from contextvars import ContextVar

_applies: ContextVar[Callable[[str], bool]] = ContextVar("_applies", default=lambda _: True)


def use_rule_changes(check: Callable[[str], bool]) -> None:
    """Set the function that decides for this asyncio task and those that it starts."""
    _applies.set(check)


def applies(change: str) -> bool:
    """Return whether the new rule is used; call it only where the two rules differ."""
    return _applies.get()(change)
