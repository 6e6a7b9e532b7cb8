"""Reading references: every one gives way to the value that it names."""

from typing import Any

import pytest

from holdfast.workflows.engine.state.data import Data, VisibleData
from holdfast.workflows.engine.state.references import MAX_RESOLVED_BYTES, Unresolved, resolve

STATE = {
    "name": "Ann",
    "order": {"id": 7, "items": [{"sku": "x"}, {"sku": "y"}]},
    "nothing": None,
    "sly": "†{state.name} †state.name",
}


@pytest.fixture
def data() -> VisibleData:
    found = Data()
    found.set("state", STATE)
    found.set("input", "refund it")
    found.set("customer", {"vip": True})
    return VisibleData(found)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("†state.order.id", 7),
        ("†state.order.items[1].sku", "y"),
        ("†state.order.items[-1].sku", "y"),
        ("†state.order.items[-2].sku", "x"),
        ("†state['order'][\"items\"][0]", {"sku": "x"}),
        ("†state.order", STATE["order"]),
        ("†state", STATE),
        ("†input", "refund it"),
        ("†customer.vip", True),
        ("†state.nothing", None),
        ("†state.none || †state.name", "Ann"),
        ("†state.name || †state.none", "Ann"),
        ("†state.name && †state.order.id", 7),
        ("order †{state.order.id} of †{state.name}", "order 7 of Ann"),
        ("†{state.order.items}", '[{"sku": "x"}, {"sku": "y"}]'),
        ("†{customer.vip} †{state.nothing}", "true null"),
        ("an † alone", "an † alone"),
        ("† 1999", "† 1999"),
        ("see below†", "see below†"),
        (5, 5),
        (None, None),
    ],
)
def test_a_reference_resolves_to_the_value_with_its_type(
    written: Any, value: Any, data: VisibleData
) -> None:
    assert resolve(written, data) == value
    assert resolve({"a": [written]}, data) == {"a": [value]}


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("†state.none", "there is no value at †state.none"),
        ("†nobody.name", "there is no value at †nobody.name"),
        ("†state.order.items[2]", "there is no value at †state.order.items[2]"),
        ("†state.order.items[-3]", "there is no value at †state.order.items[-3]"),
        ("†state['or der'].x", 'there is no value at †state["or der"].x'),
        ("†state.order.items.sku", "there is no value at †state.order.items.sku"),
        ("†state.name[0]", "there is no value at †state.name[0]"),
        ("†state.none || †state.no", "there is no value at †state.none or †state.no"),
        ("†state.name && †state.no", "there is no value at †state.no"),
        ("Dear †{state.no}", "there is no value at †state.no"),
    ],
)
def test_a_reference_to_nothing_names_the_empty_place(
    written: str, why: str, data: VisibleData
) -> None:
    with pytest.raises(Unresolved) as unresolved:
        resolve({"a": written}, data)
    assert str(unresolved.value) == why


@pytest.mark.parametrize(
    "written",
    [
        "†state.order.items[last].sku",
        "†state.order.items[*]",
        "†state.order.items[-]",
        '†state.order["id]',
        "†state.order.items[0",
        "†state..id",
        "†††",
        "†[0]",
        "† state.order.id",
        "†state.name is our customer",
        "†state.order || none",
        "Dear †{state.name",
        "†{state.name} and †{state.order.items[last]}",
    ],
)
def test_what_begins_as_a_reference_and_is_none_is_no_value(
    written: str, data: VisibleData
) -> None:
    with pytest.raises(Unresolved) as unresolved:
        resolve({"a": [{"b": "x"}, {"b": written}]}, data)
    assert str(unresolved.value).startswith(f"a[1].b: `{written}` is no reference; write ")


def test_a_value_that_took_a_references_place_is_not_looked_through_again(
    data: VisibleData,
) -> None:
    sly = STATE["sly"]

    assert resolve("†state.sly", data) == sly
    assert resolve("†{state.sly} †{state.name}", data) == f"{sly} Ann"
    assert resolve("†{state.name} †{state.sly}", data) == f"Ann {sly}"


@pytest.mark.parametrize(
    "written",
    [
        ["†state.big"] * 50_000,
        "†{state.big}" * 50_000,
        {str(n): "†state.big && †state.big" for n in range(10_000)},
    ],
    ids=["list", "text", "object"],
)
def test_the_values_of_a_calls_references_are_bounded(written: Any) -> None:
    data = Data()
    data.set("state", {"big": "x" * (MAX_RESOLVED_BYTES // 2)})
    with pytest.raises(Unresolved, match="exceed 1000000 bytes in all"):
        resolve(written, VisibleData(data))
