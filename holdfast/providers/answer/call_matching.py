"""Which parts of an answer are of one call.

Servers send a call again, with its id, in the event that ends the answer, or in a whole message
beside the pieces; and some send its name at one place, its arguments at another. Two equal calls
stay two, unless the answer shows that they are one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.json_fields import read_text

_Part = TypeVar("_Part")
_Whole = TypeVar("_Whole")


class WholeCall(NamedTuple):
    """A call that one event holds; its arguments are a text or an object, or None."""

    name: str
    provider_id: str
    arguments: Any

    @classmethod
    def read(cls, name: Any, provider_id: Any, arguments: Any) -> "WholeCall":
        return cls(read_text(name), read_text(provider_id), arguments)


def matched(
    parts: Sequence[_Part], wholes: Sequence[_Whole], *tests: Callable[[_Part, _Whole], bool]
) -> list[_Part | None]:
    """Return for each item of a whole list the part of the answer so far that it repeats, if any.

    Both are the same by the first of the tests that is true of them.
    """
    found: list[_Part | None] = [None] * len(wholes)
    left = [*parts]
    for is_same in tests:
        for place, whole in enumerate(wholes):
            if found[place] is None:
                found[place] = next((each for each in left if is_same(each, whole)), None)
                left = [each for each in left if each is not found[place]]
    return found


def matched_calls(drafts: list[CallDraft], calls: list[WholeCall]) -> list[CallDraft | None]:
    """Return the draft of each call of a whole list, if pieces of it have come before.

    Some servers number the calls of the list again: an id counts least where it contradicts.
    """

    def has_id(draft: CallDraft, call: WholeCall) -> bool:
        return bool(call.provider_id) and draft.provider_id == call.provider_id

    def can_be(draft: CallDraft, call: WholeCall) -> bool:
        return draft.can_equal(call.name, call.arguments)

    return matched(
        [each for each in drafts if each.name],
        calls,
        lambda draft, call: has_id(draft, call) and can_be(draft, call),
        # A call that was opened without arguments may have any of these.
        lambda draft, call: draft.has_arguments and draft.equals(call.name, call.arguments),
        can_be,
        has_id,
    )


def are_repeated(drafts: list[CallDraft], calls: list[WholeCall]) -> list[bool]:
    """Report for each call of the event that ends an answer whether it came before.

    Some proxies send the whole list of calls again: then all calls so far are in it. An equal call
    with another id is another one.
    """
    found = matched(
        drafts,
        calls,
        lambda draft, call: (
            draft.name == call.name
            and draft.equals(call.name, call.arguments)
            and draft.may_have_id(call.provider_id)
        ),
    )
    is_whole_list = sum(each is not None for each in found) == len(drafts)
    return [is_whole_list and each is not None for each in found]


def distinct_calls(drafts: list[CallDraft]) -> list[CallDraft]:
    """Return the calls that are one each: an empty one is none, nor is one sent again by its id."""
    kept: dict[Any, CallDraft] = {}
    for draft in drafts:
        same = kept.get(draft.provider_id)
        if draft.is_empty:
            continue
        if same is None or not draft.can_equal(same.name, same.text):
            kept[draft if same or not draft.provider_id else draft.provider_id] = draft
        elif len(draft.text) > len(same.text):
            kept[draft.provider_id] = draft
    return list(kept.values())


def join_halves(drafts: list[CallDraft]) -> bool:
    """Join each call without a name with its name, if that came at another place.

    Return false if it is not certain which arguments belong to which name.
    """
    for half in [each for each in drafts if not (each.name or each.is_empty)]:
        named = [each for each in drafts if each.name and each.may_have_id(half.provider_id)]
        open_ = [each for each in named if not each.has_arguments]
        match [each for each in open_ if each.index < half.index] or open_:
            case [name]:
                name.take_arguments(half)
                drafts.remove(half)
            case [] if any(each.equals(each.name, half.text) for each in named):
                drafts.remove(half)
            case _ if named:
                return False
    return True
