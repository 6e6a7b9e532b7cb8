"""How a place is named: what is a reference, and what is a text like any other."""

import pytest

from holdfast.schemas.reference import (
    MAX_PATHS,
    MAX_STEPS,
    OutputPath,
    Path,
    Reference,
    argument_path,
    parse_output_path,
    parse_reference,
    replace_inside,
)

A, B = Path("state", ("a",)), Path("state", ("b",))


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("†state", Reference((Path("state"),))),
        ("†state.a", Reference((A,))),
        ("†input.items[0].id", Reference((Path("input", ("items", 0, "id")),))),
        ("†order-data.x", Reference((Path("order-data", ("x",)),))),
        ("†state.größe", Reference((Path("state", ("größe",)),))),
        ("†state.0", Reference((Path("state", ("0",)),))),
        ("†state.items[-1].id", Reference((Path("state", ("items", -1, "id")),))),
        ('†state.h["content-type"][0]', Reference((Path("state", ("h", "content-type", 0)),))),
        ("†state['a.b c'].d", Reference((Path("state", ("a.b c", "d")),))),
        (r'†state["a\"]\\ [b"]', Reference((Path("state", ('a"]\\ [b',)),))),
        ("†state['\"†}']", Reference((Path("state", ('"†}',)),))),
        ("  †state.a  ", Reference((A,))),
        ("†state.a || †state.b", Reference((A, B), "first")),
        ("†state.a||†state.b", Reference((A, B), "first")),
        ("†state.a && †state.b", Reference((A, B), "all")),
    ],
)
def test_a_reference_is_a_kind_and_the_steps_to_a_place(text: str, reference: Reference) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    "text",
    [
        "",
        "†",
        "† see below",
        "state.a",
        "†state.",
        "†state..a",
        "†state[x]",
        "†state[--1]",
        "†state[1234567890]",
        '†state[""]',
        '†state["a]',
        "†state['a\"]",
        r'†state["\n"]',
        '†state["a"',
        '†state."a"].b',
        "†.a",
        "†1a",
        "†state.a b",
        "†state.a ||",
        "†state.a || b",
        "†state.a && †state.b || †state.c",
        "†{state.a}",
        "†state." + "k" * 201,
        "†state" + ".k" * (MAX_STEPS + 1),
        " || ".join(["†state.a"] * (MAX_PATHS + 1)),
    ],
)
def test_what_is_no_reference_is_a_text_like_any_other(text: str) -> None:
    assert parse_reference(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("†state", "†state.a[0].b", "†input.items[12]", "†state.items[-2]"),
        *('†state.h["content-type "].b', r'†state[" \"\\"]', '†state["a.b"][-1]'),
    ],
)
def test_a_path_is_written_as_it_was_read(text: str) -> None:
    reference = parse_reference(text)
    assert reference is not None
    assert str(reference.paths[0]) == text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("†state.a", OutputPath((A,))),
        ("†state.a && †state.b", OutputPath((A, B))),
        ("†state.a || †state.b", OutputPath((A,), (B,))),
        ("†orders.a", OutputPath((Path("orders", ("a",)),))),
        ('†orders["a b"]', OutputPath((Path("orders", ("a b",)),))),
    ],
)
def test_an_output_path_is_where_results_and_errors_are_written(
    text: str, path: OutputPath
) -> None:
    assert parse_output_path(text) == path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("order.id", "names no place to write to; write it like `†state.order.id`"),
        ("†state", "names no place to write to"),
        ("†state.a && †state", "names no place to write to"),
        ("†input.a", "a run's input is never written to"),
        ("†state.a || †input.b", "a run's input is never written to"),
        ("†state.a || †state.b || †state.c", "`||` takes two places"),
        ("†state.a[-1]", "an index from the end is not written to; name the whole list"),
        ("†state.a || †state.b[-1].c", "an index from the end is not written to"),
        ("x" * 1000, "x" * 200 + "` names no place"),
    ],
)
def test_an_output_path_that_names_no_such_place_is_refused_with_the_reason(
    text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse_output_path(text)
    assert why in str(refused.value)


def test_each_reference_inside_a_text_is_replaced_once() -> None:
    """What takes a reference's place may look like one, and stays as it is."""
    replaced = replace_inside(
        "†{state.a}, †{state.b}; †{ }, †{state.a", lambda path: f"†{{{path}}}"
    )

    assert replaced == "†{†state.a}, †{†state.b}; †{ }, †{state.a"


@pytest.mark.parametrize(
    "text",
    [
        "†a.b||" * 150_000,
        "†a.b||†a.b && " * 70_000,
        "†state" + ".x" * 400_000,
        "†{state" + ".x" * 400_000 + "}",
        "†{a.b" * 200_000,
        "†{" + "a" * 1_000_000,
        "†state." + "k" * 1_000_000,
        " " * 1_000_000 + "†",
        "†state" + '["x"]' * 200_000,
        '†{state["' + "\\\\" * 500_000,
        "†{state['" + "k" * 1_000_000,
    ],
    ids=[
        *("or", "and or", "steps", "steps inside", "open", "kind", "key", "blank"),
        *("quoted keys", "open quote", "open single quote"),
    ],
)
def test_reading_an_absurd_text_is_quick(text: str) -> None:
    assert parse_reference(text) is None
    replace_inside(text, str)


@pytest.mark.parametrize(
    ("written", "read", "is_one"),
    [
        ("†state.items[2]", "†state.items[-1].id", True),
        ("†state.items", "†state.items[-1]", True),
        ("†state", "†state.items[-1]", True),
        ("†state.items[2].id", "†state.items[-1]", True),
        ("†state.others", "†state.items[-1]", False),
        ("†state.items[2]", "†state.items[1]", False),
        ('†state["items"][2]', "†state.items[2].id", True),
    ],
)
def test_an_index_from_the_end_may_be_of_any_item(written: str, read: str, *, is_one: bool) -> None:
    place, path = (parse_reference(text).paths[0] for text in (written, read))  # type: ignore[union-attr]

    assert place.overlaps(path) is is_one
    assert path.overlaps(place) is is_one


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("user", ("user",)),
        ("lines[-1].sku", ("lines", -1, "sku")),
        ('["a b"]', ("a b",)),
        ("[0]", None),
        ("†state.user", None),
        ("user || system", None),
        ("", None),
    ],
)
def test_a_place_in_the_arguments_begins_with_a_parameter(
    text: str, steps: tuple[str | int, ...] | None
) -> None:
    path = argument_path(text)

    assert (path and path.steps) == steps
