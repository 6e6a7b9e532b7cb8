"""The content of `deploy/`, read as the programs read it that it is for."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import opentelemetry.sdk.environment_variables as of_telemetry
import yaml

from holdfast.cli import server_commands
from holdfast.cli.main import client_parser
from holdfast.cli.server_commands import SETTINGS_VARIABLE
from holdfast.hosting.options import VARIABLES, read_options
from holdfast.runtime.attachments import DEFAULT_BYTES
from holdfast.runtime.connection_errors import _VARIABLES as OF_TEMPORAL
from holdfast.runtime.telemetry.telemetry import FLUSH_SECONDS
from holdfast.schemas.internal.live_answer import VIEWERS_KEY
from holdfast.web.app import SECRET_VARIABLE
from holdfast.web.http.requests import MAX_BODY_BYTES
from holdfast.web.http.serving import STOP_TIMEOUT_SECONDS
from holdfast.web.http.streaming import KEEP_ALIVE_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
INBOX_PORT = server_commands.INBOX_PORT
PROBES_PORT = 8236
USER = 10001
# A running request is answered, and what was measured is sent.
INBOX_STOPS = timedelta(seconds=STOP_TIMEOUT_SECONDS + FLUSH_SECONDS)

OF_WORKER = set(VARIABLES)
# What `holdfast inbox` reads beside what every command does.
OF_INBOX = {
    SETTINGS_VARIABLE,
    SECRET_VARIABLE,
    "HOLDFAST_ENCRYPTION",
    "HOLDFAST_STORE",
    "HOLDFAST_CONVERTER",
}
OF_BOTH = {*OF_TEMPORAL, *vars(of_telemetry), VIEWERS_KEY}


def read(path: Path) -> Any:
    """A YAML file with one document."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def compose() -> dict[str, Any]:
    """The Compose file."""
    found = read(DEPLOY / "compose.yaml")
    assert isinstance(found, dict)
    return found


def manifests() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every object of every manifest, with its file; what Kustomize alone reads is left out."""
    settings = {KUBERNETES / "production/inbox.yaml"}
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        if path.name != "kustomization.yaml" and path not in settings:
            for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                yield path, each


def of_kind(kind: str, name: str) -> dict[str, Any]:
    """An object of the manifests."""
    [found] = [
        each for _, each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


def container(name: str) -> dict[str, Any]:
    """The container of a Deployment of that name."""
    [found] = of_kind("Deployment", name)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def built(folder: Path) -> list[dict[str, Any]]:
    """The objects that Kustomize makes of a folder; `kubectl` has to be there."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    made = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return list(yaml.safe_load_all(made.stdout))


def seconds(text: str) -> int:
    """A duration such as `45s`."""
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None, text
    return int(found.group(1))


def check_proxy(body: str, buffering: str, silence: timedelta) -> None:
    """See whether what is in front of the inbox passes on what it takes and what it sends: a body
    of this size, events as they come, a stream that sends nothing for so long."""
    most_bytes = MAX_BODY_BYTES + DEFAULT_BYTES["MESSAGE"]
    assert int(body.removesuffix("m")) * 1024**2 >= most_bytes
    assert buffering == "off"
    assert silence > timedelta(seconds=2 * KEEP_ALIVE_SECONDS)


def check_command(command: Sequence[str]) -> None:
    """See whether what a container starts is a command of ours that takes these options."""
    assert command[0] == "holdfast", command
    if command[1] == "worker":
        read_options(command[2:])
    else:
        client_parser(command[1:]).parse_options(list(command[1:]))
