"""The worker, in the process and as a command: what it takes on, prints, and leaves behind."""

import asyncio
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from holdfast.catalog.loader import Catalog, load_catalog
from holdfast.hosting import temporal
from holdfast.hosting.dev_server import DevServer, run_dev_server
from holdfast.hosting.options import read_options
from holdfast.hosting.plugin import HoldfastPlugin, worker_parts
from holdfast.hosting.process_exit import UNREACHABLE, WRONG_SETUP, StartError, exit_code
from holdfast.hosting.resources import load_resources
from holdfast.hosting.temporal import connect, usable_search_attributes
from holdfast.hosting.worker import GC_THRESHOLDS, WorkerSettings, build_worker
from holdfast.runtime.connection_errors import TemporalConnectionError
from holdfast.runtime.data_converter import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.locations import BucketLocation
from holdfast.schemas import names
from holdfast.validation.problems import FixableError
from tests.support.eventually import eventually
from tests.support.namespaces import new_namespace
from tests.support.process import NO_SERVER, command

pytestmark = pytest.mark.usefixtures("quick_starts")
ROOT = Path(__file__).parents[2]
TOOLS = """
import asyncio
import gc
from pathlib import Path
from pydantic import BaseModel
from temporalio import activity

class Slow(BaseModel):
    folder: Path

@activity.defn
async def slow(slow: Slow) -> str:
    "Begin, wait until there is a file `go`, and end."
    (slow.folder / "started").write_text(str(gc.get_threshold()))
    while not (slow.folder / "go").exists():
        await asyncio.sleep(0.02)
    with (slow.folder / "ended").open("a") as ended:
        ended.write("once\\n")
    return "slowly"

class Stubborn(BaseModel):
    folder: Path

@activity.defn
async def stubborn(stubborn: Stubborn) -> None:
    "Heed no cancellation."
    (stubborn.folder / "started").touch()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            (stubborn.folder / "cancelled").touch()

@activity.defn
async def tell(what: dict) -> None: ...
"""
AGENT = "---\nmodel: {endpoint: scripted}\ntools: [slow, stubborn]\n---\nBe slow.\n"
ENDPOINTS = "scripted: {provider: script, file: script.yaml}\n"
NOTIFIERS = """\
inbox: https://inbox.example
channels: {desk: {mail: {host: mail.example, from: a@b.org, to: [c@b.org]}}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A worker's files: a module of tools, a catalog with one agent, and a scripted model."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/sloth.md").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "endpoints.yaml").write_text(ENDPOINTS)
    answers = f"- calls: [{{tool: slow, arguments: {{folder: '{tmp_path}'}}}}]\n- text: Done.\n"
    (tmp_path / "script.yaml").write_text(answers)
    return tmp_path


def settings(place: Path, **more: Any) -> WorkerSettings:
    return WorkerSettings(
        **{
            "catalog": place,
            "tools": [str(place / "tools.py")],
            "endpoints": place / "endpoints.yaml",
            "task_queue": f"queue-{uuid.uuid4().hex[:8]}",
            **more,
        }
    )


def flags(place: Path, queue: str = "q") -> list[str]:
    return [
        *("--catalog", str(place), "--tools", str(place / "tools.py")),
        *("--endpoints", str(place / "endpoints.yaml"), "--task-queue", queue),
    ]


async def start(client: Client, queue: str) -> Any:
    request = {"agent": "sloth", "input": "go"}
    identity = f"run-{uuid.uuid4().hex[:8]}"
    return await client.start_workflow("AgentWorkflow", request, id=identity, task_queue=queue)


def dev(place: Path) -> list[str]:
    """An embedded server on free ports."""
    return ["--dev", "--dev-port", "0", "--dev-ui-port", "0", "--dev-db", str(place / "dev/t.db")]


async def gone(address: str) -> bool:
    """Whether no server answers there any more."""
    try:
        await Client.connect(address)
    except RuntimeError:
        return True
    return False


def exists(path: Path) -> Callable[[], Awaitable[bool]]:
    async def there() -> bool:
        return path.exists()

    return there


async def facts_of(worker: Worker) -> Any:
    """What a run that starts on the worker learns of it."""
    return (await worker_parts(worker).facts()).model_dump(mode="json", by_alias=True)


def address_of(client: Client) -> str:
    return client.service_client.config.target_host


# In the process.


async def test_a_worker_comes_back_in_time_after_a_crash_and_throttles_no_third_of_a_timeout(
    client: Client, place: Path
) -> None:
    config = build_worker(client, settings(place)).config(active_config=True)
    assert config["sticky_queue_schedule_to_start_timeout"] == timedelta(seconds=5)
    assert config["max_heartbeat_throttle_interval"] == timedelta(seconds=4)
    assert not config["disable_eager_activity_execution"]


async def test_the_worker_of_a_program_keeps_temporal_s_own_throttle_of_heartbeats(
    client: Client, place: Path
) -> None:
    config = client.config()
    config["plugins"] = [HoldfastPlugin.of(settings(place), None)]
    theirs = Worker(Client(**config), task_queue="theirs")
    workers = [theirs, *worker_parts(theirs).request_workers(theirs)]
    configs = [each.config(active_config=True) for each in workers]
    throttles = [each["max_heartbeat_throttle_interval"] for each in configs]
    assert throttles == [timedelta(seconds=60), timedelta(seconds=4)]


async def test_runs_know_whether_their_worker_has_a_store(client: Client, place: Path) -> None:
    config = client.config()
    config["data_converter"] = with_store(client.data_converter, FolderStore(place / "store"))
    facts = await facts_of(build_worker(Client(**config), settings(place)))
    assert facts["store"]


async def test_settings_reach_the_runs_of_a_worker(client: Client, place: Path) -> None:
    wanted = settings(
        place,
        notify="tell",
        heartbeat_timeout=timedelta(seconds=3),
        generate_timeout=timedelta(minutes=2),
        keys="https://id.example/jwks.json",
        principal_tokens=True,
        catalog_only=True,
    )
    facts = await facts_of(build_worker(client, wanted))
    assert facts == {
        "searchAttributes": list(names.SEARCH_ATTRIBUTES),
        "notify": "tell",
        "heartbeatTimeout": "3s",
        "generateTimeout": "2m",
        "continueAfter": None,
        "store": False,
        "requestQueues": {},
        "principalTokens": True,
        "catalogOnly": True,
        "notifiers": [],
        "tracing": None,
        "delegates": {},
    }


async def test_a_limited_endpoint_s_requests_have_a_queue_that_runs_receive(
    client: Client, place: Path
) -> None:
    limited = "dear.er: {provider: script, file: script.yaml, maxRequestsPerMinute: 90}\n"
    (place / "endpoints.yaml").write_text(ENDPOINTS + limited)
    wanted = settings(place, task_queue="q")
    worker = build_worker(client, wanted)
    dear, free = (each.config() for each in worker_parts(worker).request_workers(worker))
    assert [dear["task_queue"], free["task_queue"]] == [
        "q.requests.dear%2Eer",
        "q.requests.scripted",
    ]
    assert dear["max_task_queue_activities_per_second"] == 1.5
    assert free["max_task_queue_activities_per_second"] is None
    assert [each.__name__ for each in dear["activities"]] == [names.GENERATE]
    assert (await facts_of(worker))["requestQueues"] == {"dear.er": "q.requests.dear%2Eer"}


async def test_a_request_worker_has_the_interceptors_of_its_worker(
    client: Client, place: Path
) -> None:
    worker = build_worker(client, settings(place))
    [other] = worker_parts(worker).request_workers(worker)
    own = worker.config(active_config=True)["interceptors"]
    assert own
    assert other.config()["interceptors"] == own


async def test_what_lets_a_worker_in_elsewhere_is_its_secret(
    client: Client, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, key = "https://hooks.example/T01/B01/vO7pFq2Zk9", "tmprl-vO7pFq2Zk9"
    monkeypatch.setenv("DESK_ADDRESS", hook)
    (place / "notify.yaml").write_text(
        "inbox: https://inbox.example\nchannels: {desk: {slack: {urlEnv: DESK_ADDRESS}}}\n"
    )
    wanted = settings(place, notifiers=place / "notify.yaml")
    backend = load_resources(wanted)
    inside = await Client.connect(address_of(client), api_key=key, tls=False)
    build_worker(inside, wanted, backend)
    told = backend.secrets.clean(f"{hook} and {key}")
    assert "vO7pFq2Zk9" not in told


def test_everything_that_does_not_load_is_reported_at_once(place: Path) -> None:
    (place / "endpoints.yaml").write_text("scripted: {provider: scrpt}\n")
    (place / "agents/sloth.md").write_text(AGENT.replace("[slow,", "[slwo,"))
    with pytest.raises(StartError) as refused:
        load_resources(settings(place))
    endpoints, agent = refused.value.lines
    assert endpoints.startswith(f"{place}/endpoints.yaml:1: ")
    assert agent.startswith(f"{place}/agents/sloth.md:3: `tools[0]`: there is no tool `slwo`; did")


def test_without_the_extra_of_mcp_the_package_is_the_one_problem(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    servers = place / "servers.yaml"
    servers.write_text("shop: {url: 'https://mcp.example.com/mcp'}\n")
    (place / "agents/sloth.md").write_text(AGENT.replace("[slow,", "[slow, 'mcp:shop/*',"))
    with pytest.raises(StartError) as refused:
        load_resources(settings(place, servers=servers))
    [line] = refused.value.lines
    assert line.endswith("which is not installed; pip install 'holdfast-agents[mcp]'")


def test_what_changes_while_the_catalog_is_loaded_is_not_missed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loading(*given: Any, **more: Any) -> Catalog:
        found = load_catalog(*given, **more)
        (place / "agents/late.md").write_text(AGENT)
        return found

    monkeypatch.setattr("holdfast.hosting.resources.load_catalog", loading)
    backend = load_resources(settings(place))
    for _ in range(2):
        backend.reloader.check_once()
    assert set(backend.current_catalog.catalog.agents) == {"sloth", "late"}


def test_changed_settings_that_are_read_once_need_a_restart(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (place / "notify.yaml").write_text(NOTIFIERS)
    backend = load_resources(settings(place, notifiers=place / "notify.yaml"))
    once = ("tools.py", "endpoints.yaml", "notify.yaml")
    for name in once:
        (place / name).write_text((place / name).read_text() + "# more\n")
    for _ in range(3):
        backend.reloader.check_once()
    assert caplog.messages == [
        f"{place}/{name} has changed: restart the worker to use it" for name in once
    ]


def test_a_module_that_goes_to_another_folder_takes_the_catalog_nowhere(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (place / "tools.py").write_text(f"{TOOLS}\nimport os; os.chdir('/')\n")
    backend = load_resources(settings(place, catalog=Path()))
    (place / "agents/late.md").write_text(AGENT)
    for _ in range(2):
        backend.reloader.check_once()
    assert set(backend.current_catalog.catalog.agents) == {"sloth", "late"}


# The namespace.


async def test_missing_search_attributes_are_registered(client: Client) -> None:
    inside = await new_namespace(client)
    assert await usable_search_attributes(inside) == [*names.SEARCH_ATTRIBUTES, names.FORKED_FROM]
    await inside.count_workflows(f'{names.AGENT_STATUS} = "x" AND {names.PENDING_TOOLS} = "y"')


async def test_a_search_attribute_of_another_type_is_left_alone(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    inside = await new_namespace(client)
    await inside.operator_service.add_search_attributes(
        AddSearchAttributesRequest(
            namespace=inside.namespace,
            search_attributes={names.AGENT_STATUS: IndexedValueType.INDEXED_VALUE_TYPE_INT},
        )
    )
    usable = await eventually(lambda: usable_search_attributes(inside))
    assert names.AGENT_STATUS not in usable
    assert names.AGENT_NAME in usable
    assert "AgentStatus has another type here" in caplog.text


async def test_where_they_may_not_be_registered_there_is_one_warning(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = await Client.connect(address_of(client), namespace="no-such-namespace")
    assert await usable_search_attributes(nowhere) == []
    [record] = caplog.records
    assert "search attributes could not be registered" in record.getMessage()


async def test_where_the_server_went_away_no_worker_starts_without_them(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(_: Client) -> dict[str, int]:
        raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(temporal, "_listed", gone)
    with pytest.raises(TemporalConnectionError, match="Temporal does not answer: connection ref"):
        async with build_worker(client, WorkerSettings()):
            await asyncio.Event().wait()


# The command line.


def test_options_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TASK_QUEUE", "from-the-environment")
    monkeypatch.setenv("HOLDFAST_HEARTBEAT_TIMEOUT", "7s")
    monkeypatch.setenv("HOLDFAST_CACHED_RUNS", "50")
    monkeypatch.setenv("HOLDFAST_KNOWLEDGE_URLS", "https://a.org/docs\n https://b.org")
    monkeypatch.setenv("HOLDFAST_KNOWLEDGE_NETWORKS", "10.0.0.0/8 fd00::/8")
    monkeypatch.setenv("HOLDFAST_VIEWERS", "wss://a.org wss://b.org")
    monkeypatch.setenv("HOLDFAST_VIEWERS_KEY", "is no option")
    monkeypatch.setenv("HOLDFAST_STORE", "s3://runs/kept")
    monkeypatch.setenv("HOLDFAST_ENCRYPTION", "keys/encryption.yaml")
    monkeypatch.setenv("HOLDFAST_TOOLS", "a b.py")
    monkeypatch.setenv("HOLDFAST_CATALOG_ONLY", "true")
    monkeypatch.setenv("HOLDFAST_PRINCIPAL_TOKENS", "FALSE")
    given, dev, check = read_options(["--heartbeat-timeout", "2s"])
    assert (dev, check) == (None, None)
    assert given == WorkerSettings(
        task_queue="from-the-environment",
        heartbeat_timeout=timedelta(seconds=2),
        tool_heartbeat_timeout=timedelta(seconds=2),
        cached_runs=50,
        tools=["a", "b.py"],
        catalog_only=True,
        knowledge_urls=["https://a.org/docs", "https://b.org"],
        viewers=["wss://a.org", "wss://b.org"],
        knowledge_networks=["10.0.0.0/8", "fd00::/8"],
        store=BucketLocation("runs", "kept"),
        encryption=Path("keys/encryption.yaml"),
    )


def test_options_win_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOOLS", "a b.py")
    monkeypatch.setenv("HOLDFAST_CATALOG_ONLY", "false")
    given = read_options(["--tools", "c", "--catalog-only"]).settings
    assert (given.tools, given.catalog_only) == (["c"], True)
    monkeypatch.setenv("HOLDFAST_CATALOG_ONLY", "yes")
    with pytest.raises(FixableError, match=r"HOLDFAST_CATALOG_ONLY.*; set it to `true` or `false`"):
        read_options([])


def test_the_embedded_server_comes_with_a_store_and_viewers(
    tmp_path: Path,
) -> None:
    dev = ["--dev", "--dev-db", str(tmp_path / "t.db")]
    assert read_options(dev).settings.store == tmp_path / "t.store"
    assert read_options(dev).settings.viewers == [str(tmp_path / "viewers")]
    assert read_options([*dev, "--store", "s3://runs"]).settings.store == BucketLocation("runs")
    assert read_options([*dev, "--store", "none"]).settings.store is None
    assert read_options([]).settings.store is None


@pytest.mark.parametrize(
    ("arguments", "request_seconds", "tool_seconds", "sticky_seconds"),
    [
        ([], 12, 3, 5),
        (["--heartbeat-timeout", "30s", "--sticky-timeout", "20s"], 30, 30, 20),
        (["--dev"], 3, 3, 1),
        (["--dev", "--sticky-timeout", "5s"], 3, 3, 5),
    ],
)
def test_a_tool_and_a_developer_s_worker_have_short_timeouts_unless_they_are_set(
    arguments: list[str], request_seconds: int, tool_seconds: int, sticky_seconds: int
) -> None:
    settings = read_options(arguments).settings
    assert settings.sticky_timeout == timedelta(seconds=sticky_seconds)
    assert settings.heartbeat_timeout == timedelta(seconds=request_seconds)
    assert settings.tool_heartbeat == timedelta(seconds=tool_seconds)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [("--cached-runs", 0, 100_000), ("--continue-after", 20, 20_000), ("--processes", 1, 64)],
)
def test_both_ends_of_a_span_are_taken(option: str, least: int, most: int) -> None:
    for number in (least, most):
        taken = read_options([option, str(number)]).settings
        assert number in (taken.cached_runs, taken.continue_after, taken.processes)
    for number in (least - 1, most + 1):
        with pytest.raises(FixableError, match=f"; write a number from {least} to {most}"):
            read_options([option, str(number)])


async def test_no_temporal_is_one_line_and_exit_code_3() -> None:
    async with command() as running:
        code, errors = await running.end()
    assert code == UNREACHABLE
    assert errors == [
        f"holdfast: no Temporal server answers at {NO_SERVER}; start one, set TEMPORAL_ADDRESS, "
        "or add `--dev` for a server of its own"
    ]


async def test_no_such_namespace_is_wrong_setup(client: Client) -> None:
    with pytest.raises(FixableError) as refused:
        await connect({"target_host": address_of(client), "namespace": "no-such-namespace"})
    assert exit_code(refused.value) == WRONG_SETUP
    assert str(refused.value) == (
        "there is no namespace `no-such-namespace`; set TEMPORAL_NAMESPACE, or: "
        "temporal operator namespace create no-such-namespace"
    )


# The embedded server.


async def test_the_embedded_server_keeps_its_file_and_another_uses_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = DevServer(place / "dev/t.db", port=0, ui_port=0)
    async with run_dev_server(server) as address:
        assert f"temporal dev server: {address}, UI http://127.0.0.1:" in capsys.readouterr().out
        assert server.db.parent.stat().st_mode & 0o777 == 0o700
        client = await Client.connect(address)
        run = await client.start_workflow("Kept", id="kept", task_queue="nobody-listens-here")
        used = DevServer(place / "other.db", port=int(address.rpartition(":")[2]))
        async with run_dev_server(used) as same:
            assert same == address
        said = capsys.readouterr().out
        assert said.startswith(f"temporal dev server: a server is already running at {address}")
        assert await client.service_client.check_health(), "it is left running"
    assert await gone(address)

    async with run_dev_server(server) as address:
        client = await Client.connect(address)
        description = await client.get_workflow_handle("kept").describe()
        assert description.run_id == run.result_run_id


async def test_a_worker_that_is_stopped_finishes_its_activity_once_and_the_next_continues(
    client: Client, place: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    queue, address = f"queue-{uuid.uuid4().hex[:8]}", address_of(client)
    async with (
        command(*flags(place, queue), "--health", port, address=address) as first,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as probes,
    ):
        ready = await first.until("holdfast worker ready")
        assert (await probes.get("/ready")).status_code == 200
        run = await start(client, queue)
        await eventually(exists(place / "started"))
        first.signal()

        async def stopping() -> bool:
            return (await probes.get("/ready")).text == "the worker is stopping\n"

        await eventually(stopping)
        assert (await probes.get("/live")).status_code == 200
        (place / "go").touch()
        assert await first.end() == (0, [])
    assert (place / "started").read_text() == str(GC_THRESHOLDS)
    assert first.lines == [ready], "one line, and nothing else on standard output"
    assert ready == (
        f"holdfast worker ready: task queue {queue}, 2 tools, 1 agent, endpoints scripted"
    )
    async with command(*flags(place, queue), address=address) as second:
        await second.until("holdfast worker ready")
        assert (await run.result())["output"] == "Done."
        second.signal()
        assert (await second.end())[0] == 0
    assert (place / "ended").read_text() == "once\n"


async def test_a_tool_that_ignores_the_stop_is_cut_off_by_a_second_signal(place: Path) -> None:
    script = place / "script.yaml"
    script.write_text(script.read_text().replace("tool: slow", "tool: stubborn"))
    async with command(*flags(place), "--graceful-timeout", "1ms", *dev(place)) as running:
        address = (await running.until("temporal dev server")).split()[3].removesuffix(",")
        await running.until("holdfast worker ready")
        await start(await Client.connect(address), "q")
        await eventually(exists(place / "started"))
        running.signal()
        await eventually(exists(place / "cancelled"))
        running.signal()
        code, errors = await running.end()
    assert code == 1
    assert errors[-1].startswith(
        "holdfast: a part of the process did not stop in time and was ended"
    )
    await eventually(lambda: gone(address))


async def test_an_occupied_port_is_reported_in_one_line(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = DevServer(place / "t.db", port=taken.getsockname()[1], ui_port=0)
        with pytest.raises(FixableError) as refused:
            async with run_dev_server(server):
                pass
    assert exit_code(refused.value) == WRONG_SETUP
    line = str(refused.value)
    assert line.startswith("the server did not start: ")
    assert line.endswith(f"; see {place}/t.log")
