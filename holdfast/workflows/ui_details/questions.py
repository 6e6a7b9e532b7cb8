"""Write the pending approvals of a page: the question, its arguments, its terms and its commands.

Untrusted text is in code, or escaped within a generated line: it can never add a line.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.runtime.narration.phrases import (
        NOT_RUN,
        QUESTIONS,
        author_phrase,
        claim_phrase,
        items_phrase,
    )
    from holdfast.runtime.narration.question_view import QuestionView
    from holdfast.schemas import names
    from holdfast.schemas.decision import Kind, example_edit, shown_calls
    from holdfast.schemas.json_schema import answer_fields, example_json
    from holdfast.schemas.phrases import distinct_names
    from holdfast.schemas.run import DelegatePending
    from holdfast.schemas.tool import loop_arguments

from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.ui_details.markdown import (
    code,
    cost_bytes,
    own_sentence,
    prose,
    quoted,
    value_block,
)

# The bytes for the arguments of one call; the second is tried if the first does not fit.
ARGUMENTS_BYTES = (3_000, 600)
WORDS_BYTES = 600
NAME_BYTES = 160
MAX_ARGUMENTS_SHOWN = 20
MAX_CALLS_SHOWN = 30
MAX_DECISIONS_SHOWN = 5
MAX_IDS_SHOWN = 10
LONGEST_ID_CHARACTERS = 60
_LEAST_VALUE_BYTES = 60


def instructions(count: int) -> str:
    """Return the instructions to decide `count` questions, in a terminal or on the page."""
    each = "it" if count == 1 else "each one"
    return (
        f"**To do:** decide {each}. Run its command in a terminal, or send its data from this page:"
        f" **More Actions → Send an Update**, name `{names.DECIDE}`, or **Send a Signal**, name"
        f" `{names.APPROVE}`."
    )


def omitted_questions(questions: list[Question], workflow_id: str) -> str:
    """Return where the questions that do not fit are shown, with the commands to decide them."""
    ids = ", ".join(f"`{question.call_id}`" for question in questions[:MAX_IDS_SHOWN])
    more = ", …" if len(questions) > MAX_IDS_SHOWN else ""
    run = shlex.quote(workflow_id) if len(workflow_id) <= LONGEST_ID_CHARACTERS else "RUN"
    command = f"holdfast decide {run} CALL approve"
    return (
        f"**{len(questions)} more** ({ids}{more}) have no room here. Run the query"
        f" `{names.APPROVALS}` (above, under **Queries**) to see them, then {code(command)}."
    )


def question_block(question: Question, workflow_id: str, room_bytes: int) -> str:
    """Return one question, with `room_bytes` for its arguments."""
    more = {"attempts": question.attempts, "on_timeout": question.policy.on_timeout}
    view = QuestionView.of(question.to_pending_approval().model_copy(update=more))
    label = prose(question.label, NAME_BYTES)
    whose = f" for {code(question.instance)}" if question.instance else ""
    # The example in the text of an answer can be cut; the command and the data have all of it.
    is_form = question.form is not None
    is_told = is_form or question.kind != "input"
    told = view.facts if is_told else ""
    facts = own_sentence(told, max(room_bytes, WORDS_BYTES) if is_form else WORDS_BYTES)
    if question.kind == "plan":
        arguments, is_whole = _plan_calls(question, room_bytes)
        edit, means = example_edit(question.arguments)
        if edit:
            example = f"An `edit`, for example: {code(edit)} ({prose(means, WORDS_BYTES)})."
            facts = f"{facts}\n{example}" if facts else example
    elif (items := loop_arguments(question.arguments)) is not None:
        label += items_phrase(items)
        arguments, is_whole = _loop_items(question.call_id, items, room_bytes)
    else:
        answer = {f"answer: {name}": text for name, text in answer_fields(question.form or {})}
        arguments, is_whole = _items({**question.arguments, **answer}, room_bytes)
        is_whole &= not (is_form and facts.endswith("…"))
    options = " --groups 'YOUR GROUP'" if question.policy.approvers else ""
    options += " --key FILE" if question.policy.signed else ""
    is_again = question.last_edit or (is_form and question.round > 1)
    options += f" --digest {question.digest}" if is_again else ""
    wanted = question.form or question.output
    ways = _ways(workflow_id, question.call_id, question.kind, options, wanted)
    terms = [*_terms(question, view, is_whole), "**Command:** " + "\nor ".join(ways)]
    blocks = [
        f"### {view.request}: {label}{whose} (`{question.call_id}`)",
        facts,
        "\n".join(arguments),
        "\n".join([*terms, f"**Data:**\n`{_decision(question)}`"]),
    ]
    return "\n\n".join(block for block in blocks if block)


def delegate_question(waiting: DelegatePending) -> str:
    """Return a delegate's pending approval, with the commands to decide it there."""
    arguments = prose(waiting.arguments, WORDS_BYTES)
    ways = _ways(waiting.workflow_id, waiting.call_id, waiting.kind)
    head = f"- **{prose(waiting.label, NAME_BYTES)}** (`{waiting.call_id}`)"
    line = f"{head}: {arguments}" if arguments else head
    return "\n".join([line, f"  in the run {code(waiting.workflow_id)}", "  " + " or ".join(ways)])


def _ways(
    workflow_id: str, call_id: str, kind: Kind, options: str = "", output: Any = None
) -> list[str]:
    """Return the commands that decide, or bring a new token; `output` is the answer's schema."""
    answer = shlex.quote(example_json(output))
    run = shlex.quote(workflow_id)
    renewals = [f"holdfast renew {run} --token @FILE"] if kind == "principal_expired" else []
    commands = (each.format(answer=answer) for each in QUESTIONS[kind].commands)
    decide = (f"holdfast decide {run} {call_id} {each}{options}" for each in commands)
    return [code(command) for command in (*renewals, *decide)]


def _items(arguments: Mapping[str, Any], room_bytes: int) -> tuple[list[str], bool]:
    lines, whole = [], True
    for name, value in list(arguments.items())[:MAX_ARGUMENTS_SHOWN]:
        block, complete = value_block(value, max(room_bytes, _LEAST_VALUE_BYTES))
        lines.append(f"- **{prose(name, NAME_BYTES)}**: {block}")
        room_bytes -= cost_bytes(lines[-1])
        whole &= complete
    return lines, whole and len(arguments) <= MAX_ARGUMENTS_SHOWN


def _loop_items(call_id: str, items: Sequence[Any], room_bytes: int) -> tuple[list[str], bool]:
    """Return a line for each item of a loop, and whether they are complete."""
    lines, is_whole = list[str](), True
    for number, item in enumerate(items):
        cells, is_complete = _items(item or {}, room_bytes)
        values = ", ".join(cell.removeprefix("- ") for cell in cells)
        line = f"- `{names.item_id(call_id, number)}`: {NOT_RUN if item is None else values}"
        room_bytes -= cost_bytes(line)
        if room_bytes < 0:
            return lines, False
        lines.append(line)
        is_whole &= is_complete
    return lines, is_whole


def _plan_calls(question: Question, room_bytes: int) -> tuple[list[str], bool]:
    """Return the lines of the calls of a plan, and whether they are complete.

    A call has its name, agent, dependencies and instance, then its arguments, its output path and
    its reason.
    """
    calls, lines, is_whole = list(shown_calls(question.arguments)), [], True
    for number, call in enumerate(calls[:MAX_CALLS_SHOWN], start=1):
        waits = ", ".join(f"`{other}`" for other in call["waitsFor"][:MAX_IDS_SHOWN])
        more = ", …" if len(call["waitsFor"]) > MAX_IDS_SHOWN else ""
        agent, writes, why = call.get("delegate"), call["writes"], call["reasoning"]
        parts = [
            f"**{prose(call['label'], NAME_BYTES)}** (`{call['id']}`)",
            f"by agent {quoted(agent, NAME_BYTES)}, in a run of its own" if agent else "",
            f"after {waits}{more}" if waits else "",
            f"for {code(call['instance'])}" if call["instance"] else "",
        ]
        items, is_complete = _items(call["arguments"], room_bytes)
        items += [f"- → writes {quoted(writes, NAME_BYTES)}"] if writes else []
        items += [f"- within {code(json.dumps(call['bound']))}"] if call.get("bound") else []
        items += [f"- because: {quoted(why, NAME_BYTES)}"] if why else []
        head = f"{number}. {', '.join(filter(None, parts))}{':' if items else ''}"
        block = [head, *(f"   {item}" for item in items)]
        room_bytes -= cost_bytes("\n".join(block))
        lines += block
        is_whole &= is_complete
    return lines, is_whole and len(calls) <= MAX_CALLS_SHOWN


def _terms(question: Question, view: QuestionView, is_whole: bool) -> list[str]:
    """Return the terms of a question, a line each: reason, approvers, decisions, expiry."""
    policy, lines = question.policy, []
    if not is_whole:
        lines.append(
            f"**Not all of it is shown here:** run the query `{names.APPROVALS}` (above, under"
            " **Queries**) before you decide."
        )
    if view.filled_in:
        lines.append(own_sentence(view.filled_in, WORDS_BYTES))
    if (edit := question.last_edit) is not None:
        lines.append(f"Changed by {prose(author_phrase(edit) or 'a person', NAME_BYTES)}.")
    if question.reasoning:
        lines.append(f"Why, in the model's words: {quoted(question.reasoning, WORDS_BYTES)}")
    groups = distinct_names(policy.approvers or [])
    rule = prose(view.rule(), WORDS_BYTES) if question.applied else None
    lines += view.terms("markdown", prose(groups, WORDS_BYTES) if groups else "", rule=rule)
    decisions = view.decisions[-MAX_DECISIONS_SHOWN:]
    lines += [f"Decided: {prose(decided, NAME_BYTES)}." for decided in decisions]
    claim = question.claim.shown and claim_phrase(view.approval, workflow.now())
    lines += [f"Now: {prose(claim, NAME_BYTES)}."] if claim else []
    expiry = question.expires_at.strftime("%Y-%m-%d %H:%M UTC")
    return [*lines, view.expiry(expiry)]


def _decision(question: Question) -> str:
    policy = question.policy
    decision: dict[str, object] = {"callId": question.call_id}
    if question.kind == "reconcile":
        decision |= {"decision": "happened", "result": None}
    elif question.kind == "input":
        answer = json.loads(example_json(question.form or question.output))
        decision |= {"decision": "respond", "result": answer}
    else:
        decision["decision"] = "deny" if question.kind == "principal_expired" else "approve"
    if policy.signed:
        return json.dumps(decision | {"token": "YOUR TOKEN", "digest": question.digest}, indent=0)
    if policy.not_by or policy.approvers or (policy.quorum or 1) > 1:
        decision["by"] = "YOUR NAME"
    if policy.approvers:
        decision["groups"] = ["YOUR GROUP"]
    return json.dumps(decision | {"digest": question.digest}, indent=0)
