"""Each wrong input, read as the specification of its rule: what is sent, and what becomes of it.

`python -m tests.attacks.inputs.test_inputs` writes the effects of all again: read the difference.
"""

from pathlib import Path

import pytest

from tests.attacks.inputs.attempt import attempt

FOLDER = Path(__file__).parent
FILES = {
    path.relative_to(FOLDER).with_suffix("").as_posix(): path
    for path in sorted(FOLDER.rglob("*.input"))
}


@pytest.mark.parametrize("name", FILES)
def test_wrong_inputs_have_the_effects_that_are_written(name: str) -> None:
    written = FILES[name].read_text(encoding="utf-8")
    assert attempt(written) == written


if __name__ == "__main__":
    for each in FILES.values():
        each.write_text(attempt(each.read_text(encoding="utf-8")), encoding="utf-8")
