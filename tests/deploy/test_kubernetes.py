"""The manifests: valid for Kubernetes, and in agreement with what they start and with each other.

No cluster is asked. KEDA's objects are held against what its scaler for Temporal reads.
"""

import re
import shutil
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from holdfast.cli.server_commands import SETTINGS_VARIABLE
from holdfast.hosting.options import MAX_NAME_CHARACTERS, read_probe_address
from holdfast.hosting.process_exit import PATIENCE
from holdfast.runtime.attachments import DEFAULT_BYTES
from holdfast.schemas.base import parse_duration
from holdfast.schemas.settings.inbox import InboxSettings
from holdfast.web.http.requests import MAX_BODY_BYTES, MAX_LARGE_UPLOADS
from holdfast.web.monitoring import HEALTH
from tests.deploy.reading import (
    INBOX_PORT,
    INBOX_STOPS,
    KUBERNETES,
    OF_BOTH,
    OF_INBOX,
    OF_WORKER,
    PROBES_PORT,
    ROOT,
    USER,
    built,
    check_command,
    check_proxy,
    container,
    manifests,
    of_kind,
    read,
)

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="no kubectl here, which builds the kustomizations"
)
PRODUCTION = KUBERNETES / "production"
# The oldest that these are for, and the newest that there are schemas of.
VERSIONS = ("1.28.0", kubernetes_validate.latest_version())
DEPLOYMENTS = ("worker", "inbox")
# Not for the program: for other variables.
USED = {"POD_NAME"}
# What the scaler `temporal` (2.20) has to receive, or which variable of the worker's has it.
OF_SCALER = {
    *("endpoint", "namespace", "taskQueue", "workerDeploymentName", "workerDeploymentBuildId"),
    *("queueTypes", "targetQueueSize"),
}


def template(name: str) -> dict[str, Any]:
    """The pods of a Deployment."""
    found = of_kind("Deployment", name)["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def variables(name: str) -> dict[str, str | None]:
    """The environment of a container; the values of its secrets are not part of it."""
    assert {"configMapRef": {"name": "settings"}} in container(name)["envFrom"]
    settings: dict[str, str | None] = of_kind("ConfigMap", "settings")["data"]
    return settings | {each["name"]: each.get("value") for each in container(name)["env"]}


def of_kubernetes(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those that Kubernetes itself knows."""
    return (each for each in objects if not each["apiVersion"].startswith("keda.sh/"))


@pytest.mark.parametrize(("path", "manifest"), list(manifests()), ids=str)
def test_a_manifest_is_what_kubernetes_takes(path: Path, manifest: dict[str, Any]) -> None:
    assert manifest["kind"] != "Secret", f"{path}: secrets are in no repository"
    for each in of_kubernetes([manifest]):
        for version in VERSIONS:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_can_do_nothing_but_its_work(name: str) -> None:
    pods, inside = template(name), container(name)
    assert pods["automountServiceAccountToken"] is False
    assert of_kind("ServiceAccount", pods["serviceAccountName"])
    assert pods["securityContext"]["runAsNonRoot"] is True
    assert pods["securityContext"]["runAsUser"] == USER
    assert pods["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inside["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "/tmp" in [each["mountPath"] for each in inside["volumeMounts"]]
    assert {"cpu", "memory"} <= set(inside["resources"]["requests"])
    assert "memory" in inside["resources"]["limits"]


def test_an_inbox_has_room_for_the_forms_with_files_that_it_receives_at_a_time() -> None:
    """A form is in memory about three times: as its body, its parts and what is sent of it."""
    forms_mib = MAX_LARGE_UPLOADS * (MAX_BODY_BYTES + DEFAULT_BYTES["MESSAGE"]) // 1024**2
    [tmp] = [each["emptyDir"] for each in template("inbox")["volumes"] if each["name"] == "tmp"]
    assert tmp == {"sizeLimit": "256Mi"}
    assert forms_mib < 256
    assert container("inbox")["resources"]["limits"] == {"memory": "1Gi"}
    assert 3 * forms_mib < 1024


def test_our_containers_receive_what_they_read() -> None:
    assert set(variables("worker")) - USED <= OF_WORKER | OF_BOTH
    # The worker's own are among the settings of both.
    assert set(variables("inbox")) - USED <= OF_INBOX | OF_WORKER | OF_BOTH
    check_command(container("inbox")["command"])
    no_other = "an image of the user's own says with which tools it starts"
    assert not {"command", "args"} & set(container("worker")), no_other


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_what_is_used_in_a_variable_is_set_before_it(name: str) -> None:
    before = set(of_kind("ConfigMap", "settings")["data"])
    for each in container(name)["env"]:
        assert set(re.findall(r"\$\((\w+)\)", each.get("value", ""))) <= before, each["name"]
        before.add(each["name"])
    told = variables(name)["OTEL_RESOURCE_ATTRIBUTES"] or ""
    assert "service.instance.id=$(POD_NAME)" in told, "each pod counts for itself"


def test_probes_ask_what_answers() -> None:
    worker, inbox = container("worker"), container("inbox")
    where = read_probe_address(variables("worker")["HOLDFAST_HEALTH"] or "")
    assert (where.host, where.port) == ("0.0.0.0", PROBES_PORT)
    assert worker["ports"] == [{"name": "probes", "containerPort": PROBES_PORT}]
    asked = {
        kind: worker[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }
    assert asked == {
        "startup": {"path": "/live", "port": "probes"},
        "liveness": {"path": "/live", "port": "probes"},
        "readiness": {"path": "/ready", "port": "probes"},
    }
    assert inbox["ports"] == [{"name": "http", "containerPort": INBOX_PORT}]
    assert inbox["command"][-1] == str(INBOX_PORT)
    assert inbox["readinessProbe"]["httpGet"] == {"path": HEALTH, "port": "http"}
    assert "httpGet" not in inbox["livenessProbe"], "Temporal's absence is no reason to restart it"


def test_a_pod_is_given_the_time_that_it_takes_to_stop() -> None:
    graceful = parse_duration(variables("worker")["HOLDFAST_GRACEFUL_TIMEOUT"] or "")
    for name, most in (("worker", graceful + PATIENCE), ("inbox", INBOX_STOPS)):
        given = timedelta(seconds=template(name)["terminationGracePeriodSeconds"])
        assert given > most, name


def test_names_lead_to_what_there_is() -> None:
    service = of_kind("Service", "inbox")
    labels = of_kind("Deployment", "inbox")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    ingress = of_kind("Ingress", "inbox")["spec"]
    [path] = ingress["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "inbox", "port": {"name": "http"}}
    said = InboxSettings.model_validate(read(PRODUCTION / "inbox.yaml"))
    assert said.url == f"https://{ingress['rules'][0]['host']}"
    assert ingress["tls"][0]["hosts"] == [ingress["rules"][0]["host"]]
    annotations = of_kind("Ingress", "inbox")["metadata"]["annotations"]
    told = {name.partition("/")[2]: value for name, value in annotations.items()}
    silence = timedelta(seconds=int(told["proxy-read-timeout"]))
    check_proxy(told["proxy-body-size"], told["proxy-buffering"], silence)
    for name in DEPLOYMENTS:
        budget = of_kind("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"]
        deployment = of_kind("Deployment", name)["spec"]
        assert budget == deployment["selector"]["matchLabels"]
        assert budget.items() <= deployment["template"]["metadata"]["labels"].items()


def test_the_inbox_finds_its_settings_where_they_are_mounted() -> None:
    [made] = read(PRODUCTION / "kustomization.yaml")["configMapGenerator"]
    [name] = [
        each["name"]
        for each in template("inbox")["volumes"]
        if each.get("configMap") == {"name": made["name"]}
    ]
    [place] = [
        each["mountPath"] for each in container("inbox")["volumeMounts"] if each["name"] == name
    ]
    assert [variables("inbox")[SETTINGS_VARIABLE]] == [f"{place}/{file}" for file in made["files"]]


def test_what_goes_in_and_out_is_what_is_needed() -> None:
    denied = of_kind("NetworkPolicy", "nothing-else")["spec"]
    assert denied == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    out = of_kind("NetworkPolicy", "out")["spec"]["egress"]
    open_ports = {port["port"] for rule in out for port in rule["ports"]}
    assert {53, 443} <= open_ports, "names; models and the sign-on service"
    settings = of_kind("ConfigMap", "settings")["data"]
    for place in (settings["TEMPORAL_ADDRESS"], settings["OTEL_EXPORTER_OTLP_ENDPOINT"]):
        assert int(place.rpartition(":")[2]) in open_ports
    into = of_kind("NetworkPolicy", "to-the-inbox")["spec"]["ingress"]
    assert [port["port"] for rule in into for port in rule["ports"]] == [INBOX_PORT]
    ours = of_kind("NetworkPolicy", "out")["spec"]["podSelector"]["matchExpressions"]
    assert [sorted(each["values"]) for each in ours] == [sorted(DEPLOYMENTS)]


def test_workers_are_as_many_as_their_build_has_work_for() -> None:
    spec = of_kind("ScaledObject", "worker")["spec"]
    [trigger] = spec["triggers"]
    assert trigger["type"] == "temporal"
    told = trigger["metadata"]
    assert {name.removesuffix("FromEnv") for name in told} == OF_SCALER
    for name, value in told.items():
        assert isinstance(value, str), name
        if name.endswith("FromEnv"):
            assert value in variables("worker")
    assert told["queueTypes"] == "workflow,activity"
    assert spec["minReplicaCount"] > 0, "pending approvals are read and decided all the same"
    assert "replicas" not in of_kind("Deployment", "worker")["spec"], "the autoscaler's alone"


@needs_kubectl
@pytest.mark.parametrize("folder", [PRODUCTION, PRODUCTION / "worker"], ids=lambda path: path.name)
def test_what_is_built_is_what_kubernetes_takes(folder: Path) -> None:
    objects = built(folder)
    assert objects
    for each in of_kubernetes(objects):
        for version in VERSIONS:
            kubernetes_validate.validate(each, version, strict=True)
        if each["kind"] != "Namespace":
            assert each["metadata"]["namespace"] == "holdfast"


@needs_kubectl
@pytest.mark.parametrize("tag", ["0.1.0", "20260301"])
def test_a_build_is_its_tag_and_runs_beside_the_others(tag: str, tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    file = tmp_path / "kubernetes/production/worker/kustomization.yaml"
    text = file.read_text(encoding="utf-8").replace('"0.1.0"', f'"{tag}"')
    text = text.replace('"-0-1-0"', f'"-{tag.replace(".", "-")}"')
    file.write_text(text.replace("# For Temporal Cloud: ", ""), encoding="utf-8")
    by_kind = {each["kind"]: each for each in built(file.parent)}

    name = f"worker-{tag.replace('.', '-')}"
    deployment = by_kind["Deployment"]
    assert deployment["metadata"]["name"] == name
    [inside] = deployment["spec"]["template"]["spec"]["containers"]
    assert inside["image"].endswith(f":{tag}")
    assert {"name": "HOLDFAST_BUILD", "value": tag} in inside["env"]
    assert len(tag) <= MAX_NAME_CHARACTERS
    which = {"app.kubernetes.io/name": "worker", "app.kubernetes.io/version": tag}
    assert deployment["spec"]["selector"]["matchLabels"] == which
    assert which.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == which
    scaled = by_kind["ScaledObject"]
    assert (scaled["metadata"]["name"], scaled["spec"]["scaleTargetRef"]) == (name, {"name": name})
    [trigger] = scaled["spec"]["triggers"]
    assert trigger["authenticationRef"] == {"name": "temporal"}
    [secret] = of_kind("TriggerAuthentication", "temporal")["spec"]["secretTargetRef"]
    assert secret == {"parameter": "apiKey", "name": "worker", "key": "TEMPORAL_API_KEY"}
    assert {"secretRef": {"name": "worker"}} in inside["envFrom"]


def test_the_releases_agree() -> None:
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    for folder in (PRODUCTION, PRODUCTION / "worker"):
        [image] = read(folder / "kustomization.yaml")["images"]
        assert image["newTag"] == release
    suffix = read(PRODUCTION / "worker/kustomization.yaml")["nameSuffix"]
    assert suffix == f"-{release.replace('.', '-')}"
    compose = (ROOT / "deploy/compose.yaml").read_text(encoding="utf-8")
    assert f"holdfast:${{HOLDFAST_VERSION:-{release}}}" in compose
    assert f"ARG VERSION={release}\n" in (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
