"""The stored history of every path replays, with the decisions of its golden record.

A change that alters one records it again, in a commit of its own that names it and the reason. From
0.1.0 on, those of a release are never recorded again: see `tests.replay.shelf`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.replay.paths import PATHS
from tests.replay.shelf import golden, stored

ROOT = Path(__file__).parents[2]


def test_every_path_has_its_history() -> None:
    """Its own, or one that a release wrote."""
    found = {name.rpartition("/")[2] for name in stored()}
    new = {name for name in stored() if "/" not in name}
    assert new <= set(PATHS) <= found


# Replaying all of them takes seconds of CPU, so that they are one test: several processes share
# the tests, and each would replay them again.
@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_they_decide_what_is_in_their_golden_records(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.replay.replay"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    decided: dict[str, Any] = json.loads(done.stdout)
    records = {name: json.loads(golden(name).read_text(encoding="utf-8")) for name in stored()}
    different = [name for name in records if decided[name] != records[name]]
    assert different == [], f"record them again: make histories ARGS='{' '.join(different)}'"
