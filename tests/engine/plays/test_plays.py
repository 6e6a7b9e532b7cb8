"""Each play, read as the specification of its rule: a run's inputs, and what its log gains.

`python -m tests.engine.plays.test_plays` writes the lines of all plays again: read the difference.
"""

from pathlib import Path

import pytest

from tests.engine.plays.playing import play

FOLDER = Path(__file__).parent
PLAYS = {
    path.relative_to(FOLDER).with_suffix("").as_posix(): path
    for path in sorted(FOLDER.rglob("*.play"))
}


@pytest.mark.parametrize("name", PLAYS)
def test_a_run_is_played_as_it_is_written(name: str) -> None:
    written = PLAYS[name].read_text(encoding="utf-8")
    assert play(written) == written


if __name__ == "__main__":
    for each in PLAYS.values():
        each.write_text(play(each.read_text(encoding="utf-8")), encoding="utf-8")
