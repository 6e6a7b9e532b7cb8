"""The table of `docs/limits.md` has the bounds of the code."""

from pathlib import Path

import pytest

from holdfast.activities import budget_account, generate, read_fork, resolve
from holdfast.activities.backtest import recorded_activities
from holdfast.activities.interceptors import auto_heartbeat, results
from holdfast.activities.mcp import authorization, held_calls, http_client, servers
from holdfast.activities.model import conversation_cache
from holdfast.activities.notify import mail, webhook
from holdfast.catalog import advice, agent_reader, builtin_tools, catalog_files
from holdfast.cli import backtest_commands, policy_commands
from holdfast.client.records import diff_text, run_diff
from holdfast.hosting.options import MAX_PROCESSES
from holdfast.hosting.supervisor import MAX_RESTARTS
from holdfast.hosting.worker_parts import MAX_ACTIVITIES
from holdfast.providers.answer import call_draft, streamed_answer
from holdfast.providers.base import MAX_CACHED_NAMES, MAX_CACHED_TOOL_SETS
from holdfast.providers.transport import cloud_identity, http
from holdfast.runtime import attachments
from holdfast.runtime.mcp import input_forms
from holdfast.runtime.settings_files import json_and_yaml, source
from holdfast.schemas import agent, base, decision, tool
from holdfast.schemas.internal import absences, live_answer, memory
from holdfast.schemas.internal import shared_budgets as internal
from holdfast.schemas.settings import budgets, notify, schedules
from holdfast.validation import (
    content_cache,
    lenient_json,
    regex,
    schema_check,
    schema_drafts,
    schema_node,
)
from holdfast.web.http import requests
from holdfast.workflows import absences as kept_absences
from holdfast.workflows import base_workflow, decisions, fork
from holdfast.workflows.commands import activity_options, publisher
from holdfast.workflows.engine import (
    continue_as_new,
    request_settings,
    run_messages,
    run_state,
)
from holdfast.workflows.engine.approvals import notifications, pending, question
from holdfast.workflows.engine.budget import shared_budget
from holdfast.workflows.engine.conversation import initial_context, recorded_prefix, scopes
from holdfast.workflows.engine.execution import lifecycle, loops, preparation, questions
from holdfast.workflows.engine.log.log import MAX_INFLATED_BYTES
from holdfast.workflows.engine.model import request_hooks
from holdfast.workflows.engine.state import memory_store, references
from holdfast.workflows.input import MAX_INPUT_VALUES

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


def kb(size_bytes: int) -> str:
    """A size as the page has it."""
    thousand = 1000 if size_bytes % 1000 == 0 else 1024
    if size_bytes >= thousand**2:
        return f"{size_bytes / thousand**2:g} MB"
    return f"{size_bytes / thousand:g} KB"


LIMITS: dict[str, list[str]] = {
    "the log of a run up to the turn of [a fork](agents/fork.md)": [
        f"{kb(recorded_prefix.MAX_PREFIX_BYTES)}, compressed",
        f"{read_fork.MAX_ENTRIES:,} entries",
        base.format_duration(fork.SCHEDULE_TO_CLOSE),
    ],
    "[forwards](approvals/policies-to-copy.md#a-second-group-after-some-hours) of one approval": [
        f"{tool.MAX_FORWARDS}, each to {tool.MAX_FORWARD_GROUPS} groups"
    ],
    "[approval rules](approvals/rules.md) of a tool": [str(tool.MAX_RULES)],
    "[models](agents/models.md) of an agent": [
        str(agent.MAX_MODELS),
        str(request_settings.MAX_COUNTED_MODELS),
    ],
    "a [hook around a request](agents/models.md#hooks-around-a-request)": [
        kb(request_hooks.MAX_VIEW_BYTES),
        kb(request_hooks.MAX_CHANGE_BYTES),
        f"each {request_hooks.MAX_VIEW_TEXT_CHARACTERS:,} characters",
        f"{request_hooks.MAX_FURTHER_ATTEMPTS} further attempts",
        f"within {base.format_duration(request_hooks.MAX_PAUSE)}",
    ],
    "an [identity in a cloud](operating/endpoints.md#in-a-cloud)": [
        f"{cloud_identity.MAX_CREDENTIALS_SECONDS:.0f} s",
    ],
    "the text of a running request that [viewers](operating/live-text.md) receive": [
        f"{live_answer.MAX_LIVE_CHARACTERS:,} characters"
    ],
    "[worker processes](operating/worker-options.md#several-processes) of a command": [
        f"{MAX_PROCESSES}; {MAX_RESTARTS} restarts of one in a row"
    ],
    "results that a worker keeps for tools that repeat": [
        f"{content_cache.MAX_RESULTS:,}, of {kb(content_cache.MAX_ARGUMENTS_BYTES)} of definitions"
    ],
    "names of tools that a worker keeps as a provider accepts them": [
        f"{MAX_CACHED_NAMES:,}",
        f"{MAX_CACHED_TOOL_SETS} sets",
    ],
    "models that a worker remembers to take no tools": [f"{generate.MAX_MODELS_WITHOUT_TOOLS:,}"],
    "refused settings of models that a worker remembers": [f"{http.MAX_LEARNED_SETTINGS:,}"],
    "a cloud's credentials": [f"{cloud_identity.MAX_CREDENTIALS_SECONDS:g} s"],
    "[a loop](tools/data-flow.md#loops)": [
        f"{tool.MAX_ITEMS} items",
        kb(preparation.MAX_ARGUMENT_BYTES),
        kb(loops.MAX_RESULT_BYTES),
    ],
    "arguments that are named as filled in": [str(questions.MAX_FILLED_IN_SHOWN)],
    "[files](agents/attachments.md#large-files) of a message": [
        f"{kb(attachments.MAX_INLINE_BYTES)} together in history",
        f"{kb(attachments.DEFAULT_BYTES['FILE'])} a file",
        f"{kb(attachments.DEFAULT_BYTES['MESSAGE'])} together",
        f"up to {kb(attachments.MAX_SETTING_BYTES)}",
    ],
    "[forms](operating/inbox.md#what-it-guarantees) that an inbox receives": [
        f"{kb(requests.MAX_BODY_BYTES)} in {requests.BODY_TIMEOUT_SECONDS} s",
        f"{kb(attachments.DEFAULT_BYTES['MESSAGE'])} more in {requests.UPLOAD_TIMEOUT_SECONDS} s",
        f"{requests.MAX_LARGE_UPLOADS} above {kb(requests.MAX_BODY_BYTES)} at a time",
        f"{requests.MAX_LARGE_UPLOADS_OF_ONE} of one person",
    ],
    "the files of a conversation that one request has, in base64": [
        kb(attachments.MAX_REQUEST_BYTES)
    ],
    "the conversations of running requests, with these files": [
        f"{kb(conversation_cache.MAX_RUNNING_BYTES)} a worker"
    ],
    "a tool's result": [kb(results.MAX_RESULT_BYTES), kb(results.MAX_STORED_BYTES)],
    "the text of a failure": [
        kb(results.MAX_FAILURE_BYTES),
        f"{results.MAX_MESSAGE_CHARS:,} characters",
    ],
    "a call's arguments": [
        kb(preparation.MAX_ARGUMENT_BYTES),
        f"{base.MAX_JSON_DEPTH} levels",
        f"{lenient_json.MAX_INTEGER_DIGITS:,} digits",
    ],
    "a number in arguments, requests, decisions and messages": [
        f"{2**53:,}",
        f"{lenient_json.MAX_DECIMAL_DIGITS} significant digits",
    ],
    "the values of one call's references": [
        kb(references.MAX_RESOLVED_BYTES),
        f"{preparation.MAX_PLACES_READ} places",
        f"{preparation.MAX_REFERENCES:,} references a call",
        f"{preparation.MAX_REFERENCES_IN_TURN:,} an answer",
    ],
    "the input of an activity, a hook or a delegate": [
        kb(activity_options.MAX_INPUT_BYTES),
        kb(scopes.MAX_TRANSCRIPT_BYTES),
    ],
    "[a comparison of runs](agents/comparing-runs.md)": [
        f"{run_diff.MAX_ENTRIES:,} entries",
        kb(run_diff.MAX_LOG_BYTES),
        f"{run_diff.MAX_INSTANCES} instances",
        f"{diff_text.VALUE_CHARS:,} characters",
    ],
    "repairs of a call's arguments": [
        str(preparation.MAX_REPAIRS),
        base.format_duration(activity_options.HOOK_TO_CLOSE),
    ],
    "a run's state, and each other kind of its data": [kb(run_state.MAX_STATE_BYTES)],
    "instances of a run": [str(initial_context.MAX_INSTANCES)],
    "what a run copies when it continues as new": [kb(continue_as_new.MAX_CARRIED_BYTES)],
    "one part of that copy, decompressed": [kb(MAX_INFLATED_BYTES)],
    "an agent with its tools": [kb(agent_reader.MAX_AGENT_BYTES)],
    "the definitions of a run's delegates that it keeps": [kb(resolve.MAX_DELEGATES_BYTES)],
    "[constant calls](agents/constant-calls.md) of an agent": [str(agent.MAX_CONSTANT_CALLS)],
    "one schema": [
        kb(schema_check.MAX_SCHEMA_BYTES),
        f"{schema_check.MAX_SCHEMA_DEPTH} levels",
        f"{schema_check.MAX_SCHEMA_PARTS:,} objects and lists",
        f"{schema_drafts.MAX_COPIES:,} copies",
    ],
    "schemas of one tool, agent or MCP server that the library `jsonschema` checks, too": [
        f"{advice.MAX_SUBSCHEMAS:,} schemas"
    ],
    "a [pattern](tools/tools.md#patterns)": [
        f"{regex.MAX_PATTERN_CHARACTERS:,} characters",
        f"{regex.MAX_GROUP_DEPTH} nested groups",
        f"{regex.MAX_PATTERN_STEPS:,} steps",
        f"{schema_check.MAX_PATTERNS_STEPS:,} steps",
    ],
    "validating values against schemas": [
        f"{schema_node.MAX_STEPS:,} steps",
        f"{schema_node.TASK_STEPS:,} in one workflow task",
    ],
    "messages and decisions": [
        f"{MAX_INPUT_VALUES:,} values",
        f"{schema_node.INPUT_STEPS:,} steps",
    ],
    "messages that `status` lists as queued, and a result as undelivered": [
        str(run_messages.MAX_LISTED_MESSAGES),
        f"{run_messages.MAX_LISTED_CHARACTERS} characters",
    ],
    "decisions before their request": [str(pending.MAX_EARLY_DECISIONS)],
    "notes on ignored input": [str(base_workflow.MAX_NOTES)],
    "runs that [`holdfast policy simulate`](approvals/change-a-policy.md) reads": [
        f"{policy_commands.MAX_RUNS:,}"
    ],
    "[backtests](agents/backtest.md)": [
        f"{backtest_commands.CONCURRENT} of one command",
        f"{base.format_duration(backtest_commands.LONGEST)} each",
        base.format_duration(recorded_activities.LONGEST),
    ],
    "[a claim](approvals/inbox-pages.md#claim) on a pending approval": [
        f"{decision.MAX_CLAIM_SECONDS // 3600}h",
        f"{pending.MAX_CLAIMS} in a run",
    ],
    "[absences](approvals/substitutes.md) of a namespace": [
        f"{absences.MAX_ABSENCES:,}",
        kb(kept_absences.MAX_STATE_BYTES),
        f"{absences.MAX_AWAY.days} days",
        f"{decision.MAX_REPRESENTED} of one",
    ],
    "people who are away, in [JSON of a webhook](operating/notifications.md)": [
        f"{webhook.MAX_SHOWN_ABSENCES} are shown"
    ],
    "decisions counted for one quorum": [str(question.MAX_COUNTED_DECISIONS)],
    "reading when [late decisions](approvals/decision-times.md) were sent": [
        f"{decisions.MAX_ATTEMPTS} attempts",
        base.format_duration(decisions.MAX_READING),
    ],
    "one answer of a model": [
        kb(streamed_answer.MAX_SOLUTION_BYTES),
        f"{kb(streamed_answer.MAX_TEXT_BYTES)} text",
        f"{kb(call_draft.MAX_ARGUMENTS_BYTES)} the arguments of one call",
        f"{kb(streamed_answer.MAX_CALLS_BYTES)} the names and ids of all calls",
        f"{kb(http.MAX_ANSWER_BYTES)} read",
    ],
    "one piece of knowledge": [kb(builtin_tools.MAX_KNOWLEDGE_BYTES)],
    "labels of [a schedule](operating/schedules.md)": [str(schedules.MAX_LABELS)],
    "[budgets that runs share](operating/budgets.md)": [
        f"{budgets.MAX_BUDGETS}, of each {budgets.MAX_TOOLS_COUNTED} tools",
        f"{budgets.MAX_RUNS_COUNTED:,} runs",
        f"{shared_budget.MAX_OPEN:,} reservations",
        f"1/{shared_budget.SHARES} of what is left for {internal.LEASE.seconds} s",
        f"{budget_account.UPDATE_TIMEOUT.seconds} s",
    ],
    "a memory": [
        f"{memory.MAX_ENTRIES:,} entries",
        kb(memory.MAX_VALUE_BYTES),
        kb(memory.MAX_MEMORY_BYTES),
        f"{memory_store.MAX_KEYS_SHOWN} keys",
    ],
    "notification channels": [str(notify.MAX_CHANNELS)],
    "[notifications](operating/notifications.md)": [
        kb(notifications.ARGUMENTS_BYTES),
        f"{kb(notifications.APPROVERS_BYTES)} of the groups",
        f"{publisher.MAX_CONCURRENT_DELIVERIES} messages",
        f"{publisher.MAX_PENDING_DELIVERIES:,} queued",
        f"{mail.MAX_SENT_MESSAGES:,} sent mails",
    ],
    "tools of [an MCP server](tools/mcp.md)": [
        f"{servers.MAX_TOOLS:,}",
        f"{servers.MAX_LISTING_SECONDS:.0f} s to list",
        f"{servers.MAX_WAIT_SECONDS:.0f} s to connect",
        kb(http_client.MAX_ANSWER_BYTES),
        f"{authorization.MAX_TOKEN_SECONDS:.0f} s for a token",
        f"connections for {servers.MAX_PRINCIPALS} principals",
    ],
    "forms of [an MCP server](tools/mcp-questions.md)": [
        f"{lifecycle.MAX_FORMS} for each call",
        kb(input_forms.MAX_STATE_AND_FORMS_BYTES),
        f"{kb(input_forms.MAX_FORMS_BYTES)} the forms",
        f"{input_forms.MAX_MESSAGE_CHARACTERS:,} characters",
    ],
    "open calls of [older MCP servers](tools/mcp-questions.md) that wait for a person": [
        f"{held_calls.MAX_HELD_CALLS} of a worker"
    ],
    "activities at a time": [str(MAX_ACTIVITIES)],
    "the wait for a cancelled attempt": [f"{auto_heartbeat.GRACE_SECONDS:.0f} s after"],
    "a settings file, a tool, an agent": [
        kb(source.MAX_FILE_BYTES),
        f"{json_and_yaml.MAX_VALUES:,} values",
        f"{json_and_yaml.MAX_DEPTH} levels",
    ],
    "files of a catalog folder": [f"{catalog_files.MAX_FILES:,}"],
}


def rows() -> dict[str, str]:
    """The rows of the table, by their first cell."""
    [table] = PAGE.read_text(encoding="utf-8").split("| what | limit | above it |\n")[1:]
    lines = table.split("\n\n")[0].splitlines()[1:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_the_one_of_the_code(what: str) -> None:
    row = rows()[what]
    assert [said for said in LIMITS[what] if said not in row] == []


def test_every_limit_is_held() -> None:
    assert rows().keys() - LIMITS.keys() == {"a run's history"}, "the one without a bound"
