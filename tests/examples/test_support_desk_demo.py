"""The demonstration, as a person gives it: a process whose answers come through a pipe."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from examples.support_desk import shop
from examples.support_desk.casting import HERE, MiscastError, cast
from examples.support_desk.children import Child, NotReadyError
from examples.support_desk.demo import main
from examples.support_desk.place import OccupiedError, opened
from holdfast.catalog.loader import load_catalog
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.schemas.agent import ResolvedAgent

pytestmark = pytest.mark.usefixtures("quick_starts", "default_ports")

ROOT = Path(__file__).parents[2]
DEMO = HERE / "demo.py"
DEMO_TIMEOUT_SECONDS = 200
LOCAL_TIMEOUT_SECONDS = 280

DONE = [
    ("orders.db, refunds", "R-1: 249.00 for order 1042, arrived with a cracked water tank"),
    ("orders.db, shipments", "S-2057 is cancelled"),
    ("orders.db, carrier_requests", "asked to stop S-2057, fee 4.50"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "demo"


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **more}


def give(
    folder: Path,
    answers: str,
    *options: str,
    timeout_seconds: int = DEMO_TIMEOUT_SECONDS,
    **env: str,
) -> "subprocess.CompletedProcess[str]":
    """The demonstration with these answers in its pipe."""
    return subprocess.run(
        [sys.executable, str(DEMO), "--folder", str(folder), *options],
        input=answers,
        capture_output=True,
        text=True,
        env=environment(**env),
        timeout=timeout_seconds,
        check=False,
    )


@contextmanager
def taken(*ports: int) -> Iterator[None]:
    """Have the ports taken by another process, if they are free."""
    with ExitStack() as sockets:
        for port in ports:
            taker = sockets.enter_context(socket.socket())
            try:
                taker.bind(("127.0.0.1", port))
            except OSError:
                continue
            taker.listen()
        yield


def test_three_approvals_through_a_pipe_do_the_whole_work_once(folder: Path) -> None:
    demo = give(folder, "y\ny\ny\n")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    *done, mailed = shop.deeds(folder)
    assert done == DONE
    assert mailed.what == "to ada@example.com: Your refund for order 1042"
    assert "/namespaces/default/workflows/ada-1042" in demo.stdout
    assert "/sign-in?key=" in demo.stdout
    assert "R-1: 249.00 for order 1042" in demo.stdout
    [mail] = (folder / "outbox").iterdir()
    written = message_from_bytes(mail.read_bytes(), policy=policy.default)
    assert "We have paid\n249.00 EUR back to you for order 1042" in written.get_content()


def test_with_a_denied_refund_and_a_worker_killed_inside_a_side_effect_each_is_done_at_most_once(
    folder: Path,
) -> None:
    returned = '{"shipment_id": "S-2057", "status": "cancelled", "fee": 4.5}'
    demo = give(folder, f"n\nshe has had her money\ny\nh\n{returned}\n", "--kill-worker")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "she has had her money" in demo.stdout
    assert "*** kill -9" in demo.stdout
    assert "*** another worker is there" in demo.stdout
    assert "did it happen? orders.db, carrier_requests says: asked to stop S-2057" in demo.stdout
    assert "t3c2 Cancel a shipment: it happened" in demo.stdout
    # The carrier was asked once, though its answer was lost; no mail reports a refund.
    assert shop.deeds(folder) == [DONE[2]]


def test_without_an_answer_nothing_happens_and_the_run_can_be_continued(
    folder: Path,
) -> None:
    with taken(7233, 8233):
        demo = give(folder, "")
    assert demo.returncode == 1, demo.stdout + demo.stderr
    assert "export TEMPORAL_ADDRESS=127.0.0.1:" in demo.stdout
    assert "holdfast decide ada-1042 t3c1" in demo.stdout
    assert f"--dev-db {folder / 'temporal.db'}" in demo.stdout
    assert shop.deeds(folder) == []


@pytest.mark.model
@pytest.mark.timeout(LOCAL_TIMEOUT_SECONDS + 10)
def test_a_real_model_on_this_machine_brings_the_run_to_an_end(folder: Path) -> None:
    """It is a small mind: what it does is its own affair, and that the run ends is ours."""
    answers = "y\n" * 1000
    demo = give(folder, answers, "--model", "local", timeout_seconds=LOCAL_TIMEOUT_SECONDS)
    ends = ("completed: ", "budget_exceeded: ")
    assert any(line.startswith(ends) for line in demo.stdout.splitlines()), (
        demo.stdout + demo.stderr
    )
    assert not demo.stderr


def test_a_stopped_demonstration_leaves_no_process_behind(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(DEMO), "--folder", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as demo:
        assert demo.stdout is not None
        said = {}
        for line in demo.stdout:
            word, _, rest = line.partition(": ")
            said[word] = rest.split(",")[0]
            if word == "worker":
                break
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=DEMO_TIMEOUT_SECONDS)
    assert demo.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(said["worker"].removeprefix("pid ")), 0)
    host, _, port = said["temporal dev server"].partition(":")
    with socket.socket() as caller:
        assert caller.connect_ex((host, int(port))) != 0, "the server is still there"


# --- problems are reported in one line -----------------------------------------------


def test_a_worker_that_does_not_start_is_reported_with_its_reason(
    folder: Path, tmp_path: Path
) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("other: {provider: openai, baseUrl: 'http://127.0.0.1:9/v1'}\n")
    demo = give(folder, "", "--model", "mine:a-model", HOLDFAST_ENDPOINTS=str(endpoints))
    assert demo.returncode == 1
    [line] = demo.stderr.splitlines()
    assert line.startswith("demo: the worker does not start: ")
    assert "there is no endpoint `mine`" in line


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('first; mend it\\nsecond; mend that')", "first; mend it (and more in "),
        ("raise ValueError('a mistake of ours')", "ValueError: a mistake of ours"),
        ("raise SystemExit(3)", "it ended with code 3"),
    ],
)
async def test_a_process_that_ends_too_soon_is_reported_with_its_output(
    tmp_path: Path, program: str, reason: str
) -> None:
    command = [sys.executable, "-c", program]
    with (
        Child(command, log=tmp_path / "log", env=dict(os.environ)) as child,
        pytest.raises(NotReadyError) as caught,
    ):
        await child.ready("ready", timeout_seconds=120)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("model", ["", "gpt", ":", "openai:", ":gpt", "local:other", "script:x"])
def test_an_unknown_model_is_reported_in_one_line(
    folder: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HOLDFAST_ENDPOINTS", raising=False)
    assert main(["--folder", str(folder), "--model", model]) == 2
    said = capfd.readouterr()
    assert said.err.startswith("demo: ")
    assert said.err.count("\n") == 1


def test_openai_needs_nothing_but_its_usual_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_ENDPOINTS", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with opened(folder), pytest.raises(MiscastError), cast("openai:a-model", folder):
        pass
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    with opened(folder), cast("openai:a-model", folder) as played:
        assert played.endpoints is None


# --- where it is given -----------------------------------------------------------------


def test_two_demonstrations_are_never_given_in_one_folder(folder: Path) -> None:
    with opened(folder), pytest.raises(OccupiedError, match="under way"), opened(folder):
        pass


def test_a_demonstration_begins_with_a_fresh_shop(folder: Path) -> None:
    with opened(folder):
        (folder / "outbox").mkdir()
        (folder / "outbox" / "old.eml").write_text("Subject: of before\n\n")
    with opened(folder):
        assert shop.deeds(folder) == []


def test_a_folder_with_something_else_in_it_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(OccupiedError, match="something else"), opened(folder):
        pass
    assert (folder / "thesis.txt").exists()


# --- what it is made of ----------------------------------------------------------------


def agent_in(catalog: Path, endpoint: str) -> ResolvedAgent:
    return load_catalog(
        catalog, [str(HERE / "tools.py")], endpoints=[endpoint], read_definition=activity_definition
    ).agents["support_desk"]


def test_of_the_agent_only_the_model_differs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ENDPOINTS", "endpoints.yaml")
    with opened(folder), cast("mine:llama3:8b", folder) as played:
        other = agent_in(played.catalog, "mine")
    own = agent_in(HERE, "demo")
    assert (other.own_model.endpoint, other.own_model.name) == ("mine", "llama3:8b")
    assert other.model_copy(update={"model": own.model}) == own


def test_tools_with_side_effects_need_approval_and_those_that_run_once_are_marked() -> None:
    tools = {tool.name: tool for tool in agent_in(HERE, "demo").tools}
    assert [name for name, tool in tools.items() if tool.side_effects] == [
        "refund_order",
        "cancel_shipment",
        "send_mail",
    ]
    assert [name for name, tool in tools.items() if tool.once] == ["cancel_shipment"]
    assert tools["refund_order"].approval.when == {
        "properties": {"amount": {"exclusiveMinimum": 100}}
    }
    assert all(tool.label and tool.description for tool in tools.values())
    for tool in tools.values():
        assert all(schema["description"] for schema in tool.parameters["properties"].values())
