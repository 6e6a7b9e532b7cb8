"""Settings for Temporal Cloud: read as every Temporal program reads them, and with every name."""

import re
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import IndexedValueType

from holdfast.hosting.temporal import _TYPES
from holdfast.runtime.connection_errors import _VARIABLES as OF_TEMPORAL
from holdfast.runtime.connection_errors import read_settings
from holdfast.schemas import names
from tests.deploy.reading import DEPLOY, OF_BOTH, OF_INBOX, OF_WORKER

CLOUD = DEPLOY / "cloud"
PAGE = (CLOUD / "README.md").read_text(encoding="utf-8")


def variables(name: str) -> dict[str, str]:
    """A file of variables."""
    lines = (CLOUD / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("profile", ["default", "mtls"])
def test_each_profile_is_read(
    profile: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = (CLOUD / "temporal.toml").read_text(encoding="utf-8")
    for kind in ("crt", "key"):
        (tmp_path / f"tls.{kind}").write_text("-----BEGIN …-----\n")
    file = tmp_path / "temporal.toml"
    file.write_text(text.replace("/etc/holdfast/tls/", f"{tmp_path}/"), encoding="utf-8")
    for name in OF_TEMPORAL:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    monkeypatch.setenv("TEMPORAL_PROFILE", profile)
    found = read_settings(print)
    assert caplog.messages == [], "every word of the file is read"
    assert found["target_host"].endswith(":7233")
    assert found["namespace"] == "holdfast.a1b2c"
    assert found["tls"], "without it, a key would be sent unencrypted"
    assert "api_key" not in text


def test_both_receive_what_they_read_and_no_secret() -> None:
    worker, inbox = variables("worker.env"), variables("inbox.env")
    assert set(worker) <= OF_WORKER | OF_BOTH
    assert set(inbox) <= OF_INBOX | OF_BOTH
    for each in (worker, inbox):
        assert not [name for name in each if re.search(r"KEY|SECRET|PASSWORD", name)]
    shared = ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "HOLDFAST_ENCRYPTION")
    assert [worker[name] for name in shared] == [inbox[name] for name in shared]


def test_every_search_attribute_is_made() -> None:
    made = re.findall(r"search-attribute create --namespace \S+ --name (\w+) --type (\w+)", PAGE)
    kinds = {
        name: IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").replace("_", "")
        for name, kind in _TYPES.items()
    }
    assert [name for name, _ in made] == [*names.SEARCH_ATTRIBUTES, names.FORKED_FROM]
    assert {name: kind.upper() for name, kind in made} == kinds


def test_what_a_run_costs_adds_up() -> None:
    said = re.search(r"has (\d+) in its history", PAGE)
    assert said is not None
    assert sum(map(int, re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE))) == int(said.group(1))
