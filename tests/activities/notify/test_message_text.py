"""§13: what people read of news: what it is about, and nothing that a stranger can make of it."""

from typing import Any

import pytest

from holdfast.activities.notify.message_text import (
    limit_content,
    message_text,
)
from holdfast.client.question_text import explanations
from holdfast.runtime.text_safety import defuse_links
from holdfast.schemas.decision import AppliedRule, Claimed
from holdfast.schemas.settings.notify import News
from tests.support.news_receivers import news


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("asked", {"Who decides", "Until"}),
        ("reminder", {"Who decides", "Until"}),
        ("expired", {"Result"}),
        ("decided", {"Decided"}),
    ],
)
def test_news_of_an_ended_wait_lists_no_approvers(kind: str, said: set[str]) -> None:
    names = {name for name, _ in message_text(news(kind)).lines}
    always = {"Tool", "Agent", "On behalf of", "With order_id", "With amount", "Why", "Run"}
    assert names == always | said


@pytest.mark.parametrize(
    ("waiting", "line"),
    [
        ({}, "members of finance, legal; 2 approvals needed"),
        ({"approvers": [], "quorum": 1}, "any user of the inbox"),
        (
            {"quorum": 1, "signed": True},
            "members of finance, legal; only signed decisions are accepted",
        ),
    ],
)
def test_the_approvers_are_named(waiting: dict[str, Any], line: str) -> None:
    assert dict(message_text(news(waiting=waiting)).lines)["Who decides"] == line


@pytest.mark.parametrize(
    ("kind", "waiting", "more", "title"),
    [
        ("reminder", {}, {"reminder": 3}, "Reminder 3: Approval needed: Refund an order"),
        ("asked", {"kind": "reconcile"}, {}, "Outcome unknown: Refund an order"),
        (
            "asked",
            {"kind": "reconcile", "attempts": ["2026-03-01T14:00:00Z"] * 2},
            {},
            "Attempt 2, outcome unknown: Refund an order",
        ),
        ("asked", {"kind": "input"}, {}, "Answer needed: Refund an order"),
        ("asked", {"kind": "budget"}, {}, "Budget limit reached: Refund an order"),
        ("asked", {"instance": "acme"}, {}, "Approval needed: Refund an order for acme"),
        ("expired", {}, {}, "Expired: Refund an order"),
        ("decided", {}, {}, "Decided: Refund an order"),
        ("threshold", {}, {}, "Budget threshold reached: Refund an order"),
        ("asked", {"label": ""}, {}, "Approval needed"),
        ("decided", {"label": "A: denied"}, {}, 'Decided: "A: denied"'),
        ("decided", {"instance": "b: denied"}, {}, 'Decided: Refund an order for "b: denied"'),
    ],
)
def test_a_title_names_its_subject(
    kind: str, waiting: dict[str, Any], more: dict[str, Any], title: str
) -> None:
    assert message_text(news(kind, waiting, **more)).title == title


def test_a_claim_is_named_until_its_time() -> None:
    claims = [Claimed(by="ben", until=f"{year}-01-02T14:32:00Z") for year in (2999, 2020)]
    now, past = (message_text(news("reminder", {"claim": one})).lines for one in claims)
    assert ("Now", "ben is looking at this until 14:32 UTC") in now
    assert "Now" not in dict(past)


def test_a_terminal_names_a_claim_beside_the_terms() -> None:
    claim = Claimed(by="ben", until="2999-01-02T14:32:00Z")
    [*_, terms] = explanations(news(waiting={"claim": claim}).waiting)
    assert terms.endswith(" · ben is looking at this until 14:32 UTC")


def test_bare_news_names_no_approver() -> None:
    claimed = news(waiting={"claim": Claimed(by="ben", until="2999-01-02T14:32:00Z")})
    told = [name for name, _ in message_text(limit_content(claimed, "none")).lines]
    assert told == ["Until", "Run"]


def test_the_rule_and_its_reason_are_named_where_arguments_are() -> None:
    rule = AppliedRule(tool="refund", number=2, description="amount is over €1,000")
    asked = news(waiting={"rules": [rule]})
    assert ("Rule", "finance, legal, 2 people: amount is over €1,000") in message_text(asked).lines
    assert "Rule" not in dict(message_text(limit_content(asked, "brief")).lines)


def test_the_title_of_the_run_is_named_where_arguments_are() -> None:
    asked = news(waiting={"run_title": "Refund of order 7"})
    assert ("Title", "Refund of order 7") in message_text(asked).lines
    assert "order 7" not in str(limit_content(asked, "brief").to_json())


def test_a_plan_is_no_tool_and_its_outcome_is_stated() -> None:
    told = message_text(news(waiting={"kind": "plan", "tool": "plan"}, lapse="give_up"))
    assert "Tool" not in dict(told.lines)
    assert dict(told.lines)["Until"].endswith("without a decision, its outcome stays unknown")


def test_of_many_arguments_the_first_are_listed() -> None:
    told = message_text(news(waiting={"arguments": {f"a{n}": n for n in range(30)}}))
    assert [name for name, _ in told.lines if name.startswith("With")][-1] == "With a19"
    assert ("Not shown", "further arguments") in told.lines


def test_arguments_are_shown_as_on_the_page_where_they_are_sent() -> None:
    shown = news(shown=[("Amount", "€120.00"), ("Lines 1", "Order A-7 · Reason broken")])
    told = message_text(News.read(shown.to_json())).lines
    lines = [one for one in told if one[0].startswith("With")]
    assert lines == [
        ("With Amount", "€120.00"),
        ("With Lines 1", "Order A-7 · Reason broken"),
    ]
    for content in ("brief", "none"):
        assert "€120.00" not in str(limit_content(shown, content).to_json())


def test_a_label_is_shown_without_what_cannot_be_seen() -> None:
    text = message_text(news(waiting={"label": "Pay\u202e all\x00\n now"}))
    assert text.title.endswith(": Pay all now")


# In full width, and with the dots that a browser reads as one.
WIDE = ["x\uff0ey", "x\u3002y", "x\uff61y", "a\uff1a\uff0f\uff0f", "\uff20ada", "\uff03ops"]


@pytest.mark.parametrize("live", ["x.y", "a://", "@ada", "](", "#ops", *WIDE])
def test_what_looks_like_a_link_or_a_mention_is_parted(live: str) -> None:
    parted = defuse_links(f"[see {live}")
    assert live not in parted
    assert parted.replace("\u2060", "") == f"[see {live}"


def test_an_argument_is_not_taken_for_our_own_text() -> None:
    told = message_text(news(waiting={"arguments": {"Who decides": "nobody", "Until": "never"}}))
    said = [name for name, _ in told.lines]
    assert (said.count("Who decides"), said.count("Until")) == (1, 1)


def test_arguments_that_were_filled_in_are_named_where_arguments_are() -> None:
    filled = news(waiting={"filled_in": ["currency"]})

    assert dict(message_text(filled).lines)["Filled in"] == "currency"
    assert limit_content(filled, "brief").waiting.filled_in == []
