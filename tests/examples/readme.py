"""An example by its README: the three commands, and the printed output."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from temporalio.client import Client

from tests.support.process import ROOT, WorkerProcess

_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Readme:
    """A README: the words of the worker's command and of the other two, and its further blocks."""

    def __init__(self, example: str) -> None:
        text = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
        blocks = _BLOCK.findall(text)
        [commands] = [block for block in blocks if block.startswith(".venv/bin/")]
        self.worker, *self.commands = map(shlex.split, commands.splitlines())
        self.prints = blocks[blocks.index(commands) + 1 :]


@contextmanager
def played(example: str, client: Client) -> Iterator[Readme]:
    """An example with its worker, started as in the README, save that the session's server is
    used; the environment is that of a reader."""
    readme = Readme(example)
    address = client.service_client.config.target_host
    words = [word for word in readme.worker[2:] if word != "--dev"]
    with pytest.MonkeyPatch.context() as patch, WorkerProcess(address, *words):
        patch.setenv("TEMPORAL_ADDRESS", address)
        patch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
        yield readme
