"""Public MCP servers: listed, locked, and one tool of fifteen called in a run, after an approval.

`make test-mcp-servers` installs them. Those that need a network, a browser or another service fail
with a line that names the reason, unless they have it here.
"""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.catalog.mcp_tools import MCP_LOCK, load_lock
from tests.docs.stage import prints
from tests.examples.readme import Readme
from tests.support.backend import Run, backend
from tests.support.command import holdfast
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.support.process import ROOT, WorkerProcess

pytestmark = pytest.mark.mcp_servers

PLACE = Path(__file__).with_name("mcp_servers")
CURRENT, LEGACY = PLACE / ".venv/current/bin", PLACE / ".venv/legacy/bin"
NODE = PLACE / "node_modules/.bin"
# Nothing listens there, and no program is there.
NOWHERE, NOTHING = "http://127.0.0.1:1", "/nothing"
KUBERNETES = {
    "clusters": [{"name": "none", "cluster": {"server": NOWHERE}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "current-context": "none",
}
# Accounts must be there to list the tools, and nothing is sent to them. One server lists sets: in
# another order each time, unless the order of hashes is fixed.
VARIABLES = {
    "atlassian": {"PYTHONHASHSEED": "0"},
    "azure": {"AZURE_MCP_COLLECT_TELEMETRY": "false"},
    "firecrawl": {"FIRECRAWL_API_KEY": "none"},
    "gitlab": {"GITLAB_PERSONAL_ACCESS_TOKEN": "none"},
    "hubspot": {"PRIVATE_APP_ACCESS_TOKEN": "none"},
    "maps": {"GOOGLE_MAPS_API_KEY": "none"},
    "memory": {"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
    "slack": {"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "none"},
}
DEVTOOLS = [
    *("--categoryExtensions", "--categoryExperimentalThirdParty", "--categoryExperimentalWebmcp"),
    *("--categoryPwa", "--experimentalDevtools", "--experimentalMemory"),
    *("--experimentalScreencast", "--experimentalVision"),
]
ENTITY = {"name": "Ada", "entityType": "person", "observations": ["pays by card"]}
THOUGHT = {"thought": "Wait.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}


def programs(folder: str) -> dict[str, list[str]]:
    """The servers, each with its program and arguments."""
    chrome, playwright = f"--executablePath={NOTHING}", f"--executable-path={NOTHING}"
    return {
        "git": [f"{CURRENT}/mcp-server-git"],
        "time": [f"{CURRENT}/mcp-server-time"],
        "fetch": [f"{CURRENT}/mcp-server-fetch"],
        "excel": [f"{CURRENT}/excel-mcp-server", "stdio"],
        "redis": [f"{LEGACY}/redis-mcp-server", "--port", "1"],
        "sqlite": [f"{LEGACY}/mcp-server-sqlite", "--db-path", f"{folder}/new.db"],
        "context7": [f"{NODE}/context7-mcp"],
        "everything": [f"{NODE}/mcp-server-everything"],
        "filesystem": [f"{NODE}/mcp-server-filesystem", folder],
        "memory": [f"{NODE}/mcp-server-memory"],
        "thinking": [f"{NODE}/mcp-server-sequential-thinking"],
        "kubernetes": [
            *(f"{NODE}/kubernetes-mcp-server", "--kubeconfig", f"{folder}/kubernetes"),
            *("--toolsets", "config,core,helm,kcp,kiali,kubevirt,netobserv,tekton"),
        ],
        "playwright": [f"{NODE}/playwright-mcp", playwright, "--caps", "vision,pdf,devtools"],
        "devtools": [f"{NODE}/chrome-devtools-mcp", chrome, "--no-usage-statistics", *DEVTOOLS],
        "notion": [f"{NODE}/notion-mcp-server"],
    }


def listed_alone() -> dict[str, list[str]]:
    """More servers, whose tools need accounts."""
    flags = [f"--{of}-{what}" for of in ("jira", "confluence") for what in ("username", "token")]
    urls = [f"--jira-url={NOWHERE}", f"--confluence-url={NOWHERE}/wiki"]
    return {
        "atlassian": [f"{LEGACY}/mcp-atlassian", *urls, *(f"{each}=none" for each in flags)],
        "azure": [f"{NODE}/azmcp", "server", "start", "--mode", "all"],
        "firecrawl": [f"{NODE}/firecrawl-mcp"],
        "github": [f"{NODE}/mcp-server-github"],
        "gitlab": [f"{NODE}/mcp-server-gitlab"],
        "hubspot": [f"{NODE}/mcp-hubspot"],
        "maps": [f"{NODE}/mcp-server-google-maps"],
        "slack": [f"{NODE}/mcp-server-slack"],
    }


def calls(folder: str) -> dict[str, tuple[str, dict[str, Any], str]]:
    """One tool of each server, its arguments, and a pattern of what comes of it."""
    create = {"query": "CREATE TABLE orders (id TEXT)"}
    library = {"query": "durable agents", "libraryName": "temporal"}
    return {
        "git": ("git_status", {"repo_path": folder}, "On branch"),
        "time": ("get_current_time", {"timezone": "UTC"}, "is_dst"),
        "fetch": ("fetch", {"url": NOWHERE}, "tool_error.*not a public address"),
        "excel": ("create_workbook", {"path": f"{folder}/new.xlsx"}, "new.xlsx"),
        "redis": ("get", {"key": "a"}, "Connection refused"),
        "sqlite": ("create_table", create, "Table created successfully"),
        "context7": ("resolve-library-id", library, "fetch failed|Library ID"),
        "everything": ("echo", {"message": "hi"}, "Echo: hi"),
        "filesystem": (
            *("write_file", {"path": f"{folder}/new.txt", "content": "hi"}),
            "Successfully wrote",
        ),
        "memory": ("create_entities", {"entities": [ENTITY]}, "pays by card"),
        "thinking": ("sequentialthinking", THOUGHT, "thoughtHistoryLength"),
        "kubernetes": ("namespaces_list", {}, "tool_error.*connection refused"),
        "playwright": ("browser_navigate", {"url": NOWHERE}, f"tool_error.*{NOTHING}"),
        "devtools": ("list_pages", {}, f"tool_error.*{NOTHING}"),
        "notion": ("API-get-self", {}, "api.notion.com|unauthorized|API token"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A catalog with an agent for each server, `servers.yaml`, and what the servers need."""
    made = tmp_path_factory.mktemp("public")
    subprocess.run(["git", "init", "--quiet", made], check=True)
    (made / "kubernetes").write_text(yaml.safe_dump(KUBERNETES))
    (made / "script.yaml").write_text("- text: Done.\n")
    (made / "endpoints.yaml").write_text("m: {provider: script, file: script.yaml}\n")
    (made / "agents").mkdir()
    servers = {}
    for name, (program, *args) in {**programs(str(made)), **listed_alone()}.items():
        variables = [*VARIABLES.get(name, {})]
        servers[name] = {"command": program, "args": args, "envFrom": variables}
        agent = {"model": {"endpoint": "m"}, "tools": [f"mcp:{name}/*"]}
        (made / f"agents/{name}.yaml").write_text(yaml.safe_dump(agent))
    (made / "servers.yaml").write_text(yaml.safe_dump(servers))
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in (each for one in VARIABLES.values() for each in one.items()):
            patch.setenv(variable, value.format(folder=made))
        yield made


async def test_each_tool_is_locked_and_loads(folder: Path) -> None:
    options = ("--catalog", str(folder), "--servers", str(folder / "servers.yaml"))
    locked = await holdfast("mcp", "lock", *options)
    assert (locked.code, locked.err) == (0, "")
    lock = load_lock(folder) or {}
    assert {each.partition("/")[0] for each in lock} == {*programs(""), *listed_alone()}
    assert len(lock) >= 750
    # They list the same each time, in a process of its own.
    assert len((await holdfast("mcp", "lock", *options)).out.splitlines()) == 1
    checked = await holdfast("check", *options, "--endpoints", str(folder / "endpoints.yaml"))
    assert (checked.code, checked.err) == (0, "")
    assert checked.out == "0 tools, 23 agents, endpoints m: OK\n"


async def test_a_tool_of_each_is_called_after_an_approval(client: Client, folder: Path) -> None:
    made = calls(str(folder))
    answer = Answer(
        calls=[call(f"{name}_{tool}", **args) for name, (tool, args, _) in made.items()]
    )
    settings: dict[str, Any] = {"catalog": folder, "servers": folder / "servers.yaml"}
    (folder / "agents").rename(folder / "unused")  # their endpoint is not the test's
    async with backend(
        client, folder, [answer, Answer("done")], **settings, cached_runs=10
    ) as home:
        run = await home.start([f"mcp:{name}/{tool}" for name, (tool, *_) in made.items()])
        for pending in await run.waiting(len(made)):
            await run.decide(pending["callId"], "approve")
        assert (await run.result())["status"] == "completed"
        results = await run.results()
    for (name, (*_, expected)), result in zip(made.items(), results.values(), strict=True):
        assert re.search(expected, str(result), re.DOTALL), f"{name}: {result}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit."""
    subprocess.run(["git", "init", "--quiet", tmp_path / "own"], check=True)
    commit = "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m First"
    subprocess.run(commit.split(), cwd=tmp_path / "own", check=True)
    return tmp_path / "own"


async def test_the_example_matches_its_readme(
    client: Client, tmp_path: Path, repository: Path
) -> None:
    # The reader's server works on the folder of the project: this one, on another.
    place = ROOT / "examples/mcp_server"
    servers = yaml.safe_load((place / "servers.yaml").read_text())
    program = f"cd {repository} && exec {CURRENT}/mcp-server-git --repository ."
    servers["repo"] |= {"command": "sh", "args": ["-c", program]}
    (tmp_path / "servers.yaml").write_text(yaml.safe_dump(servers))
    readme = Readme("mcp_server")
    lock, run = ([_moved(word, tmp_path) for word in words[1:]] for words in readme.commands)
    address = client.service_client.config.target_host
    worker = [_moved(word, tmp_path) for word in readme.worker[2:] if word != "--dev"]
    before = (place / MCP_LOCK).read_text()
    with pytest.MonkeyPatch.context() as patch, WorkerProcess(address, *worker):
        patch.setenv("TEMPORAL_ADDRESS", address)
        patch.chdir(ROOT)
        locked = await holdfast(*lock)
        assert (locked.out, locked.err) == (readme.prints[0], "")
        assert (place / MCP_LOCK).read_text() == before
        following = asyncio.create_task(holdfast(*run))
        release = Run(client.get_workflow_handle("release"))
        await eventually(lambda: _is_asked(release))
        await release.decide("t2c1", "approve")
        told = (await following).out
    assert prints(readme.prints[1], told), told
    assert (repository / ".git/refs/heads/release-2.1").exists()


def _moved(word: str, folder: Path) -> str:
    return word.replace("examples/mcp_server/servers.yaml", str(folder / "servers.yaml"))


async def _is_asked(run: Run) -> bool:
    try:
        return bool(await run.handle.query("approvals"))
    except RPCError:
        return False  # it has not started
