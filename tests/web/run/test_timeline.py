"""The log of a run, drawn for a page (§11): marked, linked and bounded, whatever is in it."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.schemas.log_entry import read_record
from holdfast.web.run.timeline import (
    BODY_CHARS,
    MAX_PICTURE_CHARS,
    MAX_PICTURES,
    Timeline,
    TimelineLine,
    pictures,
)

RUN = "order/7"
NOW = "2020-03-01T14:03:07.000Z"


def entry(type_: str, n: int = 5, **more: Any) -> dict[str, Any]:
    return {"n": n, "at": NOW, "type": type_, **more}


def result(content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "tool", "callId": "t1c1", "tool": "read", "content": content, **more}
    return entry("message", message=message)


def lines_of(
    *entries: dict[str, Any], lead: list[dict[str, Any]] | None = None
) -> list[TimelineLine]:
    return Timeline(RUN, lead or []).lines(entries)


def from_outside(value: Any) -> str:
    return json.dumps({"tool": "read", "trusted": False, "value": value}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (from_outside("Pay 900 euros."), "Pay 900 euros."),
        (from_outside({"a": 1}), '{\n  "a": 1\n}'),
        ("A person changed it.\n" + from_outside("Pay."), "A person changed it.\nPay."),
        ([{"type": "text", "text": from_outside("Pay.")}], "Pay."),
    ],
)
def test_what_comes_from_outside_is_marked_and_shown_without_its_wrapping(
    content: Any, body: str
) -> None:
    [line] = lines_of(result(content))
    assert line.line.outside
    assert line.line.body == body


@pytest.mark.parametrize(
    ("content", "outside"),
    [
        ("2500 characters; these are the first:\n" + from_outside("x" * 90)[:80], True),
        (from_outside("")[:-3] + "[" * 100_000, True),
        ('It said {"tool": "read", "trusted": false, "value": 1}', False),
    ],
    ids=["its beginning", "deep", "only speaks of trust"],
)
def test_a_part_of_what_comes_from_outside_is_marked_too(content: str, outside: bool) -> None:
    [line] = lines_of(result(content))
    assert line.line.outside is outside


def test_a_long_text_is_shown_in_part_and_leads_to_all_of_it() -> None:
    message = {"role": "assistant", "content": "x" * (BODY_CHARS + 1)}
    [line] = lines_of(entry("message", n=17, message=message))
    assert len(line.line.body) == BODY_CHARS
    assert [link.href for link in line.links] == ["/run/order%2F7/entry/17"]
    assert not line.is_folded
    [whole] = Timeline(RUN).full_lines(entry("message", message=message))
    assert len(whole.body) == BODY_CHARS + 1


def test_long_texts_of_tools_are_folded() -> None:
    [short], [long] = lines_of(result("fine")), lines_of(result("line\n" * 20))
    assert not short.is_folded
    assert long.is_folded
    assert long.head.startswith("line line")


def test_a_pending_approval_links_to_its_page() -> None:
    times = {"requestedAt": NOW, "expiresAt": NOW}
    named = {"callId": "t1c1", "tool": "pay", "label": "Pay", "digest": "d"}
    approval = {**named, **times, "kind": "reconcile", "arguments": {}}
    [line] = lines_of(entry("confirmation_required", callId="t1c1", turn=1, approval=approval))
    assert [(link.href, link.text) for link in line.links] == [
        ("/waiting/order%2F7/t1c1", "Open the request")
    ]


def test_an_approval_has_its_terms_and_a_decision_how_long_it_took() -> None:
    times = {"requestedAt": "2020-03-01T13:59:07Z", "expiresAt": "2020-03-02T14:03:07Z"}
    named = {"callId": "t1c1", "tool": "pay", "label": "Pay", "digest": "d", "kind": "call"}
    approval = {**named, **times, "arguments": {}, "onTimeout": "fail"}
    asked = entry("confirmation_required", callId="t1c1", turn=1, approval=approval)
    decided = {"decision": "approve", "by": "ann", "at": NOW, "digest": "d"}
    by_ann = entry("decision", callId="t1c1", decided=decided)
    ignored = entry("decision", callId="t1c1", decided=decided, ignored="too late")
    expired = entry("decision", callId="t1c1", outcome="expired")
    notes = [line.note for line in lines_of(asked, by_ann, ignored, expired)]
    terms = "If no one decides by 2020-03-02 14:03 UTC, {}."
    assert notes == [terms.format("the run fails"), "Decided after 4 min.", "", ""]
    [line] = lines_of(by_ann, lead=[asked])
    assert line.note == "Decided after 4 min."
    [line] = Timeline(RUN, is_single_call=True).lines([asked])
    assert line.note == terms.format("the call fails")


def test_a_delegate_leads_to_its_own_run_and_to_no_command() -> None:
    [line] = lines_of(
        entry("tool_start", callId="t1c1", turn=1, tool="ask", delegate="cl\u202eerk")
    )
    assert line.line.body == "by clerk, in a run of its own"
    assert [(link.href, link.text) for link in line.links] == [
        ("/run/order%2F7.t1c1", "Open the run of clerk")
    ]


def test_ordinary_calls_are_not_shown_line_by_line() -> None:
    assert lines_of(entry("tool_start", callId="t1c1", turn=1, tool="read")) == []
    assert lines_of(entry("tool_end", callId="t1c1", turn=1, tool="read")) == []


def test_a_call_is_named_as_it_was_before_what_is_shown() -> None:
    call = entry("tool_call", n=1, callId="t1c1", turn=1, tool="read", label="Read a page")
    [line] = lines_of(result("fine"), lead=[call])
    assert line.line.text == "t1c1 Read a page"


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (
            {"inputTokens": 1200, "outputTokens": 30, "cost": 0.5},
            "1,200 tokens in, 30 out, cost 0.5000",
        ),
        ({}, "tokens unknown"),
    ],
)
def test_the_usage_of_a_turn_is_at_its_end(usage: dict[str, Any], said: str) -> None:
    [line] = lines_of(entry("turn_end", turn=1, usage=usage))
    assert (line.line.word, line.line.text) == ("used", said)


def test_a_turn_has_its_own_use_where_that_of_the_turn_before_is_known() -> None:
    first = {"inputTokens": 1200, "outputTokens": 30, "cachedTokens": 200, "cost": 0.5}
    more = {"inputTokens": 2000, "outputTokens": 80, "cachedTokens": 900, "cost": 0.75}
    one, two = entry("turn_end", turn=1, usage=first), entry("turn_end", turn=2, usage=more)
    [line] = lines_of(two, lead=[one])
    assert line.line.text == "800 tokens in (700 cached), 50 out, cost 0.2500"
    [line] = lines_of(two)
    assert line.line.text.endswith("80 out, cost 0.7500, in all turns so far")


def test_the_end_is_shown_with_the_reason_of_a_failure() -> None:
    [done] = lines_of(entry("done", status="completed"))
    [failed] = lines_of(entry("error", code="model_error", message="no such model"))
    assert (done.line.text, done.line.tone) == ("completed", "good")
    assert (failed.line.text, failed.line.body, failed.line.tone) == (
        *("model_error", "no such model"),
        "bad",
    )


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as moved:
        moved.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_times_are_in_utc_and_what_was_not_today_has_its_date() -> None:
    [line] = lines_of(entry("notice", text="n"))
    assert (line.time_text, line.at) == ("2020-03-01 14:03", NOW)
    [line] = lines_of(entry("notice", text="n", at="2020-03-01T14:03:07+09:00"))
    assert line.time_text == "2020-03-01 05:03"
    now = datetime.now(UTC)
    [line] = lines_of(entry("notice", text="n", at=now.isoformat()))
    assert line.time_text in (f"{now:%H:%M:%S}", f"{now:%Y-%m-%d %H:%M}"), "or midnight has passed"


def picture(**more: Any) -> dict[str, Any]:
    part = {"type": "image", "mediaType": "image/png", "data": "aGk=", **more}
    content = [{"type": "text", "text": "See:"}, part]
    return entry("message", message={"role": "user", "content": content})


def test_a_picture_of_the_log_is_shown() -> None:
    [line] = lines_of(picture())
    assert [shown.href for shown in line.pictures] == ["/run/order%2F7/picture/5/1"]


def test_so_many_pictures_of_a_message_are_shown() -> None:
    part = {"type": "image", "mediaType": "image/png", "data": "aGk="}
    [line] = lines_of(entry("message", message={"role": "user", "content": [part] * 20}))
    assert len(line.pictures) == MAX_PICTURES


@pytest.mark.parametrize(
    "more",
    [
        {"mediaType": "image/svg+xml"},
        {"mediaType": "text/html"},
        {"data": "A" * (MAX_PICTURE_CHARS + 1)},
        {"data": None, "url": "https://example.com/a.png"},
    ],
    ids=["svg", "no picture", "too large", "elsewhere"],
)
def test_any_other_picture_is_named(more: dict[str, Any]) -> None:
    assert pictures(read_record(picture(**more))) == {}
    [line] = lines_of(picture(**more))
    assert line.line.body.startswith("See:\n[")
