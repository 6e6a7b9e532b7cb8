"""The README, held to its word: its files load and run, its commands exist."""

import json
import re
import shlex
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.client import Client

from holdfast.cli.main import command_line
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.schemas.errors import ErrorCode
from holdfast.schemas.settings.endpoints import Endpoints
from holdfast.workflows.engine.call.outcome import fail
from tests.engine.driver import Play, says, tool
from tests.support.house import ROOT, Run
from tests.support.model_server import Answer, call, serve

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
FILES = {
    match.group(1): text
    for _, text in BLOCKS
    if (match := re.search(r"\A(?:---\n)?# (\S+\.(?:py|yaml|md))\n", text))
}
COMMANDS = [line for language, text in BLOCKS if not language for line in text.splitlines()]


def placed(folder: Path) -> Path:
    """The README's files, where it says that they are."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


async def test_its_tool_and_its_agent_run(client: Client, tmp_path: Path) -> None:
    folder = placed(tmp_path)
    answers = [Answer(calls=[call("refund", order_id="7", amount=20)]), Answer("Refunded.")]
    with serve(answers) as model:
        endpoints = folder / "fake.yaml"
        endpoints.write_text(f"openai: {{provider: openai, baseUrl: '{model.url}'}}\n")
        settings = WorkerSettings(
            catalog=folder / "desk",
            tools=[str(folder / "my_tools.py")],
            endpoints=endpoints,
            task_queue=f"readme-{uuid.uuid4().hex[:8]}",
        )
        async with await build_worker(client, settings):
            request = {"agent": "desk", "input": "Order 7 arrived broken. It cost 20 euros."}
            handle = await client.start_workflow(
                "AgentWorkflow", request, id=settings.task_queue, task_queue=settings.task_queue
            )
            run = Run(handle)
            [waiting] = await run.waiting()
            assert waiting["label"] == "Refund an order"
            await run.decide("t1c1", "approve", by="ada")
            assert (await run.result())["output"] == "Refunded."
            assert json.loads((await run.results())["t1c1"]) == {"refund": "20 for order 7"}


def test_its_endpoints_load() -> None:
    loaded = Endpoints.model_validate(yaml.safe_load(FILES["endpoints.yaml"]))
    assert list(loaded.root) == ["claude", "local"]


LOST = "unresolved_reference"


@pytest.mark.parametrize(
    ("stock", "ends"),
    [
        ({"shelf": "B2"}, [None, None, None, LOST]),
        (fail(ErrorCode.TOOL_ERROR, "None is left."), [None, "tool_error", LOST, None]),
    ],
)
def test_its_graph_takes_one_way_or_the_other(stock: Any, ends: list[str | None]) -> None:
    [graph] = [text for language, text in BLOCKS if language == "json"]
    kept = [tool(name, chosen={"_outputPath": True}) for name in ("find_order", "check_stock")]
    play = Play(
        *(*kept, tool("book_parcel"), tool("refund")),
        model=[says(graph), says('{"calls": [], "output": "Done."}')],
        outcomes={"find_order": {"item": "kettle", "paid": 20}, "check_stock": stock},
        definition={"calling": "composed"},
    ).to_end()
    assert list(play.errors().values()) == ends
    assert (play.result["turns"], play.result["output"]) == (2, "Done.")


CHECK = ".venv/bin/holdfast check"


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith(CHECK)])
def test_its_check_finds_nothing_to_mend(
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(placed(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-readme")
    assert command_line(shlex.split(line)[1:]) == 0, capfd.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in COMMANDS
        if line.startswith(".venv/bin/holdfast") and not line.startswith(CHECK)
    ],
)
def test_its_commands_are_understood(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert command_line(shlex.split(line)[1:]) == 3, capsys.readouterr().err


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("temporal ")])
def test_its_json_is_json(line: str) -> None:
    words = shlex.split(line)
    for word in words[words.index("--input") + 1 :] if "--input" in words else []:
        assert isinstance(json.loads(word), dict)


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"(?:`|^)make ([a-z][a-z-]+)", README, re.M)))
)
def test_its_make_targets_exist(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_its_pictures_are_there() -> None:
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / path).exists()
