"""What only an extra installs is needed by nothing else, and is named where it is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runtime.telemetry.startup import TelemetrySettingsError, read_telemetry

OF_EXTRAS = [
    *("starlette", "uvicorn", "jinja2", "python_multipart", "aioboto3"),
    *("opentelemetry.exporter", "botocore", "google.auth", "azure", "mcp", "httpx2"),
    "pydantic_evals",
]
EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def bare(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in an environment without any extra."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({OF_EXTRAS}))\n"
    command = [sys.executable, "-c", hide + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_worker_and_a_client_need_no_extra() -> None:
    done = bare("import holdfast.hosting.worker, holdfast.cli.main, holdfast.cli.run_commands")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_needs_an_extra_names_it(tmp_path: Path) -> None:
    commands = [["codec", "--origin", "http://localhost"], ["inbox"], ["mcp"]]
    commands.append(["evals", "run", str(tmp_path / "s.yaml")])
    evaluator = "{evaluator: 'pathlib:Path'}"
    (tmp_path / "s.yaml").write_text(
        f"agent: a\ncases: [{{name: a, expect: {{evaluators: [{evaluator}]}}}}]\n"
    )
    done = bare(
        "import os; from holdfast.cli.main import command_line\n"
        f"os.chdir({str(tmp_path)!r}); os.environ['HOLDFAST_CODEC_TOKEN'] = 'x' * 32\n"
        f"print([command_line(each) for each in {commands}])"
    )
    assert done.stdout == "[2, 2, 2, 2]\n"
    for line, extra in zip(done.stderr.splitlines(), ("web", "web", "mcp", "evals"), strict=True):
        assert line.startswith("holdfast: this needs the package ")
        assert line.endswith(f", which is not installed; pip install 'holdfast-agents[{extra}]'")


def test_telemetry_without_its_exporter_is_a_problem_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    with pytest.raises(TelemetrySettingsError, match=r"pip install 'holdfast-agents\[otlp\]'"):
        read_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
    assert not read_telemetry({}).traces
