"""Unexpected errors: a page or a problem with what to do, and the reason in the log."""

import logging
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client.run import Run
from holdfast.web.http.problems import MEDIA_TYPE, RefusedRequest, problem_of
from holdfast.web.listing import page_query
from holdfast.web.pages import ErrorMiddleware
from tests.support.inbox import inbox

SECRET = "the fault itself"


def _breaks(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


async def test_an_unexpected_error_has_a_page_and_its_reason_is_in_the_log(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(page_query, "find_page", _breaks)
    async with inbox(client) as stage:
        with caplog.at_level(logging.ERROR, "holdfast"):
            page = await stage.get("/")
            program = await stage.http.get("/")

    assert (page.status_code, program.status_code) == (500, 500)
    assert "Load the page again. If it fails again, contact the operator of the inbox" in page.text
    assert 'href="/"' in page.text
    assert page.headers["content-security-policy"]
    assert program.headers["content-type"] == MEDIA_TYPE
    assert program.json()["code"] == "failed"
    assert SECRET not in page.text + program.text
    told = [each for each in caplog.records if each.exc_info and SECRET in str(each.exc_info[1])]
    assert len(told) == 2


async def test_a_decision_that_met_it_may_have_been_taken(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "approvals", _breaks)
    async with inbox(client) as stage:
        answer = await stage.post("/waiting/order-7/t1c1", {"about": "approve"})

    assert answer.status_code == 500
    assert "check the pending approvals, or the run, before you send it again" in answer.text


async def test_an_error_before_sign_in_has_a_page_too(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with inbox(client) as stage:
        monkeypatch.setattr(stage.access.method, "authenticate", _breaks)
        answer = await stage.get("/")

    assert answer.status_code == 500
    assert "The inbox failed" in answer.text
    assert SECRET not in answer.text


async def test_a_started_response_is_cut_off_after_an_error() -> None:
    sent: list[Any] = []

    async def begins(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError(SECRET)

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(RuntimeError, match=SECRET):
        await ErrorMiddleware(begins)({"type": "http", "path": "/"}, _breaks, send)
    assert [each["type"] for each in sent] == ["http.response.start"]


def test_a_refused_request_has_a_code_by_its_status() -> None:
    statuses = (400, 401, 403, 408, 413, 415, 421, 503)
    assert [problem_of(RefusedRequest(status, "no")).code for status in statuses] == [
        *("bad_request", "unauthorized", "forbidden", "too_slow", "too_large", "wrong_type"),
        *("misdirected", "unavailable"),
    ]
