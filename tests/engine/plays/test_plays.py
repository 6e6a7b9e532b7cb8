"""Each play, read as the specification of its rule: a run's inputs, and what its log gains.

`python -m tests.engine.plays.test_plays` writes the lines of all plays again: read the difference.
"""

import pytest

from tests.engine.plays.playing import play
from tests.support.text_files import compare, text_files, write_again

PLAYS = text_files(__file__, ".play")


@pytest.mark.parametrize("name", PLAYS)
def test_a_run_is_played_as_it_is_written(name: str) -> None:
    compare(PLAYS[name], play(PLAYS[name].read_text(encoding="utf-8")))


if __name__ == "__main__":
    write_again(__file__)
