"""A run without a model; the rest is in the plays of `tests/engine/plays/constant`."""

import pytest

from tests.engine.driver import Play


def test_an_agent_without_a_model_chooses_no_skill() -> None:
    activity = {"type": "export"}
    skills = [{"name": name, "activity": activity} for name in ("monthly", "yearly")]
    definition = {"model": None, "skills": skills}
    with pytest.raises(ValueError, match="has no model that chooses one; name one of monthly, y"):
        Play(definition=definition)
    play = Play(definition=definition, skill="yearly", outcomes={"yearly": 12}).to_end()
    assert (play.result["output"], play.result["turns"]) == (12, 0)
