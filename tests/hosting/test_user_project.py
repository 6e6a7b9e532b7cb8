"""A user's project whose modules have the names of Holdfast's packages."""

import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.support.process import ROOT, command

FILES = {
    "activities/__init__.py": "from activities.payments import charge_card\n",
    "activities/payments.py": """
        from pydantic import BaseModel
        from schemas.money import Amount
        from temporalio import activity

        class Charge(BaseModel):
            amount: Amount

        @activity.defn
        async def charge_card(charge: Charge) -> str:
            "Charge a card."
            return "charged"
        """,
    "workflows/__init__.py": "",
    "schemas/__init__.py": "",
    "schemas/money.py": "Amount = float\n",
    "client.py": "",
    "cli.py": "",
    "worker.py": "",
    "tools.py": """
        from pathlib import Path

        import cli, client, schemas, worker, workflows
        from activities import charge_card

        HERE = Path(__file__).parent
        assert all(HERE in Path(each.__file__).parents for each in (cli, client, schemas, worker))
        assert HERE in Path(workflows.__file__).parents
        """,
}
PACKAGES = sorted(each.parent.name for each in ROOT.glob("holdfast/*/__init__.py"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of the project."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with no other settings than these."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        (("-m", "holdfast", "check", "--tools", "activities.payments", "--tools", "tools.py"), {}),
        (
            ("-m", "holdfast", "worker", "--check"),
            {"PYTHONPATH": ".", "HOLDFAST_TOOLS": "activities.payments tools.py"},
        ),
        ((str(ROOT / "worker.py"), "--check", "--tools", "tools.py"), {"PYTHONPATH": str(ROOT)}),
    ],
    ids=["check", "on-the-python-path", "checkout-on-the-python-path"],
)
def test_its_modules_load_as_tools(
    project: Path, command: tuple[str, ...], variables: dict[str, str]
) -> None:
    done = run(project, *command, **variables)
    assert done.stderr == ""
    assert done.stdout == "1 tool, 0 agents, endpoints none: OK\n"


async def test_a_worker_starts_with_them(
    client: Client, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    address = client.service_client.config.target_host
    arguments = ("--tools", "activities.payments", "--task-queue", queue)
    async with command(*arguments, address=address) as running:
        ready = await running.until("holdfast worker ready")
        running.signal()
        assert await running.end() == (0, [])
    assert ready.endswith(f"task queue {queue}, 1 tool, 0 agents, endpoints none")


@pytest.mark.parametrize(
    "command",
    [("-m", "holdfast", "check"), (str(ROOT / "worker.py"), "--check")],
    ids=["check", "worker.py"],
)
def test_its_modules_load_from_the_folder_of_a_checkout(
    project: Path, command: tuple[str, ...]
) -> None:
    done = run(ROOT, *command, "--tools", str(project / "tools.py"))
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(
    "variables", [{}, {"PYTHONPATH": "."}], ids=["plain", "on-the-python-path"]
)
def test_the_installed_package_has_no_other_name(tmp_path: Path, variables: dict[str, str]) -> None:
    code = f"""
        import importlib.util
        print([name for name in {[*PACKAGES, "worker"]} if importlib.util.find_spec(name)])
        """
    assert run(tmp_path, "-c", textwrap.dedent(code), **variables).stdout == "[]\n"


def test_a_worker_of_a_checkout_has_no_other_name(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("import schemas\n")
    worker = (str(ROOT / "worker.py"), "--check", "--tools", str(tmp_path / "tools.py"))
    done = run(ROOT, *worker, PYTHONPATH=".")
    assert "No module named 'schemas'" in done.stderr
