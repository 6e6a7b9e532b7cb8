"""The test kit in the project of a user, which names its pytest plugin."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.process import ROOT

PROJECT = Path(__file__).with_name("user_project")


def test_the_tests_of_a_user_pass_but_the_one_with_an_unused_answer() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    done = subprocess.run(
        words, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    *_, unused, summary = done.stdout.splitlines()
    assert unused.startswith("ERROR agent_checks.py::test_too_many_answers - "), done.stdout
    assert "`model` has 1 unused after 1 requests, the next: 'and more'; " in done.stdout
    assert summary.startswith("25 passed, 1 error in "), done.stdout
