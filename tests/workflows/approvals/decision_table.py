"""The table of decisions: every kind of question × every way to decide × before, at, after expiry.

`python -m tests.workflows.approvals.decision_table --write` writes it into the documentation. What
a way offers is asked of the way; what counts, of the run's pending approvals.
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final, Literal, get_args

from holdfast.activities.notify.slack import app_message
from holdfast.runtime.decision_links import LINK_SECRET, DecisionLinks
from holdfast.runtime.narration.phrases import QUESTIONS
from holdfast.schemas.decision import Decision, Kind, PendingApproval
from holdfast.schemas.settings.notify import News
from holdfast.validation.schema_node import ValidationLimits
from holdfast.web.agui import interrupt_of
from holdfast.web.mcp.run_results import ApprovalForms
from holdfast.workflows.engine.approvals.notifications import QuestionOrigin, build_news
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from tests.engine.approvals.test_question import of_kind
from tests.support.backend import ROOT

PAGE: Final = ROOT / "docs" / "approvals" / "decision-times.md"
RUN: Final = "order-7"
COUNTS, LATE, UNSENT, NONE = "counts", "late", "not sent", "—"
Transport = Literal["signal", "update", "client"]
Offers = Callable[[PendingApproval, News], Awaitable[bool]]


async def _always(waiting: PendingApproval, news: News) -> bool:
    return any(option.verdict for option in QUESTIONS[waiting.kind].choices)


async def _by_link(waiting: PendingApproval, news: News) -> bool:
    links = DecisionLinks(LINK_SECRET, {LINK_SECRET: "s" * 32}, "https://inbox.example.com")
    return bool(links.personal(news, "ann", []).link)


async def _by_slack(waiting: PendingApproval, news: News) -> bool:
    blocks = app_message(news, with_buttons=True)["blocks"]
    return any(block["type"] == "actions" for block in blocks)


async def _by_mcp(waiting: PendingApproval, news: News) -> bool:
    results: Any = SimpleNamespace(where_to_decide=lambda run, each: "")
    run: Any = SimpleNamespace(id=RUN)
    return bool(await ApprovalForms(SimpleNamespace(), results).requests(run, [waiting]))  # type: ignore[arg-type]  # decides nothing


async def _by_agui(waiting: PendingApproval, news: News) -> bool:
    fields = interrupt_of(RUN, waiting)["responseSchema"]["properties"]
    return bool(fields["decision"]["enum"])


# By the way: what it sends, and whether it offers a decision.
WAYS: Final[dict[str, tuple[Transport, Offers]]] = {
    "signal `approve`": ("signal", _always),
    "update `decide`": ("update", _always),
    "terminal": ("client", _always),
    "inbox": ("client", _always),
    "HTTP API": ("client", _always),
    "link": ("client", _by_link),
    "Slack": ("client", _by_slack),
    "MCP": ("client", _by_mcp),
    "AG-UI": ("client", _by_agui),
}
MINUTE: Final = timedelta(minutes=1)
TIMES: Final = {"before": -MINUTE, "at": timedelta(), "after": MINUTE}


def question_of(kind: Kind) -> Question:
    """A question of a kind, as it is asked now."""
    form = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    question = replace(of_kind(kind), requested_at=datetime.now(UTC))
    return replace(question, form=form) if kind == "input" else question


def decides(kind: Kind, transport: Transport, after_expiry: timedelta, *, works: bool) -> str:
    """What becomes of the first decision that a kind offers, sent then; without a worker, one
    runs an hour later."""
    if transport == "client" and not works:
        return UNSENT  # tests/client/test_updates.py
    question, desk = question_of(kind), PendingApprovals()
    desk.add(question)
    verdict = next(option.verdict for option in QUESTIONS[kind].choices if option.verdict)
    fields = {"callId": question.call_id, "decision": verdict, "result": {"ok": True}}
    if verdict not in ("respond", "happened"):
        del fields["result"]
    sent_at = question.expires_at + after_expiry
    read_at = sent_at if works else sent_at + 60 * MINUTE
    # A signal that is read late counts as of its time; see `workflows/decisions.py`.
    at = sent_at if transport == "signal" and question.expires_at <= read_at else read_at
    try:
        desk.count(Decision.model_validate(fields), at, ValidationLimits())
    except DecisionRejected as error:
        return LATE if "expired at" in str(error) else str(error)
    return COUNTS


async def table() -> list[str]:
    """The table's lines."""
    heads = [f"{time}, {who}" for time in TIMES for who in ("worker", "none")]
    lines = [f"| kind | way | {' | '.join(heads)} |", f"| --- | --- |{' --- |' * len(heads)}"]
    for kind in get_args(Kind):
        question = question_of(kind)
        origin = QuestionOrigin(RUN, "first", "desk", "ada")
        waiting = question.to_pending_approval("run")
        news = build_news(question, "asked", origin, question.requested_at)
        news = news.model_copy(update={"waiting": waiting})
        for way, (transport, offers) in WAYS.items():
            cells = [NONE] * len(heads)
            if await offers(waiting, news):
                cells = list(_cells(kind, transport))
            lines.append(f"| `{kind}` | {way} | {' | '.join(cells)} |")
    return lines


def _cells(kind: Kind, transport: Transport) -> Iterator[str]:
    for after_expiry in TIMES.values():
        for works in (True, False):
            yield decides(kind, transport, after_expiry, works=works)


def written() -> list[str]:
    """The table of the page."""
    page = PAGE.read_text(encoding="utf-8")
    [found] = re.findall(r"<!-- table -->\n(.*?)<!-- /table -->", page, re.DOTALL)
    return str(found).splitlines()


def main() -> None:
    lines = asyncio.run(table())
    if "--write" not in sys.argv:
        print("\n".join(lines))
        return
    made = "\n".join(["<!-- table -->", *lines, "<!-- /table -->"])
    page = PAGE.read_text(encoding="utf-8")
    page = re.sub(r"<!-- table -->.*?<!-- /table -->", lambda _: made, page, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
