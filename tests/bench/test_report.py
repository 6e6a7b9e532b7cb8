"""The bench's fake model, its tables and its pictures: what needs no server."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import report
from bench.programs import model
from bench.programs.work import Work

TITLES = {"holdfast": "holdfast", "plain": "plain workflow"}


def asked(work: Work, turn: int, **options: object) -> bytes:
    """What a client sends in a turn: white space in JSON is its own affair."""
    said = [{"role": "assistant", "content": "…"}] * (turn - 1)
    messages = [{"role": "user", "content": work.prompt}, *said]
    separators = (",", ":") if turn % 2 else (", ", ": ")
    return json.dumps({"messages": messages, **options}, separators=separators).encode()


def answered(work: Work, turn: int) -> dict[str, Any]:
    """The message that comes back."""
    head, _, body = model.Model().answered(asked(work, turn)).partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    message: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return message


@pytest.mark.parametrize("turn", [1, 2])
def test_the_model_calls_until_the_last_turn(turn: int) -> None:
    calls = answered(Work(turns=3, calls=2, result_bytes=500), turn)["tool_calls"]

    arguments = [json.loads(call["function"]["arguments"]) for call in calls]
    assert arguments == [{"name": f"r{turn}.{index}", "size": 500} for index in range(2)]


def test_the_model_is_done_in_the_last_turn() -> None:
    assert answered(Work(turns=3), 3) == {"role": "assistant", "content": "Done."}


def test_a_stream_has_the_content_of_a_whole_answer() -> None:
    sent = model.Model().answered(asked(Work(turns=3, calls=2), 1, stream=True))
    lines = sent.partition(b"\r\n\r\n")[2].decode().split("\n\n")
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]

    whole = answered(Work(turns=3, calls=2), 1)["tool_calls"]
    assert calls == [{"index": at, **call} for at, call in enumerate(whole)]
    assert chunks[-1]["usage"]["prompt_tokens"] > 0


def results() -> dict[str, Any]:
    """Rows as the bench keeps them."""
    row = {"events": 12, "actions": 23, "cpu_seconds": 0.1, "wall_seconds": 0.2}
    turns = [
        {"engine": "holdfast", "turns": 10, "history_bytes": size, **row}
        for size in (10_000, 90_000, 20_000)
    ]
    turns += [{"engine": "plain", "turns": 10, "history_bytes": 200_000, **row}]
    turns += [{"engine": "plain", "turns": 200, "stopped": "too large"}]
    crowd = [
        {"engine": name, "at_a_time": 16, "runs_per_second": rate}
        for name, rate in (("holdfast", 8.0), ("plain", 4.0))
    ]
    limit = {"engine": "plain", "turns": 1_000, "calls": 1, "result_bytes": 2_000, "at_turn": 160}
    versions = {name: {"temporalio": "1.35.0"} for name in TITLES}
    return {
        "machine": "2 cores",
        "python": "3.11.7",
        "titles": TITLES,
        "versions": versions,
        "turns": turns,
        "crowd": crowd,
        "limits": [{**limit, "stopped": "history | size"}],
    }


def test_the_tables_have_medians_and_ours_divided_by_theirs() -> None:
    said = report.tables(results())

    assert "| holdfast | 2 |" in said
    assert "| plain workflow | 20 (0.1) |" in said
    assert "| Actions per turn | 10 turns |" in said
    assert "persistence requests" not in said
    assert "| plain workflow | 4 (2) |" in said
    assert "stopped in turn 160: history / size |" in said


def test_the_pictures_are_pictures(tmp_path: Path) -> None:
    drawn = report.draw(results(), tmp_path)

    assert [path.name for path in drawn] == ["bench-turns.svg", "bench-crowd.svg"]
    for path in drawn:
        said = "".join(ElementTree.parse(path).getroot().itertext())
        assert "plain workflow" in said
        assert "prefers-color-scheme:dark" in said
