"""Run the commands of a transcript: what is typed, and what the command prints.

A transcript is a sentence that states the rule, and lines of these kinds:

    project                 the files of `project/` are in the folder
    file NAME               the lines below, indented by four, are a file in the folder
    token FILE CLAIMS       a token that Ada signs; `exp` is in how many seconds it expires
    worker OPTIONS          a worker of the files in the folder runs from now on
    $ holdfast …            a command; another program, pipes and `export NAME=VALUE` work, too
    terminal$ holdfast …    a command on a terminal of 80 columns
    terminal                the command that was left on the terminal is looked at again
    > TEXT                  is typed at its prompt; `^C` is Ctrl-C, and `^ELSEWHERE` leaves it there
      OUTPUT                what it prints, indented by two, or on standard error after `! `
    exit CODE               its exit code, if it is not 0
    # TEXT                  a comment

Before each command, every run has come as far as it can. Each transcript has a namespace of its own
on the server of the session.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from holdfast.hosting.options import read_options
from holdfast.hosting.resources import load_resources
from holdfast.hosting.worker import build_worker
from holdfast.runtime.data_converter import with_store
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.storage.folder import FolderStore
from tests.cli.program import Program
from tests.cli.transcripts.screen import rows
from tests.support import command
from tests.support.eventually import eventually
from tests.support.identity.signing import ADA, BOB, jwks

PROJECT = Path(__file__).with_name("project")
ELSEWHERE, STOP = "^ELSEWHERE", "^C"
_PANEL_COLUMNS = 79
_PROMPT = re.compile(r"(> |\): )")
_WAITS = re.compile(r"^(It waits for a message|Skipped|holdfast decide )")
_LISTING = re.compile(r"holdfast (list|approvals|forget|policy)\b")
_SHELL = re.compile(r"[|<>&;]|^(?!holdfast )")

# What varies, and what is written in its place; a command that is typed takes the last value.
VARYING = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "YYYY-MM-DDThh:mm:ssZ"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD hh:mm:ss"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "YYYY-MM-DD hh:mm"),
    (r"\b\d\d:\d\d:\d\d\b", "hh:mm:ss"),
    (r"(?<=--nonce )[0-9a-f]{64}|(?<=\"nonce\": \")[0-9a-f]{64}", "NONCE"),
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"(?<=127\.0\.0\.1:)\d{4,5}", "PORT"),
    (r"(?<=  )\d{1,2} s ", "AGE "),
    (r"\b\d{1,2} s ago", "AGE ago"),
    (r"(?<=-)[0-9a-f]{8}\b", "XXXXXXXX"),
    (r"\b[\d,]+(?= bytes of history)|(?<=\"historyBytes\": )\d+", "N"),
    (re.escape(version("holdfast-agents")), "VERSION"),
]


class CommandTranscript:
    """The commands of one transcript, in a folder and a namespace of their own."""

    def __init__(
        self,
        folder: Path,
        client: Client,
        patch: pytest.MonkeyPatch,
        start: Callable[..., Program],
    ) -> None:
        self.folder, self.client, self.patch, self.start = folder, client, patch, start
        self.lines: list[str] = []
        self.runs: list[str] = []
        self.last = {"FOLDER": str(folder), "PYTHON": sys.executable}
        self.terminal: Program | None = None
        self.left: Program | None = None
        self.has_worker = False
        self.shown = 0  # rows of the terminal
        self.workers = AsyncExitStack()

    async def play(self, text: str) -> str:
        """Return the text with what its commands print now."""
        async with self.workers:
            blocks = re.split(r"\n(?=\S)", text.rstrip("\n"))
            for block in blocks:
                line, _, below = block.partition("\n")
                if line.startswith(("!", "exit ")):
                    continue
                if self.terminal is not None and not line.startswith(">"):
                    await self.leave_terminal()
                if len(self.lines) == 1 or line.startswith(("#", "file ")):
                    self.lines += [""]
                self.lines += [line]
                await self.apply(line, below)
            if self.terminal is not None:
                await self.leave_terminal()
        return "\n".join([*self.lines, ""])

    async def apply(self, line: str, below: str) -> None:
        """Apply one line, and what is below it."""
        kind, _, rest = line.partition(" ")
        match kind:
            case "project":
                self.copy_project()
            case "file":
                self.write_file(rest, below)
            case "token":
                self.sign_token(*self.with_values(rest).split(" ", 1))
            case "worker":
                await self.start_worker(self.with_values(rest).split())
            case "$":
                await self.execute(self.with_values(rest))
            case "terminal$":
                await self.settle(rest)
                words = self.words(self.with_values(rest))
                self.terminal, self.shown = self.start(*words, folder=self.folder, terminal=True), 0
            case "terminal":
                self.terminal = self.left
            case ">":
                await self.type(rest)
            case _:
                assert kind == "#" or len(self.lines) == 1, f"no line of a transcript: {line}"

    def copy_project(self) -> None:
        """Copy the files of the shop, and the keys of two people."""
        shutil.copytree(PROJECT, self.folder, dirs_exist_ok=True)
        for name, signer in (("ada", ADA), ("bob", BOB)):
            (self.folder / f"{name}.pem").write_text(signer.private_pem())
        (self.folder / "people.json").write_text(jwks(ADA, BOB))

    def write_file(self, name: str, below: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = self.with_values(re.sub(r"(?m)^    ", "", below))
        path.write_text(content.rstrip("\n") + "\n")
        self.lines += below.rstrip("\n").split("\n")

    def sign_token(self, name: str, claims: str) -> None:
        said = yaml.safe_load(claims)
        token = ADA.signed({**said, "exp": int(time.time()) + said["exp"]})
        (self.folder / name).write_text(token)

    async def start_worker(self, options: list[str]) -> None:
        """Start a worker, which ends with the transcript."""
        settings = read_options(options).settings
        resources = load_resources(settings, Secrets(environment_secrets(os.environ)))
        config = self.client.config()
        if isinstance(settings.store, Path):
            store = FolderStore(settings.store)
            config["data_converter"] = with_store(self.client.data_converter, store)
        worker = build_worker(Client(**config), settings, resources)
        await self.workers.enter_async_context(worker)
        self.has_worker = True

    def words(self, text: str) -> list[str]:
        """Return the words of a command, without `holdfast`; note the run that it starts."""
        _, *words = shlex.split(text)
        self.runs += [words[n + 1] for n, word in enumerate(words) if word == "--id"]
        return words

    def with_values(self, text: str) -> str:
        """Return a command with the last values of what varies."""
        for name, value in self.last.items():
            text = re.sub(rf"\b{name}\b", value, text)
        return text

    async def execute(self, text: str) -> None:
        if text.startswith("export "):
            name, _, value = shlex.split(text)[1].partition("=")
            self.patch.setenv(name, value)
            return
        await self.settle(text)
        if _SHELL.search(text):
            environment = {**os.environ, "PATH": f"{self.folder.parent}:{os.environ['PATH']}"}
            ended = await asyncio.to_thread(
                subprocess.run, text, shell=True, env=environment, capture_output=True, text=True
            )
            output = command.CommandOutput(ended.returncode, ended.stdout, ended.stderr)
        else:
            output = await command.holdfast(*self.words(text))
        self.write(output.out.splitlines())
        self.write(output.err.splitlines(), "! ")
        if output.code:
            self.lines += [f"exit {output.code}"]

    def write(self, printed: list[str], before: str = "  ") -> None:
        """Add the lines that were printed, without what varies."""
        for line in printed:
            line = line.replace(str(self.folder), "FOLDER")
            for pattern, name in VARYING:
                for found in re.finditer(pattern, line):
                    self.last[name] = found[0]
                line = re.sub(pattern, name, line)
            if line.endswith("│"):  # the right side of a panel
                line = line[:-1].rstrip().ljust(_PANEL_COLUMNS) + "│"
            self.lines += [f"{before}{line}".rstrip()]

    # The terminal.

    async def type(self, text: str) -> None:
        """Type at the next prompt; what was printed until then is written before."""
        assert self.terminal is not None, f"nothing reads {text}"
        del self.lines[-1]
        seen, row = await self.prompt(stops=text == STOP)
        self.write(seen[self.shown : row])
        self.lines += [f"> {text}".rstrip()]
        self.shown = row
        if text == ELSEWHERE:
            self.left, self.terminal = self.terminal, None
            return
        keys = re.sub(r"\^([A-Z])", lambda found: chr(ord(found[1]) - 64), text)
        self.terminal.type(keys if text == STOP else f"{keys}\r")

    async def prompt(self, *, stops: bool) -> tuple[list[str], int]:
        """Return the rows of the terminal once it has a prompt, and the row after the prompt.

        A program that only waits is stopped where it waits.
        """
        assert self.terminal is not None
        while True:
            seen, row = rows(self.terminal.seen)
            if row >= self.shown and _PROMPT.search(seen[row]):
                return seen, row + 1
            if stops and any(_WAITS.search(line) for line in seen[self.shown : row]):
                return seen, row
            assert await self.terminal._read(120), "\n".join(["no prompt:", *seen])

    async def leave_terminal(self) -> None:
        """Wait until the program on the terminal has ended."""
        assert self.terminal is not None
        code = await self.terminal.ended()
        seen, _ = rows(self.terminal.seen)
        while seen and not seen[-1]:
            seen.pop()
        self.write(seen[self.shown :])
        self.lines += [f"exit {code}"] if code else []
        self.terminal = None

    # The runs.

    async def settle(self, text: str) -> None:
        """Wait until every run has come as far as it can; for a list, until it has them so."""
        for run in self.runs:
            await eventually(partial(self.rests, run))
        if _LISTING.search(text):
            await eventually(self.is_listed)

    async def rests(self, run: str) -> bool:
        """Whether neither a run nor a delegate of it moves without a person."""
        try:
            found = await self.client.get_workflow_handle(run).describe()
        except RPCError:  # it was not started
            return True
        if found.status != WorkflowExecutionStatus.RUNNING:
            return found.status != WorkflowExecutionStatus.CONTINUED_AS_NEW
        raw = found.raw_description
        if raw.HasField("pending_workflow_task"):
            return not self.has_worker
        if any(each.attempt == 1 for each in raw.pending_activities):
            return False
        if found.parent_id is not None and await self.is_signalling(run):
            return False
        children = [child.workflow_id for child in raw.pending_children]
        if not all([await self.rests(child) for child in children]):
            return False
        # A child may have signalled meanwhile.
        again = (await self.client.get_workflow_handle(run).describe()).raw_description
        return not (children and again.HasField("pending_workflow_task"))

    async def is_signalling(self, run: str) -> bool:
        """Whether a signal of a run to its parent is on its way."""
        sent = Counter[bool]()
        async for event in self.client.get_workflow_handle(run).fetch_history_events():
            sent[True] += event.HasField(
                "signal_external_workflow_execution_initiated_event_attributes"
            )
            sent[False] += event.HasField("external_workflow_execution_signaled_event_attributes")
        return sent[True] > sent[False]

    async def is_listed(self) -> bool:
        """Whether the lists of Temporal, which are a moment behind, have the runs as they are."""
        async for each in self.client.list_workflows():
            found = await self.client.get_workflow_handle(each.id, run_id=each.run_id).describe()
            is_same = each.typed_search_attributes == found.typed_search_attributes
            if not is_same or each.status != found.status:
                return False
        return True
