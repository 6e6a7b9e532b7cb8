"""Whether what a form says can be sent: everything was read, and fits the schema.

The check is the run's own, so nothing passes here that the run would refuse for its form.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.validation.validator import Violation, violations
from holdfast.web.forms.control_names import MISSING, Misread, Place
from holdfast.web.forms.fields import Field
from holdfast.web.forms.hints import asked_for


def wrong(value: Any, schema: Any) -> list[Violation]:
    """What keeps a value from being sent; where something was not read, that alone."""
    unread = [Violation(place, "", "") for place in _misread(value, ())]
    if unread:
        return unread
    if value is MISSING:
        return [Violation((), "required", "This is needed.")]
    found = [each for one in violations(value, schema) for each in _placed(one, value)]
    return [_plainly(one) for one in found]


def _plainly(found: Violation) -> Violation:
    """What is of another format is told by what to write: `'' is not a 'date'`."""
    if found.keyword != "format":
        return found
    _, _, name = found.said.rpartition(" is not a ")
    return Violation(found.place, found.keyword, asked_for(name.strip("'")))


def _misread(value: Any, place: Place) -> Iterator[Place]:
    match value:
        case Misread():
            yield place
        case dict():
            for key, inner in value.items():
                yield from _misread(inner, (*place, key))
        case list():
            for index, inner in enumerate(value):
                yield from _misread(inner, (*place, index))


def _placed(found: Violation, value: Any) -> list[Violation]:
    """What is missing is told at its own place, and not around it."""
    if found.keyword != "required":
        return [found]
    for step in found.place:
        value = value[step]
    name = next((key for key in _quoted(found.said) if key not in value), None)
    return [
        found if name is None else Violation((*found.place, name), "required", "This is needed.")
    ]


def _quoted(said: str) -> Iterator[str]:
    """The property that a message is about: `'amount' is a required property`."""
    name, _, _ = said.rpartition(" is a required property")
    if len(name) > 2:
        yield name[1:-1]


def faults(whole: Field) -> list[tuple[Field, str]]:
    """Everything that is wrong, with the field that it stands beside."""
    return [(one, said) for one in whole.all() for said in one.wrong]
