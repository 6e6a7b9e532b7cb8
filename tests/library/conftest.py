"""What the company's project needs of its surroundings: a model, and a place for refunds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.library.acme.activities.orders import LEDGER
from tests.support.model_server import Answer, call, serve


@pytest.fixture
def refunds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the company's activity records each refund."""
    path = tmp_path / "refunds"
    path.touch()
    monkeypatch.setenv(LEDGER, str(path))
    return path


@pytest.fixture
def endpoints(tmp_path: Path) -> Iterator[Path]:
    """Endpoints with a model that refunds order 7."""
    answers = [Answer(calls=[call("refund", orderId="7")]), Answer('{"text": "It is refunded."}')]
    with serve(answers) as model:
        path = tmp_path / "endpoints.yaml"
        path.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        yield path
