"""The log of a run, drawn for a page (§11): marked, linked and bounded, whatever is in it."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.schemas.log_entry import read_record
from holdfast.web.message_files import MAX_FILES, MAX_PICTURE_BYTES, message_files
from holdfast.web.run.timeline import (
    BODY_CHARS,
    Timeline,
    TimelineLine,
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


def test_an_approval_has_its_terms_and_a_decision_how_long_it_took() -> None:
    times = {"requestedAt": "2020-03-01T13:59:07Z", "expiresAt": "2020-03-02T14:03:07Z"}
    named = {"callId": "t1c1", "tool": "pay", "label": "Pay", "digest": "d", "kind": "call"}
    approval = {**named, **times, "arguments": {}, "onTimeout": "fail"}
    asked = entry("confirmation_required", callId="t1c1", turn=1, approval=approval)
    decided = {"decision": "approve", "by": "ann", "at": NOW, "digest": "d"}
    by_ann = entry("decision", callId="t1c1", decided=decided, outcome="decided")
    ignored = entry("decision", callId="t1c1", decided=decided, ignored="too late")
    expired = entry("decision", callId="t1c1", outcome="expired")
    notes = [line.note for line in lines_of(asked, by_ann, ignored, expired)]
    terms = "If no one decides by 2020-03-02 14:03 UTC, {}."
    assert notes == [terms.format("the run fails"), "Decided after 4 min.", "", ""]
    [line] = lines_of(by_ann, lead=[asked])
    assert line.note == "Decided after 4 min."
    [line] = Timeline(RUN, is_single_call=True).lines([asked])
    assert line.note == terms.format("the call fails")


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
    part = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo=", **more}
    content = [{"type": "text", "text": "See:"}, part]
    return entry("message", message={"role": "user", "content": content})


def test_so_many_pictures_of_a_message_are_shown() -> None:
    part = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
    [line] = lines_of(entry("message", message={"role": "user", "content": [part] * 20}))
    assert len(line.pictures) == MAX_FILES


def test_a_large_picture_is_a_link() -> None:
    data = "iVBORw0KGgo" + "A" * (MAX_PICTURE_BYTES * 4 // 3)
    [line] = lines_of(picture(data=data[: len(data) // 4 * 4], name="cat.png"))
    assert (len(line.pictures), [link.text for link in line.links]) == (0, ["cat.png"])


@pytest.mark.parametrize(
    "more",
    [
        {"mediaType": "image/svg+xml"},
        {"mediaType": "text/html"},
        {"data": "PHNjcmlwdD4="},
        {"data": None, "url": "https://example.com/a.png"},
    ],
    ids=["svg", "no picture", "a page", "elsewhere"],
)
def test_any_other_picture_is_named(more: dict[str, Any]) -> None:
    assert message_files(read_record(picture(**more))) == {}
    [line] = lines_of(picture(**more))
    assert line.line.body.startswith("See:\n[")
