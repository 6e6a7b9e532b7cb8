"""What a server's metrics contain of a run, and a cluster where its programs are missing."""

from pathlib import Path

import pytest

from bench.cluster import programs
from bench.counters import ACTIONS, PERSISTENCE, counted, total

METRICS = """
# TYPE action counter
action{action_type="grpc_StartWorkflowExecution",namespace="default",operation="Start"} 1
action{action_type="command_ScheduleActivityTask",namespace="default",operation="Respond"} 19
action{action_type="grpc_StartWorkflowExecution",namespace="temporal_system",operation="Start"} 2
persistence_requests{namespace="default",operation="Update",service_name="history"} 59
persistence_requests{namespace="default",operation="Update",service_name="matching"} 1
persistence_requests{namespace="default",operation="UpdateTaskQueue",service_name="matching"} 8
persistence_requests{namespace="system",operation="GetTransferTasks",service_name="history"} 7
persistence_latency_bucket{namespace="default",operation="Update",le="1"} 60
"""


def test_counters_are_summed_over_processes_for_one_namespace() -> None:
    counts = counted(METRICS, "default")

    assert counts[PERSISTENCE, "Update"] == 60
    assert (total(counts, ACTIONS), total(counts, PERSISTENCE)) == (20, 60)


@pytest.mark.parametrize(("has_postgresql", "missing"), [(False, "PostgreSQL"), (True, "Go")])
def test_a_missing_program_is_named(
    has_postgresql: bool, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_postgresql:
        (tmp_path / "15/bin").mkdir(parents=True)
        (tmp_path / "15/bin/initdb").touch()
    monkeypatch.setattr(programs, "_DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(programs.Unavailable, match=f"{missing} is not installed: "):
        programs.programs()
