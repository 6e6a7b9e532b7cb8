"""The deployment and build of a worker, if its options name one.

Temporal then keeps a run on its build. A run moves to the build that is current, or that the
deployment is ramping up, where it continues as new: see `workflows.agent`. New runs
start on these builds, too: a worker of another build receives none.
"""

import shlex
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import WorkerDeploymentConfig

from holdfast.validation.problems import FixableError

MAX_NAME_CHARACTERS: Final = 200
# The prefix that Temporal reserves.
_RESERVED: Final = "__"


def read_version_name(text: str, dividers: str = "") -> str:
    """Return a name that Temporal accepts, without these dividers.

    Raises:
        ValueError: Temporal rejects the name; the message describes a valid one.
    """
    fits = text.isprintable() and 0 < len(text.strip()) == len(text) <= MAX_NAME_CHARACTERS
    if not fits or text.startswith(_RESERVED) or any(each in text for each in dividers):
        without = "".join(f", `{each}`" for each in dividers)
        raise ValueError(
            f"write up to {MAX_NAME_CHARACTERS} characters without a space at either end"
            f"{without}, and without `{_RESERVED}` at the beginning"
        )
    return text


def version_of(deployment: str | None, build: str | None) -> WorkerDeploymentVersion | None:
    """Return the version that both options name, or None without them.

    Raises:
        FixableError: one of the two is missing.
    """
    if deployment is not None and build is not None:
        return WorkerDeploymentVersion(deployment, build)
    if deployment is not None:
        raise FixableError("`--deployment` is given, and `--build` is not", "name the build")
    if build is not None:
        raise FixableError("`--build` is given, and `--deployment` is not", "name its deployment")
    return None


def deployment_config(version: WorkerDeploymentVersion | None) -> WorkerDeploymentConfig | None:
    """Return the deployment of every worker of this process; its runs stay on their build."""
    if version is None:
        return None
    return WorkerDeploymentConfig(
        version=version,
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def routing_advice(client: Client, version: WorkerDeploymentVersion) -> str | None:
    """Return the command that routes new runs to this build, or None if it is not needed."""
    request = DescribeWorkerDeploymentRequest(
        namespace=client.namespace, deployment_name=version.deployment_name
    )
    try:
        answer = await client.workflow_service.describe_worker_deployment(request, retry=True)
        routing = answer.worker_deployment_info.routing_config
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            return None
        builds = []
    else:
        both = (routing.current_deployment_version, routing.ramping_deployment_version)
        builds = [each.build_id for each in both]
    if version.build_id in builds:
        return None
    name, build = version.deployment_name, version.build_id
    named = ("--deployment-name", name, "--build-id", build)
    return (
        f"build {build} of deployment {name} is not current: it receives no new runs;"
        " to make it current: temporal worker deployment set-current-version"
        f" {shlex.join(named)}"
    )
