"""`deploy/compose.yaml` agrees with itself, with its files, and with what it starts.

Docker is not asked: there is none where the tests run.
"""

import ipaddress
import json
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.hosting.process_exit import PATIENCE
from holdfast.schemas.base import parse_duration
from holdfast.schemas.settings.inbox import InboxSettings
from tests.deploy.reading import (
    DEPLOY,
    INBOX_PORT,
    INBOX_STOPS,
    OF_BOTH,
    OF_INBOX,
    OF_WORKER,
    ROOT,
    USER,
    check_command,
    check_proxy,
    compose,
    read,
    seconds,
)

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = ("worker", "inbox")
# Of the example, not of the worker.
OF_EXAMPLE = {"SUPPORT_DESK_DIR"}


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    """What a service has mounted: source and target."""
    return [tuple(each.split(":")[:2]) for each in service.get("volumes", [])]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `prepare.sh` has made what is in no repository."""
    folder = tmp_path_factory.mktemp("deploy")
    script = folder / "prepare.sh"
    script.write_bytes((DEPLOY / "prepare.sh").read_bytes())
    again = ["sh", str(script), "ada", "finance,support"]
    said = [  # a second time changes nothing
        subprocess.run(again, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    (folder / "said").write_text("".join(said))
    return folder


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_and_its_needs_are_there(name: str) -> None:
    service = SERVICES[name]
    tag = service["image"].rpartition(":")[2]
    assert re.search(r"\d", re.sub(r"\$\{\w+:-(.*)\}", r"\1", tag)), "a tag with a version"
    needed = service.get("depends_on", {})
    for other in needed:
        on = needed[other]["condition"] if isinstance(needed, dict) else "service_started"
        if on == "service_healthy":
            is_ours = SERVICES[other]["image"].startswith("holdfast:")
            assert is_ours or "healthcheck" in SERVICES[other]
        if on == "service_completed_successfully":
            assert SERVICES[other].get("restart", "no") in ("no", "on-failure:5")
        is_wanted = set(SERVICES[other].get("profiles", [])) <= set(service.get("profiles", []))
        assert is_wanted, f"{other} may be left out by a profile"


def test_what_is_mounted_and_named_is_there(prepared: Path) -> None:
    for name, service in SERVICES.items():
        for source, _ in mounts(service):
            if source.startswith("./secret/"):
                assert (prepared / source).exists(), name
            elif source.startswith("."):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
            else:
                assert source in compose()["volumes"], name
        for network in service.get("networks", []):
            assert network == "default" or network in compose()["networks"], name


def test_nothing_listens_but_for_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_secret_is_in_it_and_each_is_required(prepared: Path) -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    made = dict(
        line.split("=", 1)
        for line in (prepared / ".env").read_text().splitlines()
        if not line.startswith("#")
    )
    asked = set(re.findall(r"\$\{(\w+):\?run deploy/prepare.sh first\}", text))
    assert asked == set(made)
    assert len(set(made.values())) == len(made)
    secret = re.compile(r"(PASSWORD|PWD|SECRET|KEY)[A-Z_]*$")
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            if secret.search(variable):
                assert value.startswith("${"), variable


def test_prepared_files_belong_to_the_user_who_prepares_them(prepared: Path) -> None:
    assert (prepared / ".env").stat().st_mode & 0o077 == 0
    assert (prepared / "secret").stat().st_mode & 0o077 == 0
    first, *rest = (prepared / "said").read_text().splitlines()
    password = first.rpartition(" ")[2]
    name, _, kept = (prepared / "secret/people").read_text().strip().partition(":")
    assert name == "ada"
    salt = kept.split("$")[2]
    again = ["openssl", "passwd", "-6", "-salt", salt, password]
    assert subprocess.run(again, capture_output=True, text=True, check=True).stdout.strip() == kept
    assert (prepared / "secret/groups").read_text() == '"ada" "finance,support";\n'
    assert not any("password" in line for line in rest), "it is printed once"


@pytest.mark.parametrize("name", OURS)
def test_our_services_receive_what_they_read_and_no_more(name: str) -> None:
    service = SERVICES[name]
    known = OF_BOTH | (OF_WORKER | OF_EXAMPLE if name == "worker" else OF_INBOX)
    assert set(service["environment"]) <= known
    check_command(service["command"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "user" not in service, "the image's own"


def test_the_worker_finds_its_files_where_they_are_mounted() -> None:
    worker = SERVICES["worker"]
    inside = {target: (DEPLOY / source).resolve() for source, target in mounts(worker)}
    examples = inside["/srv/holdfast/examples"]
    named = [
        worker["environment"]["HOLDFAST_CATALOG"],
        worker["environment"]["HOLDFAST_ENDPOINTS"],
        worker["command"][-1],
    ]
    for each in named:
        assert (examples.parent / each).exists(), each
    assert worker["environment"]["SUPPORT_DESK_DIR"] in inside
    shop = (DEPLOY / "compose/shop.py").read_text(encoding="utf-8")
    assert f'Path("{worker["environment"]["SUPPORT_DESK_DIR"]}")' in shop
    assert f"USER = {USER}\n" in shop


def test_others_find_their_files_where_they_are_mounted() -> None:
    named = {"inbox": "HOLDFAST_INBOX", "temporal": "DYNAMIC_CONFIG_FILE_PATH"}
    for name, variable in named.items():
        inside = [target for _, target in mounts(SERVICES[name])]
        assert SERVICES[name]["environment"][variable] in inside, name


def test_each_is_given_the_time_that_it_takes_to_stop() -> None:
    worker = SERVICES["worker"]
    graceful = parse_duration(worker["environment"]["HOLDFAST_GRACEFUL_TIMEOUT"])
    takes = {"worker": graceful + PATIENCE, "inbox": INBOX_STOPS}
    for name, most in takes.items():
        assert timedelta(seconds=seconds(SERVICES[name]["stop_grace_period"])) > most, name


def test_the_inbox_trusts_its_gate_alone() -> None:
    said = InboxSettings.model_validate(read(DEPLOY / "compose/inbox.yaml"))
    assert said.proxy is not None
    gate = ipaddress.ip_address(SERVICES["gate"]["networks"]["gate"]["ipv4_address"])
    assert said.proxy.networks == [f"{gate}/32"]
    assert list(SERVICES["gate"]["networks"]) == ["gate"], "else it has another address, too"
    subnet = ipaddress.ip_network(compose()["networks"]["gate"]["ipam"]["config"][0]["subnet"])
    own = [
        service["networks"]["gate"]["ipv4_address"]
        for service in SERVICES.values()
        if "gate" in service.get("networks", {})
    ]
    assert len(set(own)) == len(own) == 2
    assert all(ipaddress.ip_address(each) in subnet for each in own)

    conf = (DEPLOY / "compose/gate.conf").read_text(encoding="utf-8")
    for header in (said.proxy.user_header, said.proxy.groups_header):
        assert f"proxy_set_header {header} $" in conf
    assert f"proxy_pass http://inbox:{INBOX_PORT};" in conf
    assert SERVICES["inbox"]["command"][-1] == str(INBOX_PORT)
    port = SERVICES["gate"]["ports"][0].split(":")[1]
    assert said.url == f"https://localhost:{port}"
    assert f"http://{SERVICES['temporal-ui']['ports'][0]}" == f"{said.temporal_ui}:8080"


def test_the_gate_admits_known_people_and_passes_on_requests_and_responses() -> None:
    conf = (DEPLOY / "compose/gate.conf").read_text(encoding="utf-8")
    said = dict(re.findall(r"^ *(\w+) (.*);$", conf, re.MULTILINE))
    assert said["auth_basic"] == '"Holdfast"'
    inside = [target for _, target in mounts(SERVICES["gate"])[1:]]
    keys = ("auth_basic_user_file", "include", "ssl_certificate", "ssl_certificate_key")
    assert sorted(said[key] for key in keys) == sorted(inside)
    assert "proxy_set_header Host $http_host;" in conf, "with its port, as the inbox is called"
    silence = parse_duration(said["proxy_read_timeout"])
    check_proxy(said["client_max_body_size"], said["proxy_buffering"], silence)


def test_what_is_measured_goes_from_one_to_the_next() -> None:
    collector = read(DEPLOY / "otel/collector.yaml")
    sent_to = SERVICES["worker"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    port = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]
    assert sent_to == f"http://collector:{port}"
    for pipeline in collector["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            for each in pipeline[part]:
                named = re.sub(r"\$\{env:\w+:-(\w+)\}", r"\1", each)
                assert named in collector[part]
    assert collector["service"]["extensions"] == list(collector["extensions"])

    scraped = read(DEPLOY / "compose/prometheus.yaml")["scrape_configs"][0]["static_configs"]
    out = collector["exporters"]["prometheus"]["endpoint"].rpartition(":")[2]
    assert scraped == [{"targets": [f"collector:{out}"]}]
    tempo = read(DEPLOY / "compose/tempo.yaml")
    into = tempo["distributor"]["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    assert collector["exporters"]["otlp_http/tempo"]["endpoint"].endswith(into.rpartition(":")[2])
    assert "TRACES_TO=otlp_http/tempo" in (DEPLOY / "prepare.sh").read_text(encoding="utf-8")
    sources = read(DEPLOY / "compose/grafana-sources.yaml")["datasources"]
    listening = {"prometheus": 9090, "tempo": tempo["server"]["http_listen_port"]}
    assert {each["type"]: each["url"] for each in sources} == {
        kind: f"http://{kind}:{port}" for kind, port in listening.items()
    }


def test_the_dashboard_asks_what_there_is() -> None:
    board = json.loads((DEPLOY / "grafana/holdfast.json").read_text(encoding="utf-8"))
    sources = {each["uid"] for each in read(DEPLOY / "compose/grafana-sources.yaml")["datasources"]}
    chosen = {f"${{{each['name']}}}": each["query"] for each in board["templating"]["list"]}
    asked = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert asked
    for uid in asked:
        assert uid in sources or chosen.get(uid) in {"prometheus", "tempo"}, uid
    [provider] = read(DEPLOY / "compose/grafana-dashboards.yaml")["providers"]
    assert ("./grafana", provider["options"]["path"]) in mounts(SERVICES["grafana"])


def test_the_dashboard_groups_by_labels_that_are_exported() -> None:
    folders = [ROOT / "holdfast" / name for name in ("runtime", "activities")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    sources = "\n".join(file.read_text(encoding="utf-8") for file in files)
    told = {name.replace(".", "_") for name in re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', sources)}
    board = (DEPLOY / "grafana/holdfast.json").read_text(encoding="utf-8")
    asked = {name for by in re.findall(r"\bby \(([^)]+)\)", board) for name in by.split(", ")}
    others = {"le", "worker_type"}  # of histograms; of Temporal's own SDK
    assert others < asked
    assert asked - others <= told
