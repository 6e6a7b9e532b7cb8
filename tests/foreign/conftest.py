"""A model server that others wrote: llmock, which fails on purpose and grades its client."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from holdfast.schemas.settings.endpoints import ProviderName

# It takes a free port by itself, and ends with its standard input, so it outlives no test.
_SERVE = """
import sys
from llmock.testing import LLMockServer
with LLMockServer() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
# As real models pace their text: without, an answer has been sent whole before its client can
# have hung up on it, and llmock takes that for a client that did not mind.
_PACE = {"LLMOCK_STREAM_CHUNK_DELAY_MS": "20"}
PROVIDERS: tuple[ProviderName, ...] = ("openai", "anthropic", "gemini")
_PATHS = {"openai": "/v1", "anthropic": "/anthropic", "gemini": "/gemini"}


@dataclass(frozen=True)
class Mock:
    """The server, by its address and its interface for tests."""

    url: str

    def base_url(self, provider: str) -> str:
        """The address for a provider's format."""
        return self.url + _PATHS[provider]

    def plan(self, *behaviors: dict[str, Any]) -> None:
        """What it is to do with the next requests. What was planned or done before is forgotten."""
        self._post("reset", {})
        self._post("scenario", {"behaviors": behaviors})

    def complaints(self) -> list[dict[str, Any]]:
        """Its complaints about its client, small ones too."""
        findings: list[dict[str, Any]] = self._get("verdict")["findings"]
        return findings

    def is_done(self) -> bool:
        """Whether it has done with everything that was planned but for its complaints."""
        pending = self._get("scenario")["pending"]
        return all(behavior["type"] == "reply" for behavior in pending)

    def requests(self) -> list[dict[str, Any]]:
        """The requests that it was sent."""
        requests: list[dict[str, Any]] = self._get("requests")["requests"]
        return requests

    def report(self) -> subprocess.CompletedProcess[str]:
        """`llmock report`, which complains by its exit code, of small things too."""
        command = "from llmock.cli import app; app()"
        return subprocess.run(
            [sys.executable, "-c", command, "report", "--strict", f"--url={self.url}"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def _post(self, path: str, value: dict[str, Any]) -> None:
        httpx.post(f"{self.url}/_llmock/{path}", json=value, trust_env=False).raise_for_status()

    def _get(self, path: str) -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/_llmock/{path}", trust_env=False)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


@contextmanager
def _serving() -> Iterator[Mock]:
    command = [sys.executable, "-c", _SERVE]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **_PACE},
    ) as process:
        assert process.stdout is not None
        yield Mock(process.stdout.readline().strip())
        process.communicate(timeout=30)


@pytest.fixture(scope="session")
def mock() -> Iterator[Mock]:
    """The server, for all the tests."""
    with _serving() as server:
        yield server
