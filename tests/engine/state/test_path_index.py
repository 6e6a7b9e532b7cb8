"""Places are found by the places near them as if each were compared with each other one."""

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.schemas.reference import Path
from holdfast.workflows.engine.state.data import PathIndex
from tests.engine.generated import part_in_a_list

STEPS = st.lists(st.sampled_from(["a", "b", 0, 1]), max_size=3).map(tuple)
PATHS = st.builds(Path, st.sampled_from(["state", "order"]), STEPS, st.sampled_from([None, "one"]))
SOME = st.lists(PATHS, max_size=4)
WRITTEN = st.lists(SOME, max_size=6)


def places_of(written: list[list[Path]]) -> PathIndex[int]:
    found = PathIndex[int]()
    for who, places in enumerate(written):
        for place in places:
            found.add(place, who)
    return found


@given(WRITTEN, SOME)
def test_who_meets_some_of_these_places(written: list[list[Path]], asked: list[Path]) -> None:
    meeting = places_of(written).meeting(asked)

    assert sorted(meeting) == [
        who
        for who, places in enumerate(written)
        if any(place.overlaps(one) for place in places for one in asked)
    ]


@given(WRITTEN, SOME)
@example([[Path("state", (0, "a"))]], [Path("state", (0, "b")), Path("state", (1,))])
def test_whose_writes_cross_some_of_these_places(
    written: list[list[Path]], asked: list[Path]
) -> None:
    crossing = places_of(written).crossing(asked)

    assert sorted(crossing) == [
        who
        for who, places in enumerate(written)
        if any(
            place.overlaps(one) or part_in_a_list(place, one) for place in places for one in asked
        )
    ]


@given(WRITTEN, PATHS)
def test_whose_places_a_place_is_in(written: list[list[Path]], asked: Path) -> None:
    found = places_of(written)

    assert sorted(found.covering(asked)) == [
        who for who, places in enumerate(written) if any(place.covers(asked) for place in places)
    ]
    assert found.meets(asked) == bool(found.meeting([asked]))
