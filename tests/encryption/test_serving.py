"""`holdfast codec` (§13) as a program: Temporal's own command line asks it, a signal stops it."""

import asyncio
import base64
import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from temporalio.client import Client

from holdfast.hosting.dev_server import run_dev_server, temporal_binary
from holdfast.hosting.options import read_options
from holdfast.schemas import names
from holdfast.web import codec
from tests.cli.program import Program
from tests.encryption.conftest import Holdfast, Keyed
from tests.encryption.keys import NEW, key_file
from tests.web.codec.serving import SECRET, UI

TOKEN = "HOLDFAST_CODEC_TOKEN"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    """The file that names the keys."""
    return str(key_file(tmp_path, [NEW]))


@pytest.fixture
def endpoint(keys: str, quick_starts: None) -> Iterator[Program]:
    """The endpoint, at a free port."""
    words = ("codec", "--encryption", keys, "--origin", UI, "--port", "0", "--store", "none")
    program = Program(words, HOLDFAST_CODEC_TOKEN=SECRET)
    yield program
    program.close()


async def test_temporals_command_line_reads_by_it_what_is_encrypted(
    endpoint: Program, keyed: Keyed, client: Client
) -> None:
    said = await endpoint.until(f"for {UI}; sign in there")
    address = said.partition("codec endpoint ready: ")[2].split()[0]
    run = f"codec-{uuid.uuid4().hex[:8]}"
    request = {"agent": "till", "input": "pay the florist"}
    handle = await keyed(NEW).start_workflow(
        names.AGENT_WORKFLOW, request, id=run, task_queue="nobody"
    )
    by_it = ("--codec-endpoint", f"{address}/{{namespace}}", "--codec-auth")
    assert await first_input(client, run, *by_it, f"Bearer {SECRET}") == request
    for words in ((), (*by_it, "Bearer unknown")):
        assert await first_input(client, run, *words) is None
    await handle.terminate()


async def test_the_last_store_of_a_command_is_the_one_that_is_read(
    keys: str, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = AsyncMock()
    monkeypatch.setattr(codec, "serve_codec", serve)
    monkeypatch.setenv(TOKEN, SECRET)
    stores = ("--store", "none", "--store", "/srv/runs")
    said = await holdfast("codec", "--encryption", keys, "--origin", UI, *stores)
    [served] = serve.await_args_list
    assert (said.code, served.args[3]) == (0, Path("/srv/runs"))


async def first_input(client: Client, run: str, *words: str) -> object:
    """The input of a run as `temporal workflow show` has it; None for one that cannot be read."""
    process = await asyncio.create_subprocess_exec(
        *(temporal_binary(), "workflow", "show", "--workflow-id", run, "--output", "json"),
        *("--address", client.service_client.config.target_host, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        return None
    started = json.loads(out)["events"][0]["workflowExecutionStartedEventAttributes"]
    [payload] = started["input"]["payloads"]
    encoding = base64.b64decode(payload["metadata"]["encoding"])
    return json.loads(base64.b64decode(payload["data"])) if encoding == b"json/plain" else None


@pytest.mark.parametrize(
    ("words", "secret", "said"),
    [
        (["--origin", UI], "", "variable HOLDFAST_CODEC_TOKEN, which is to hold the endpoint's"),
        (["--origin", UI], "short", "it has fewer than 16 characters; set it to a text of at"),
        (["--origin", UI], "é" * 20, "it has other characters than a header can carry; set it"),
        ([], SECRET, "--origin is missing; see holdfast codec --help"),
        (["--origin", "http://ui.example"], SECRET, "http can be changed in transit: write https"),
        (["--origin", UI, "--url", "codec"], SECRET, "write https://HOST, or on this machine"),
        (["--origin", UI, "--host", "0.0.0.0"], SECRET, "would be sent unencrypted; put a proxy"),
        (["--origin", UI, "--host", "here"], SECRET, "write an address of this machine"),
        (["--origin", UI, "--port", "x"], SECRET, "a port is a number up to 65535"),
        (["--origin", UI, "--store", "s4://x"], SECRET, "name a folder, or s3://BUCKET/PREFIX"),
        (["--origin", UI, "--token-env", "MINE"], SECRET, "the variable MINE, which is to hold"),
    ],
)
async def test_what_is_wrong_is_one_line_and_never_repeats_the_secret(
    holdfast: Holdfast,
    keys: str,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    secret: str,
    said: str,
) -> None:
    monkeypatch.setenv(TOKEN, secret)
    told = await holdfast("codec", "--encryption", keys, *words)
    assert (told.code, told.out) == (2, "")
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not secret or secret not in told.err


async def test_it_needs_keys_and_a_port(
    holdfast: Holdfast, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    monkeypatch.delenv("HOLDFAST_ENCRYPTION", raising=False)
    without = await holdfast("codec", "--origin", UI)
    assert without.err == (
        "holdfast: no keys are named; name them with `--encryption` or HOLDFAST_ENCRYPTION\n"
    )
    monkeypatch.setenv("HOLDFAST_ENCRYPTION", keys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = await holdfast("codec", "--origin", UI, "--port", str(port))
    assert told.code == 2
    assert f"127.0.0.1 port {port} is not available: Address already in use; stop what" in told.err


async def test_the_embedded_server_reports_how_to_read_its_ui(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dev", "--encryption", "my keys.yaml", "--dev-db", str(tmp_path / "temporal.db")]
    dev = read_options([*words, "--dev-port", "0", "--dev-ui-port", "0"]).dev
    assert dev is not None
    async with run_dev_server(dev):
        server, how = capsys.readouterr().out.splitlines()
    ui = server.partition(", UI ")[2]
    command = f"holdfast codec --encryption 'my keys.yaml' --origin {ui}"
    assert how == f"what its UI shows is encrypted; to read it there: {command}"
