"""A worker names its build and deployment, and reports what is wrong with that."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import AsyncMock

import pytest
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentResponse
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion

from holdfast.cli.server_commands import load_catalog
from holdfast.hosting.options import read_options
from holdfast.hosting.plugin import worker_parts
from holdfast.hosting.process_exit import WRONG_SETUP
from holdfast.hosting.worker import WorkerSettings, build_worker, main, routing_advice
from holdfast.validation.problems import FixableError


def test_a_build_is_named_by_options_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_options([]).settings.version is None
    named = ["--deployment", "team/desk", "--build", "v1.2"]
    assert read_options(named).settings.version == WorkerDeploymentVersion("team/desk", "v1.2")
    monkeypatch.setenv("HOLDFAST_DEPLOYMENT", "desk")
    monkeypatch.setenv("HOLDFAST_BUILD", "7")
    assert read_options([]).settings.version == WorkerDeploymentVersion("desk", "7")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--deployment", "a.b", "--build", "1"], "`--deployment`: `a.b` does not fit; write up"),
        (["--deployment", "a:b", "--build", "1"], "`--deployment`: `a:b` does not fit; write up"),
        (["--deployment", "__a", "--build", "1"], "`--deployment`: `__a` does not fit; write up"),
        (["--deployment", "d", "--build", " 1"], "`--build`: "),
        (["--deployment", "d", "--build", "__1"], "`--build`: `__1` does not fit; write up to 20"),
        (["--deployment", "d", "--build", "1\n2"], "`--build`: "),
        (["--deployment", "d", "--build", "x" * 201], "`--build`: "),
    ],
)
def test_what_temporal_does_not_take_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(FixableError, match=f"^{re.escape(said)}"):
        read_options(arguments)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--deployment=desk"], "`--deployment` is given, and `--build` is not; name the build"),
        (
            ["--check", "--catalog=desk", "--build=1"],
            "`--build` is given, and `--deployment` is not; name its deployment",
        ),
    ],
)
def test_a_worker_and_its_check_need_both(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == WRONG_SETUP
    assert capsys.readouterr().err == f"holdfast: {said}\n"


def test_a_command_that_is_no_worker_reads_the_catalog_without_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox has the settings of workers, but no build: deploy/kubernetes/production."""
    monkeypatch.setenv("HOLDFAST_DEPLOYMENT", "desk")
    (tmp_path / "tools").mkdir()
    catalog, _ = load_catalog({"catalog": str(tmp_path)})
    assert not catalog.agents


async def test_every_worker_of_a_process_is_of_its_build(client: Client, tmp_path: Path) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("fake: {provider: openai, baseUrl: 'http://127.0.0.1:1/v1'}\n")
    settings = WorkerSettings(deployment="desk", build="1", endpoints=endpoints)
    worker = build_worker(client, settings)
    others = worker_parts(worker).request_workers(worker)
    assert others
    for each in (worker, *others):
        deployment = each.config()["deployment_config"]
        assert deployment is not None
        assert deployment.default_versioning_behavior == VersioningBehavior.PINNED
        assert (deployment.version.deployment_name, deployment.version.build_id) == ("desk", "1")


async def test_a_build_that_is_ramped_up_is_given_runs() -> None:
    answer = DescribeWorkerDeploymentResponse()
    ramping = answer.worker_deployment_info.routing_config.ramping_deployment_version
    ramping.deployment_name, ramping.build_id = "desk", "2"
    service = SimpleNamespace(describe_worker_deployment=AsyncMock(return_value=answer))
    temporal = cast(Client, SimpleNamespace(namespace="default", workflow_service=service))
    assert await routing_advice(temporal, WorkerDeploymentVersion("desk", "2")) is None
    assert await routing_advice(temporal, WorkerDeploymentVersion("desk", "1")) is not None


async def test_an_unknown_build_is_not_current(client: Client) -> None:
    said = await routing_advice(client, WorkerDeploymentVersion("nowhere", "1; 2"))
    assert said is not None
    assert said.startswith("build 1; 2 of deployment nowhere is not current")
    assert said.endswith("--deployment-name nowhere --build-id '1; 2'")
