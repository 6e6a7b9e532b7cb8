"""What a client receives of a run: its result, or its state and where a person decides."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent

from holdfast.client import question_text
from holdfast.client.errors import HoldfastError
from holdfast.client.result import RunEnding
from holdfast.client.run import PendingCall, Run
from holdfast.runtime.narration.log_narration import LogNarration
from holdfast.runtime.text_safety import arguments_line, as_text, clean, one_line
from holdfast.schemas import names
from holdfast.schemas.base import rfc3339, sha256
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.log_entry import ConfirmationRequiredEntry, LogRecord, read_record

RUN_META: Final = "dev.holdfast/run"
# With the longest wait, less than a minute.
_STATE_SECONDS: Final = 5.0
_SHOWN_EVENTS: Final = 30
_LINE_CHARS: Final = 300
# Between this machine and a server of Temporal.
_CLOCK_DIFFERENCE: Final = timedelta(seconds=5)


def approval_key(approval: PendingApproval) -> str:
    """Return the key of a question with these arguments, which no other question has."""
    return f"{approval.call_id}.{sha256(f'{approval.nonce} {approval.digest}'.encode())[:32]}"


async def next_step(
    run: Run,
    seconds: float,
    known: Collection[str] | None,
    report: Callable[[LogRecord, str], Awaitable[None]],
) -> RunEnding | list[PendingCall]:
    """Return the ending of a run, or approvals whose keys are not `known`; none after `seconds`.

    New events are reported with a text: of a new run (`known` is None), all.

    Raises:
        HoldfastError: the run cannot be read.
    """
    narration = LogNarration(run.id, in_terminal=False)
    since = "" if known is None else rfc3339(datetime.now(UTC) - _CLOCK_DIFFERENCE)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), aclosing(run.events()) as events:
            async for record in events:
                text = _narrate(narration, record)
                if record.at < since:
                    continue
                if text:
                    await report(record, text)
                if isinstance(record.entry, ConfirmationRequiredEntry):
                    pending = await run.approvals()
                    if new := [each for each in pending if approval_key(each) not in (known or ())]:
                        return new
            return await run.ending()
    return []


@dataclass(frozen=True)
class RunResults:
    """Makes results of tools; `inbox` is the address of the inbox, if people have one."""

    inbox: str | None = None

    def where_to_decide(self, run_id: str, approval: PendingApproval) -> str:
        """Return where a person decides: the page of the call, or the command."""
        if self.inbox is None:
            return f"`{question_text.how_to_decide(run_id, approval)}`"
        return self._link(run_id, approval.call_id)

    def finished(self, run_id: str, ending: RunEnding, notes: Sequence[str] = ()) -> CallToolResult:
        """Return the output of a run that has ended, or the reason why there is none."""
        try:
            output = ending.require_output(run_id)
        except HoldfastError as failure:
            return tool_result([*notes, str(failure)], run_id, is_error=True)
        made = tool_result(notes, run_id, output if isinstance(output, dict) else None)
        made.content.extend(_blocks(output))
        return made

    def started(self, run_id: str) -> CallToolResult:
        """Return the id of a run to a caller that may not read it."""
        told = f"Run {clean(run_id)} has started. The key of your token has no right to read it."
        return tool_result([told], run_id, {"run": run_id, "status": "started"})

    async def unfinished(
        self, run: Run, notes: Sequence[str] = (), *, with_log: bool = False
    ) -> CallToolResult:
        """Return the state of a run, and with `with_log` its last events."""
        name, status, lines = clean(run.id), "running", [*notes]
        try:
            async with asyncio.timeout(_STATE_SECONDS):
                report = await run.status()
                status = report.status
                lines.append(f"Run {name} has not finished: {status.replace('_', ' ')}.")
                for each in await run.approvals():
                    shown = f"{question_text.heading(each)} {arguments_line(each.arguments)}"
                    lines.append(f"{shown}: {self.where_to_decide(run.id, each)}")
                for there in report.delegate_approvals:
                    link = self._link(there.workflow_id, there.call_id) if self.inbox else ""
                    lines.append(f"Approval needed {question_text.delegate_line(there)} {link}")
                if with_log:
                    narration = LogNarration(run.id, in_terminal=False)
                    entries = run.entries(names.EVENTS)
                    texts = [_narrate(narration, read_record(each)) async for each in entries]
                    lines.append("\n".join(filter(None, texts[-_SHOWN_EVENTS:])))
        except TimeoutError:
            lines.append(f"Run {name} does not answer: {await run.diagnose()}.")
        except HoldfastError as error:
            lines.append(f"Run {name} does not answer: {error}.")
        if status == "awaiting_approval":
            lines.append("Only a person can decide: show the user where.")
        lines.append(f"`wait_run` with the run `{name}` waits for its result.")
        return tool_result(lines, run.id, {"run": run.id, "status": status})

    def _link(self, run_id: str, call_id: str) -> str:
        return f"{self.inbox}/waiting/{quote(run_id, safe='')}/{quote(call_id, safe='')}"


def tool_result(
    lines: Sequence[str], run_id: str = "", structured: Any = None, *, is_error: bool = False
) -> CallToolResult:
    """Return a result with these texts; its `_meta` has the id of the run."""
    return CallToolResult(
        content=[TextContent(text=line) for line in lines],
        structured_content=structured,
        is_error=is_error,
        meta={RUN_META: run_id} if run_id else None,
    )


def _blocks(output: Any) -> list[ContentBlock]:
    """Return an output as content: texts and pictures as they are, anything else as JSON."""
    blocks: list[ContentBlock] = []
    for part in output if isinstance(output, list) else ():
        match part:
            case {"type": "text", "text": str(text)}:
                blocks.append(TextContent(text=clean(text)))
            case {"type": "image", "data": str(data), "mediaType": str(media_type)}:
                blocks.append(ImageContent(data=data, mime_type=media_type))
            case _:
                return [TextContent(text=as_text(output))]
    return blocks or [TextContent(text=as_text(output))]


def _narrate(narration: LogNarration, record: LogRecord) -> str:
    lines = [each for each in narration.lines(record) if not each.minor]
    texts = (f"{each.word} {each.text} {each.body}" for each in lines)
    return "\n".join(one_line(text, _LINE_CHARS) for text in texts)
