"""Whatever graph of calls a turn is: what always holds of it."""

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.base import canonical_json
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.reference import Path, parse_output_path, parse_reference, references_in
from holdfast.workflows.engine.call.outcomes import fail
from holdfast.workflows.engine.state.data import MISSING, Data
from tests.engine.driver import Play, call, reply, tool
from tests.engine.generated import part_in_a_list

PLACES = ["a", "b", "c", "d", "a.x", "a.y", "b.z", "l[0]", "l[1]"]
METHODS = ["set", "set", "set", "merge", "assign", "push", "concat"]
VALUES: list[Any] = [1, "text", {"x": 1}, {"z": {"deep": 2}}, [1], {"x": {"y": [3]}}]
BROKEN = fail(ErrorCode.TOOL_ERROR, "no")
WRITER = {"_outputPath": {"type": "string"}, "_outputMethod": {"type": "string"}}


@dataclass(frozen=True)
class Planned:
    """One call of a turn: what it refers to, where it writes, and how it ends."""

    reads: tuple[str, ...]
    writes: str | None
    method: str
    value: Any
    fails: bool
    asks: bool

    def written(self) -> Any:
        meta = {"_outputPath": self.writes, "_outputMethod": self.method} if self.writes else {}
        return call("pay" if self.asks else "do", {"reads": list(self.reads), **meta})


def _reference(first: str, second: str, how: str) -> str:
    return {"one": f"†state.{first}", "text": f"see †{{state.{first}}}"}.get(
        how, f"†state.{first} {how} †state.{second}"
    )


REFERENCES = st.builds(
    _reference,
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
    st.sampled_from(["one", "one", "text", "||", "&&"]),
)
outputs = (
    st.none()
    | st.sampled_from(PLACES).map("†state.{}".format)
    | st.builds(
        "†state.{} {} †state.{}".format,
        st.sampled_from(PLACES),
        st.sampled_from(["||", "&&"]),
        st.sampled_from(PLACES),
    )
)
planned = st.builds(
    Planned,
    st.lists(REFERENCES, max_size=2).map(tuple),
    outputs,
    st.sampled_from(METHODS),
    st.sampled_from(VALUES),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, True]),
)
TURNS = st.lists(planned, min_size=1, max_size=7)
STATES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(VALUES), max_size=2)


class Played:
    """A turn with these calls, executed in an order that chance chooses.

    `order` is when calls really started and ended, which the log does not have; `given` is what the
    activity of each was given.
    """

    def __init__(self, calls: list[Planned], state: dict[str, Any], seed: int) -> None:
        self.order: list[tuple[str, str]] = []
        self.given: dict[str, Any] = {}
        ids = [f"t1c{n}" for n in range(1, len(calls) + 1)]
        self.play = Play(
            tool("do", chosen=WRITER),
            tool("pay", chosen=WRITER, side_effects=True),
            model=[reply("", *[each.written() for each in calls]), reply("done")],
            outcomes={id: self._ending(each) for id, each in zip(ids, calls, strict=True)},
            decisions={id: ["approve"] for id in ids},
            pick=random.Random(seed).randrange,
            state=state,
        )
        append = self.play.log.append

        def watched(entry: Any) -> Any:
            if entry.type == "tool_start":
                self.order.append(("start", entry.call_id))
            return append(entry)

        self.play.log.append = watched  # type: ignore[method-assign]  # to see the order of both
        self.play.to_end()

    def _ending(self, each: Planned) -> Any:
        def ended(one: Any) -> Any:
            self.order.append(("end", one.id))
            self.given[one.id] = one.arguments
            return BROKEN if each.fails else each.value

        return ended

    @property
    def codes(self) -> dict[str, str | None]:
        return self.play.errors()

    @property
    def started(self) -> list[str]:
        return [id for what, id in self.order if what == "start"]


def writers_of(calls: list[Planned], reader: int, place: str) -> list[int]:
    """Every other call that writes a place, or around it, or inside it."""
    [path] = parse_reference(place).paths  # type: ignore[union-attr]  # it is one
    return [
        index
        for index, each in enumerate(calls)
        if index != reader and each.writes and any(path.overlaps(p) for p in _places(each.writes))
    ]


def _places(written: str) -> list[Any]:
    output = parse_output_path(written)
    return [*output.result, *output.error]


@given(TURNS, STATES, st.integers(0, 999), st.integers(0, 999))
def test_it_does_not_matter_which_call_ends_first(
    calls: list[Planned], state: dict[str, Any], one: int, other: int
) -> None:
    first, second = Played(calls, state, one), Played(calls, state, other)

    assert first.codes == second.codes
    assert first.given == second.given
    assert first.play.result == second.play.result
    assert first.play.results() == second.play.results()
    writes = [played.play.records("write") for played in (first, second)]
    assert writes[0] == writes[1]


@given(TURNS, STATES, st.integers(0, 999))
def test_everything_that_can_run_runs(
    calls: list[Planned], state: dict[str, Any], seed: int
) -> None:
    played = Played(calls, state, seed)
    started = played.started
    for index, each in enumerate(calls):
        mine = f"t1c{index + 1}"
        free = not each.reads and not (each.writes and _crossed(calls, index))
        if free:
            assert mine in started, "nothing is in its way"
        if mine not in started:
            assert played.codes[mine] == "unresolved_reference"


@given(st.lists(planned, min_size=3, max_size=6), STATES, st.integers(0, 999))
def test_what_does_not_run_refers_to_what_is_not_there(
    calls: list[Planned], state: dict[str, Any], seed: int
) -> None:
    calls = [each for n, each in enumerate(calls) if not each.writes or not _crossed(calls, n)]
    played = Played(calls, state, seed)
    for index, each in enumerate(calls):
        if f"t1c{index + 1}" in played.started:
            continue
        read = [one for text in each.reads for one in references_in(text)]
        bad = [[_is_bad(played, calls, index, path) for path in one.paths] for one in read]
        assert any(
            all(paths) if one.choose == "first" else any(paths)
            for one, paths in zip(read, bad, strict=True)
        )


def _is_bad(played: Played, calls: list[Planned], reader: int, path: Path) -> bool:
    """Whether a place is empty, or a call that was to write there did not.

    The error of the reader itself may be there in the end: it was not when the call read.
    """
    if _writes(calls[reader], path):
        return True
    writers = writers_of(calls, reader, str(path))
    failed_ = any(played.codes[f"t1c{writer + 1}"] is not None for writer in writers)
    return failed_ or played.play.run.state.data.read(path) is MISSING


def _writes(each: Planned, path: Path) -> bool:
    return each.writes is not None and any(place.overlaps(path) for place in _places(each.writes))


def _crossed(calls: list[Planned], index: int) -> bool:
    """Whether another call writes where this one does."""
    mine = _places(calls[index].writes or "")
    return any(
        place.overlaps(other) or part_in_a_list(place, other)
        for n, each in enumerate(calls)
        if n != index and each.writes
        for other in _places(each.writes)
        for place in mine
    )


@given(TURNS, STATES, st.integers(0, 999))
def test_the_state_is_the_replay_of_the_entries(
    calls: list[Planned], state: dict[str, Any], seed: int
) -> None:
    played = Played(calls, state, seed)
    again = Data()
    again.set("state", {})
    for write in played.play.records("write"):
        reference = parse_reference(write["path"])
        assert reference is not None
        [path] = reference.paths
        whole = again.value_after_write(path, write.get("method", "set"), write.get("value"))
        again.set(path.kind, whole)

    assert canonical_json(again["state"]) == canonical_json(played.play.result["state"])
