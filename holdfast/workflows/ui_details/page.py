"""Write the page that Temporal's UI shows of a run, under "User Metadata" as its current details.

Its reader may not know Holdfast: the page states the run's purpose and principal, its present
state, and the possible actions with their commands. The renderer keeps line breaks and leaves a
wide gap between blocks, so related lines are one block.
"""

from functools import lru_cache

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.runtime.narration.call_summaries import CallSummaries
    from holdfast.runtime.narration.phrases import OTHERWISE
    from holdfast.schemas import names
    from holdfast.schemas.log_entry import read_record

from holdfast.workflows.engine.call.outcomes import error_of
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.phases import Fail, Finish
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.ui_details.markdown import (
    code,
    cost_bytes,
    prose,
    short_arguments,
    value_text,
)
from holdfast.workflows.ui_details.questions import (
    ARGUMENTS_BYTES,
    NAME_BYTES,
    WORDS_BYTES,
    delegate_question,
    instructions,
    omitted_questions,
    question_block,
)

# A proxy rejects an address of more than 8 KB, and the UI needs the rest of it.
MAX_PAGE_BYTES = 7_500
_REST_BYTES = 500
_TASK_BYTES = 800
_OUTPUT_BYTES = 2_000
_ELSEWHERE = "### Pending approvals of delegates"
_ENDINGS = {
    "completed": "it is done.",
    "stopped": "a tool has ended it.",
    "budget_exceeded": "it has ended: its budget is used up.",
}


class DetailsPage:
    """The page of one workflow."""

    def __init__(self, work: ExecutionBase, workflow_id: str) -> None:
        self._work = work
        self._workflow_id = workflow_id
        self._summaries = CallSummaries(short_arguments)

    def read(self) -> str:
        """Return the page in Markdown, with the commands that decide each pending approval."""
        log = self._work.state.log
        self._summaries.follow(map(read_record, log.records_after(self._summaries.last_entry)))
        turn = self._work.phases.turn
        for call in turn.calls if turn is not None else ():
            if not call.is_closed and call.outcome is not None:
                self._summaries.anticipate_end(call.id, error_of(call.outcome))
        page = _Page(MAX_PAGE_BYTES)
        page.add(_introduction(self._work))
        page.add(_present_state(self._work))
        questions = self._work.state.pending.list_open()
        for number, question in enumerate(questions):
            blocks = (question_block(question, self._workflow_id, room) for room in ARGUMENTS_BYTES)
            if not any(page.add(block, keep_bytes=_REST_BYTES) for block in blocks):
                page.add(omitted_questions(questions[number:], self._workflow_id))
                break
        waiting = self._work.delegates.list_pending()
        if waiting and page.add(_ELSEWHERE, keep_bytes=_REST_BYTES):
            for number, one in enumerate(waiting):
                if not page.add(delegate_question(one), keep_bytes=_REST_BYTES):
                    page.add(f"**{len(waiting) - number} more**: {code('holdfast approvals')}")
                    break
        _add_calls(page, self._summaries)
        return "\n\n".join(page.blocks)


class _Page:
    """Blocks of Markdown, as many as fit."""

    def __init__(self, room_bytes: int) -> None:
        self.blocks: list[str] = []
        self.room_bytes = room_bytes

    def add(self, block: str, *, keep_bytes: int = 0) -> bool:
        """Add a block if it fits and leaves `keep_bytes`; return whether it did."""
        cost = cost_bytes(f"{block}\n\n")
        if cost > self.room_bytes - keep_bytes:
            return False
        self.blocks.append(block)
        self.room_bytes -= cost
        return True


def _introduction(work: ExecutionBase) -> str:
    if isinstance(work, AgentRun):
        name, purpose = work.agent.name, work.agent.description
        head = (
            "constant calls, without any AI, of" if work.agent.calls else "the work of an AI agent,"
        )
    else:
        [tool] = work.state.rules.tools
        head, name = "one call, without any AI, of", tool.label or tool.name
        purpose = tool.description
    described = f": “{prose(purpose, _TASK_BYTES)}”" if purpose else ""
    lines = [f"This run is {head} **{prose(name, NAME_BYTES)}**{described}"]
    state, task = work.state, work.state.data["input"]
    if state.title:
        lines.append(f"Its title: **{prose(state.title, _TASK_BYTES)}**.")
    if state.principal is not None:
        lines.append(f"It acts on behalf of **{prose(state.principal.id, NAME_BYTES)}**.")
    if task is not None:
        lines.append(f"Its task: “{prose(value_text(task), _TASK_BYTES)}”")
    if state.skill is not None:
        by_activity = isinstance(work, AgentRun) and work.is_without_model
        how = ": it runs an activity, without any AI." if by_activity else "."
        lines.append(f"It has the skill **{prose(state.skill, NAME_BYTES)}**{how}")
    if reached := state.meter.reached:
        lines.append(f"Budgets at their threshold: {', '.join(f'`{name}`' for name in reached)}.")
    if isinstance(work, AgentRun) and (queued := len(work.mailbox)):
        lines.append(f"Messages that it has not read: {queued}.")
    if isinstance(work, AgentRun) and (upto := work.summaries.progress.since):
        lines.append(f"The AI reads a summary in place of entries 1 to {upto} of the log.")
    return "\n".join(lines)


def _present_state(work: ExecutionBase) -> str:
    match work.phases.end:
        case Finish(result):
            how = _ENDINGS[result.status]
            answer = f"\n**Its answer:** {prose(value_text(result.output), _OUTPUT_BYTES)}"
            return f"**Now:** {how}{answer if result.output is not None else ''}"
        case Fail(code_, message):
            why = prose(message, WORDS_BYTES)
            return f"**Now:** it has ended without a result (`{code_}`): {why}"
    if isinstance(work, AgentRun) and work.continued_as_new:
        return (
            "**Now:** the run has continued as new."
            "\n**To do:** nothing here: open its latest execution."
        )
    if questions := work.state.pending.list_open():
        count = len(questions)
        decisions = "one decision" if count == 1 else f"{count} decisions"
        otherwise = OTHERWISE if any(question.kind == "call" for question in questions) else ""
        return f"**Now:** it waits for {decisions} of a person.\n{instructions(count)}{otherwise}"
    if work.delegates.list_pending():
        return (
            "**Now:** a delegate waits for a decision.\n**To do:** decide each"
            " approval below in its own run. Look at it there first."
        )
    if work.status == "awaiting_message":
        spent = work.progress.exceeded if isinstance(work, AgentRun) else None
        how = "it has answered," if spent is None else f"`{spent}` of the message is used up: it"
        return (
            f"**Now:** {how} and waits for the next message.\n**To do:** nothing, or"
            f" **More Actions → Send an Update**, `{names.SEND}`, with your words in quotes."
        )
    in_turns = isinstance(work, AgentRun) and not work.is_without_model
    turn = f", in turn {max(work.state.meter.turns, 1)}" if in_turns else ""
    return f"**Now:** it is running{turn}.\n**To do:** nothing."


def _add_calls(page: _Page, summaries: CallSummaries) -> None:
    room = page.room_bytes - _REST_BYTES
    lines: list[str] = []
    for summary in reversed(summaries.all()):
        line = _call_line(summary.turn, summary.label, summary.arguments, summary.outcome)
        room -= cost_bytes(f"{line}\n")
        if room < 0:
            break
        lines.append(line)
    earlier = summaries.forgotten + len(summaries.all()) - len(lines)
    if earlier:
        lines.append(f"- … and {earlier} earlier: `holdfast show`, or the query `{names.EVENTS}`")
    if lines:
        page.add("\n".join(["### Calls", "", *reversed(lines)]))


# Few lines are new each time that the page is read.
@lru_cache(maxsize=256)
def _call_line(turn: int, label: str, arguments: str, outcome: str) -> str:
    in_brackets = f" ({prose(arguments, WORDS_BYTES)})" if arguments else ""
    where = f"Turn {turn}: " if turn else ""
    so_far = f": {prose(outcome, WORDS_BYTES)}" if outcome else ""
    return f"- {where}**{prose(label, NAME_BYTES)}**{in_brackets}{so_far}"
