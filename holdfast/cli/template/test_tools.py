"""Test the tools as plain functions: no server and no model is needed."""

import json
from pathlib import Path

import pytest
import tools


def test_refund_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "REFUNDS", tmp_path / "refunds.jsonl")

    receipt = tools.refund("1042", 249.0)

    assert receipt == {"order_id": "1042", "paid_back": "249.00 euros"}
    [line] = tools.REFUNDS.read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {"order_id": "1042", "amount": 249.0}


def test_refund_has_a_limit() -> None:
    assert tools.refund.to_json()["properties"]["amount"]["maximum"] == 1000
