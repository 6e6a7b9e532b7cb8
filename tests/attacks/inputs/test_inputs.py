"""Each wrong input, read as the specification of its rule: what is sent, and what becomes of it.

`python -m tests.attacks.inputs.test_inputs` writes the effects of all again: read the difference.
"""

import pytest

from tests.attacks.inputs.attempt import attempt
from tests.support.text_files import compare, text_files, write_again

FILES = text_files(__file__, ".input")


@pytest.mark.parametrize("name", FILES)
def test_wrong_inputs_have_the_effects_that_are_written(name: str) -> None:
    compare(FILES[name], attempt(FILES[name].read_text(encoding="utf-8")))


if __name__ == "__main__":
    write_again(__file__)
