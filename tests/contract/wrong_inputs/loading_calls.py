"""Agents with patterns, and limits, that do not load."""

from tests.contract.wrong_inputs.loading import MODEL, Wrong, agent


def limits(name: str, text: str, *says: str) -> Wrong:
    """The file of limits."""
    return Wrong(name, {"limits.yaml": text}, [f"limits.yaml:{line}" for line in says], editor=True)


CALLS = [
    agent(
        "a pattern that matches nothing",
        MODEL + 'tools: ["lookup*"]\n',
        "2: `tools[0]`: no tool matches `lookup*`; did you mean `look_up`?",
        editor=False,
    ),
]
LIMITS = [
    limits(
        "a limit that loosens",
        "approval: {require: never}\n",
        "1: `approval.require`: `never` does not fit; write `side_effects` or `always`",
    ),
    limits(
        "a limit misspelt",
        "budgets: {maxTurns: 8}\n",
        "1: unknown field `budgets`; did you mean `budget`?",
    ),
    limits(
        "a limit without a unit",
        "toolTimeout: 30\n",
        '1: `toolTimeout`: `30` does not fit; a duration is a number and a unit: "500ms", "30s",'
        ' "5m", "24h", "7d"',
    ),
]
