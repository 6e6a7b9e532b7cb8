"""The table of limits in `docs/operating.md` says what the code does."""

from pathlib import Path

import pytest

from activities import interceptor
from activities.catalog import agent, faults, files, knowledge, schema, source
from activities.providers import answer, bounds, http
from schemas import base, memory, notify, pattern
from worker import MAX_ACTIVITIES
from workflows import carrying, notifying, shell, thinking
from workflows.engine import (
    allowance,
    approval,
    continuing,
    desk,
    kept,
    news,
    proposal,
    reading,
    references,
    scoped,
    telling,
)

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"


def kb(size_bytes: int) -> str:
    """A size as the page has it."""
    thousand = 1000 if size_bytes % 1000 == 0 else 1024
    if size_bytes >= thousand**2:
        return f"{size_bytes / thousand**2:g} MB"
    return f"{size_bytes / thousand:g} KB"


LIMITS: dict[str, list[str]] = {
    "a tool's result": [kb(interceptor.MAX_RESULT_BYTES), kb(interceptor.MAX_STORED_BYTES)],
    "the text of a failure": [
        kb(interceptor.MAX_FAILURE_BYTES),
        f"{interceptor.MAX_MESSAGE_CHARS:,} characters",
    ],
    "a call's arguments": [
        kb(proposal.MAX_ARGUMENT_BYTES),
        f"{base.MAX_JSON_DEPTH} levels",
        f"{reading.MAX_INTEGER_DIGITS:,} digits",
    ],
    "what the references of one call stand for": [
        kb(references.MAX_RESOLVED_BYTES),
        f"{proposal.MAX_PLACES_READ} places",
        f"{proposal.MAX_REFERENCES:,} references a call",
        f"{proposal.MAX_REFERENCES_IN_TURN:,} an answer",
    ],
    "what an activity, a hook or a delegate is given": [
        kb(carrying.MAX_INPUT_BYTES),
        kb(scoped.MAX_TRANSCRIPT_BYTES),
    ],
    "a run's state, and each other kind of its data": [kb(kept.MAX_STATE_BYTES)],
    "instances of a run": [str(telling.MAX_INSTANCES)],
    "what a run takes along then": [kb(continuing.MAX_CARRIED_BYTES)],
    "an agent with its tools": [kb(agent.MAX_AGENT_BYTES)],
    "one schema": [
        kb(schema.MAX_SCHEMA_BYTES),
        f"{schema.MAX_SCHEMA_DEPTH} levels",
        f"{schema.MAX_SCHEMA_PARTS:,} objects and lists",
    ],
    "a [pattern](tools.md#patterns)": [
        f"{pattern.MAX_PATTERN_CHARACTERS:,} characters",
        f"{pattern.MAX_GROUP_DEPTH} groups",
        f"{pattern.MAX_PATTERN_STEPS:,} steps",
        f"{schema.MAX_PATTERNS_STEPS:,} steps",
    ],
    "checking values against schemas": [
        f"{allowance.MAX_CHECKS:,} steps",
        f"{allowance.MAX_CHECKS_IN_TASK:,} in one workflow task",
    ],
    "what people say": [
        f"{thinking.MAX_VALUES_SAID:,} values",
        f"{allowance.MAX_CHECKS_OF_DECISIONS:,} steps",
    ],
    "decisions that come before their question": [str(desk.MAX_EARLY_DECISIONS)],
    "notes on what was ignored": [str(shell.MAX_NOTES)],
    "decisions counted for one quorum": [str(approval.MAX_COUNTED_DECISIONS)],
    "one answer of a model": [
        kb(bounds.MAX_SOLUTION_BYTES),
        f"{kb(answer.MAX_TEXT_BYTES)} text",
        f"{kb(answer.MAX_ARGUMENTS_BYTES)} the arguments of one call",
        f"{kb(http.MAX_ANSWER_BYTES)} read",
    ],
    "one piece of knowledge": [kb(knowledge.MAX_KNOWLEDGE_BYTES)],
    "a memory": [
        f"{memory.MAX_ENTRIES:,} entries",
        kb(memory.MAX_VALUE_BYTES),
        kb(memory.MAX_MEMORY_BYTES),
    ],
    "channels in which people are told": [str(notify.MAX_CHANNELS)],
    "what [people are told](notifiers.md)": [
        kb(news.ARGUMENTS_BYTES),
        f"{notifying.MAX_AT_ONCE} messages",
        f"{notifying.MAX_UNDER_WAY:,} under way",
    ],
    "activities at a time": [str(MAX_ACTIVITIES)],
    "a file of settings, a tool, an agent": [
        kb(source.MAX_FILE_BYTES),
        f"{faults.MAX_VALUES:,} values",
        f"{faults.MAX_DEPTH} levels",
    ],
    "files of a catalog folder": [f"{files.MAX_FILES:,}"],
}


def rows() -> dict[str, str]:
    """The rows of the table, by their first cell."""
    [table] = PAGE.read_text(encoding="utf-8").split("| what | how much | beyond it |\n")[1:]
    lines = table.split("\n\n")[0].splitlines()[1:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_the_one_of_the_code(what: str) -> None:
    row = rows()[what]
    assert [said for said in LIMITS[what] if said not in row] == []


def test_every_limit_is_held() -> None:
    assert rows().keys() - LIMITS.keys() == {"a run's history"}, "which has no bound"
