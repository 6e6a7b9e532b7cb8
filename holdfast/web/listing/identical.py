"""Find pending calls that do the same for the same principal: all approved, it happens twice."""

from collections.abc import Iterable, Mapping
from itertools import chain

from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import PendingApproval, digest_of
from holdfast.schemas.internal.selected_call import SelectedCall


def request_key(one: PendingApproval) -> tuple[str, str]:
    """Return what identical calls have in common: tool and arguments, as a digest, and instance."""
    # The digest of a call is of all arguments, also where the shown ones are cut.
    digest = one.digest if one.kind == "call" else digest_of(one.tool, one.arguments, "call", 1)
    return digest, one.instance or ""


def find_identical(
    pending: Mapping[SelectedCall, PendingApproval], runs: Iterable[RunListing]
) -> dict[SelectedCall, list[SelectedCall]]:
    """Return each call that has identical ones, with all of them, itself included.

    Their runs have the same principal, or else the same agent. A run that is not listed may have
    any principal.
    """
    owners = {run.id: (run.principal, "" if run.principal else run.agent) for run in runs}
    found: dict[object, dict[object, list[SelectedCall]]] = {}
    for call, approval in pending.items():
        same = found.setdefault(request_key(approval), {})
        same.setdefault(owners.get(call.run), []).append(call)
    groups: list[list[SelectedCall]] = []
    for same in found.values():
        groups += [[*chain(*same.values())]] if None in same else same.values()
    return {one: group for group in groups if len(group) > 1 for one in group}
