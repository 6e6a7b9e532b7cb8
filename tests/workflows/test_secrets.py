"""None of a worker's secrets leaves it: in no history, heartbeat, answer, log or screen.

A worker gets one in every place that holds one. Models that repeat what they are sent, tools that
print the environment and connections that fail do their worst. Then all that can be read is
searched for each of them, also in base64 and as they are in addresses.
"""

import base64
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from holdfast.hosting import worker
from holdfast.hosting.process_exit import UNREACHABLE, WRONG_SETUP
from tests.support.backend import Launch, Run
from tests.support.command import holdfast
from tests.support.echoing import echoing
from tests.support.eventually import eventually
from tests.support.identity.signing import SIGNED_PAY, Approver, write_keys
from tests.support.model_server import Answer, call
from tests.support.process import ROOT, WorkerProcess

pytestmark = pytest.mark.usefixtures("quick_starts")

# By the variable or the place that holds it.
PLANTED = {
    "FIRST_KEY": "sk-first-0001/+a",
    "SECOND_KEY": "sk-second-0002",
    "THIRD_KEY": "AIza-third-0003",
    "PLAINLY_NAMED": "gateway-of-ours-0004",
    "AWS_SECRET_ACCESS_KEY": "aws/secret+0005",
    "HOLDFAST_CODEC_TOKEN": "codec-token-0006",
    "RING": base64.b64encode(b"thirty-two bytes make one key 07").decode(),
    "STRIPE_SECRET": "stripe-secret-0008",
    "the file's header": "in-a-header-0009",
    "the file's address": "in-the-address-0010",
    "the proxy's password": "pro%40xy-0011",
    "the database's password": "data:base?-0012",
}
TOOLS = '''
import os
from typing import Any
from pydantic import BaseModel, ConfigDict
from temporalio import activity

ONCE = {"_activity": {"retry": {"maximumAttempts": 1}}}

class Note(BaseModel):
    model_config = ConfigDict(json_schema_extra=ONCE)
    note: str = ""

@activity.defn
async def returns_it(arguments: Note) -> dict[str, Any]:
    """Returns the environment."""
    return dict(os.environ)

@activity.defn
async def says_it(arguments: Note) -> str:
    """Returns the environment as a text."""
    activity.heartbeat(dict(os.environ), str(os.environ))
    activity.logger.warning("there is %s", dict(os.environ))
    return repr(dict(os.environ))

@activity.defn
def raises_it(arguments: Note) -> str:
    """Raises the environment, once and for all."""
    try:
        raise KeyError(str(os.environ))
    except KeyError as error:
        raise ValueError(f"not in {os.environ}") from error
'''
LEAKY = ["returns_it", "says_it", "raises_it"]
RETRIED = ("breaks", "drops")


@pytest.fixture
def model() -> Iterator[str]:
    with echoing(LEAKY) as url:
        yield url


@pytest.fixture
def place(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worker's settings, with a secret wherever one can be."""
    environment = {name: value for name, value in PLANTED.items() if name.isupper()}
    proxy, database = PLANTED["the proxy's password"], PLANTED["the database's password"]
    environment |= {
        "DATABASE_URL": f"postgres://ann:{quote(database, safe='')}@db.invalid/desk",
        "HTTPS_PROXY": f"http://bob:{proxy}@127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
        "PYTHONUNBUFFERED": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    header, address = PLANTED["the file's header"], PLANTED["the file's address"]
    of_file = {"headers": {"Authorization": f"Bearer {header}"}}
    of_environment = {"headersEnv": {"x-gateway": "PLAINLY_NAMED"}}
    endpoints: dict[str, dict[str, Any]] = {
        "openai": {"baseUrl": f"{model}/v1?api-key={address}", "apiKeyEnv": "FIRST_KEY"},
        "anthropic": {"baseUrl": model, "apiKeyEnv": "SECOND_KEY", **of_environment},
        "gemini": {"baseUrl": model, "apiKeyEnv": "THIRD_KEY"},
        "ollama": {"baseUrl": model, "apiKeyEnv": "FIRST_KEY", **of_file},
    }
    written: dict[str, dict[str, Any]] = {
        name: {"provider": name, **each} for name, each in endpoints.items()
    }
    written["file"] = {**written["openai"], **of_file, **of_environment}
    written["nobody"] = {**written["openai"], "baseUrl": f"http://127.0.0.1:9/?token={address}"}
    written["tls"] = {**written["openai"], "baseUrl": f"https{model.removeprefix('http')}/v1"}
    written["tls"]["timeout"] = "1s"  # it never reports that it has no TLS
    written["proxied"] = {**written["openai"], "baseUrl": "https://models.invalid/v1"}
    (tmp_path / "endpoints.json").write_text(json.dumps(written))
    (tmp_path / "leaky.py").write_text(TOOLS)
    return tmp_path


def forms(secret: str) -> set[bytes]:
    """How a secret may be written."""
    plain = {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
    return {form.encode() for form in plain} | {base64.b64encode(secret.encode()).rstrip(b"=")}


def leaked(where: str, said: bytes) -> list[str]:
    """Which secrets are there."""
    return [
        f"{place}, in {where}"
        for place, secret in PLANTED.items()
        if any(form in said for form in forms(secret))
    ]


async def started(
    client: Client, queue: str, endpoint: str, does: str, **agent: Any
) -> WorkflowHandle[Any, Any]:
    """A run that asks this endpoint for a model that does this."""
    definition = {"name": "desk", "model": {"endpoint": endpoint, "name": does}, **agent}
    return await client.start_workflow(
        "AgentWorkflow",
        {"agent": definition, "input": "go"},
        id=f"{endpoint}-{does}-{uuid.uuid4().hex[:8]}",
        task_queue=queue,
    )


async def ended_or_trying(run: WorkflowHandle[Any, Any]) -> bool:
    """Whether the run has ended, or tries again what failed."""
    description = await run.describe()
    pending = description.raw_description.pending_activities
    is_over = description.status != WorkflowExecutionStatus.RUNNING
    return is_over or any(each.HasField("last_failure") for each in pending)


async def readable(run: WorkflowHandle[Any, Any]) -> dict[str, bytes]:
    """All that can be read of a run, by its place."""
    description = (await run.describe()).raw_description
    found = {f"the description of {run.id}": description.SerializeToString()}
    async for event in run.fetch_history_events():
        found[f"event {event.event_id} of {run.id}"] = event.SerializeToString()
    for query, *argument in (("status",), ("context", {}), ("events", {}), ("approvals",)):
        answer = await run.query(query, *argument)
        found[f"the query {query} of {run.id}"] = json.dumps(answer, ensure_ascii=False).encode()
    return found


async def test_no_secret_of_a_worker_leaves_it(
    client: Client,
    place: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    options = ["--task-queue", queue, "--endpoints", str(place / "endpoints.json")]
    options += ["--tools", str(place / "leaky.py"), f"--knowledge-url={model}/"]
    address = client.service_client.config.target_host
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    knowledge = [
        {"name": does, "url": f"{model}/{does}?sig={PLANTED['STRIPE_SECRET'][::-1]}"}
        for does in ("breaks", "moves")
    ]
    with WorkerProcess(address, *options):
        asked = [
            *[("file", does) for does in ("refuses", "complains", "moves", *RETRIED)],
            *[(name, "refuses") for name in ("openai", "anthropic", "gemini", "ollama")],
            *[(name, "complains") for name in ("anthropic", "gemini", "ollama")],
            *[(name, "breaks") for name in ("nobody", "tls", "proxied")],
        ]
        runs = [await started(client, queue, *each) for each in asked]
        tools = {"tools": LEAKY, "knowledge": knowledge}
        talking = await started(client, queue, "file", "repeats", **tools)
        runs.append(talking)
        for run in runs:
            await eventually(partial(ended_or_trying, run))
        assert (await talking.result())["calls"] == len(LEAKY)
        leaks = [
            leak
            for run in runs
            for where, said in (await readable(run)).items()
            for leak in leaked(where, said)
        ]
        context = json.dumps(await talking.query("context", {}))
        for words in (["show", talking.id], ["show", talking.id, "--json"], ["list", "--json"]):
            shown = await holdfast(*words)
            leaks += leaked(f"`holdfast {words[0]}`", (shown.out + shown.err).encode())
        for run in runs:
            if (await run.describe()).status == WorkflowExecutionStatus.RUNNING:
                await run.terminate()
    out, err = capfd.readouterr()
    leaks += leaked("the worker's log", (out + err).encode())
    assert leaks == []
    assert "a secret of this worker; it was removed" in err
    assert context.count("[secret]") > len(LEAKY)


# A token is for once, and for minutes; even so, there is to be no further copy of it.

PAYS = Answer(calls=[call("pay_out", amount=5)])


async def events_of(run: Run) -> list[tuple[str, bytes]]:
    """The events of all histories of a run, each with its type."""
    found, run_id = [], run.handle.first_execution_run_id
    while run_id:
        handle = run.handle._client.get_workflow_handle(run.id, run_id=run_id)
        run_id = ""
        async for event in handle.fetch_history_events():
            kind = str(event.WhichOneof("attributes")).removesuffix("_event_attributes")
            found.append((kind, event.SerializeToString()))
            run_id = event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


async def test_a_token_is_in_history_where_it_was_sent_and_nowhere_else(
    launch: Launch, tmp_path: Path
) -> None:
    ann = Approver()
    keys = str(write_keys(tmp_path / "keys.json", ann))
    backend = await launch([PAYS, PAYS, Answer("paid")], keys=keys, continue_after=20)
    acts_for = ann.principal("bob", scopes=["pay"])
    run = await backend.start([SIGNED_PAY], principal={"token": acts_for})
    [first] = await run.waiting()
    forged, good = Approver(ann.id).on(run.id, first), ann.on(run.id, first)
    await run.signal("t1c1", "approve", token=forged)
    await run.decide("t1c1", "approve", token=good)
    [second] = await eventually(lambda: waiting_for(run, "t2c1"))
    last = ann.on(run.id, second)
    await run.signal("t2c1", "approve", token=last)
    await run.result()

    events = await events_of(run)
    assert sum(kind == "workflow_execution_started" for kind, _ in events) > 1
    where = {
        token: [kind for kind, said in events if token.rpartition(".")[2].encode() in said]
        for token in (acts_for, forged, good, last)
    }
    assert list(where.values()) == [
        ["workflow_execution_started"],
        ["workflow_execution_signaled"],
        ["workflow_execution_update_accepted"],
        ["workflow_execution_signaled"],
    ]
    found = (await readable(run.handle)).items()
    told = b"".join(said for place, said in found if not place.startswith("event"))
    assert not any(token.rpartition(".")[2].encode() in told for token in where)


async def waiting_for(run: Run, call_id: str) -> list[dict[str, Any]]:
    """The call, once it waits."""
    return [each for each in await run.waiting() if each["callId"] == call_id]


# In the beginning of what is shown of it.
RAISES = """
import os; raise RuntimeError(f"{os.environ['FIRST_KEY']} at postgres://x:typed-pass-13@db")
"""
KEY = PLANTED["FIRST_KEY"]
WRONG: list[tuple[dict[str, str], list[str]]] = [
    ({"HTTPS_PROXY": f"socks5://bob:{KEY}@127.0.0.1:9"}, []),
    ({"HTTPS_PROXY": f"bob://bob:{KEY}@127.0.0.1:9"}, []),
    ({"HOLDFAST_STORE": f"https://ann:{KEY}@minio.invalid/x"}, []),
    ({"HOLDFAST_STORE": f"s3://{KEY}"}, []),
    ({"HOLDFAST_KNOWLEDGE_URLS": f"https://ann:{KEY}@docs.invalid/"}, []),
    ({"TEMPORAL_API_KEY": f"{KEY}\n", "TEMPORAL_ADDRESS": "127.0.0.1:9"}, []),
    ({"TEMPORAL_ADDRESS": f"https://ann:{KEY}@temporal.invalid"}, []),
    ({"TEMPORAL_CONFIG_FILE": "temporal.toml"}, []),
    ({}, ["--tools", "raises.py"]),
    ({}, ["--endpoints", "keys.yaml"]),
    ({}, ["--endpoints", "unread.yaml"]),
    ({}, [f"--endpoints={KEY}"]),
]


@pytest.fixture
def wrong(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that do not load, and hold what must not be shown."""
    (place / "raises.py").write_text(RAISES)
    (place / "temporal.toml").write_text(f'[profile.default]\napi_key = "{KEY}" "{KEY}"\n')
    key = f"{{provider: openai, baseUrl: 'http://{KEY}@x', apiKeyEnv: '{KEY}', {KEY}: 1}}"
    (place / "keys.yaml").write_text(f"a: {key}\nb: {{apiKey: {KEY}}}\n")
    (place / "unread.yaml").write_text(f"a: {{apiKey: '{KEY}', apiKey: '{KEY}'}}\nb: {KEY}: [\n")
    monkeypatch.chdir(place)
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(("environment", "options"), WRONG)
def test_a_worker_that_does_not_start_prints_no_secret_either(
    environment: dict[str, str],
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert worker.main(options) in (WRONG_SETUP, UNREACHABLE)
    text = "".join(capsys.readouterr())
    assert leaked("what it said", text.encode()) == []
    assert "typed-pass-13" not in text


@pytest.mark.usefixtures("wrong")
def test_nor_does_a_check(place: Path) -> None:
    command = [sys.executable, str(ROOT / "worker.py"), "--check", "--json", "--tools", "raises.py"]
    done = subprocess.run(command, cwd=place, capture_output=True, check=False)
    assert done.returncode == WRONG_SETUP
    assert json.loads(done.stdout)[0]["file"].endswith("raises.py")
    assert leaked("what it said", done.stdout + done.stderr) == []
    assert b"typed-pass-13" not in done.stdout
