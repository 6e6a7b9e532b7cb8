"""The pages of `docs/`, played from their first block to their last, as a reader would."""

import json
import re
from pathlib import Path

import pytest
from temporalio.client import Client, ScheduleOverlapPolicy
from temporalio.envconfig import ClientConfig

from tests.docs.page import File, steps
from tests.docs.stage import stage
from tests.support.process import ROOT

# Those with blocks; and those with programs that Node runs.
TYPESCRIPT = ["typescript"]
PAGES = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.typescript] * (page.stem in TYPESCRIPT))
    for page in sorted((ROOT / "docs").glob("**/*.md"))
    if "```" in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("quick_starts")
async def test_a_page_runs_as_printed(page: Path, namespace: Client, tmp_path: Path) -> None:
    with stage(tmp_path, namespace) as played:
        for step in steps(page):
            await played.play(step)


def file_of(page: str, name: str) -> str:
    """The content of a file of a page."""
    [text] = [
        step.text
        for step in steps(ROOT / "docs" / page)
        if isinstance(step, File) and step.name == name
    ]
    return text


@pytest.mark.parametrize(
    ("profile", "address", "namespace", "api_key"),
    [
        ("default", "127.0.0.1:7233", "default", None),
        ("prod", "holdfast.a1b2c.tmprl.cloud:7233", "holdfast.a1b2c", "…"),
    ],
)
def test_its_profiles_are_read_at_the_printed_place(
    profile: str,
    address: str,
    namespace: str,
    api_key: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = "~/.config/temporalio/temporal.toml"
    file = tmp_path / place.removeprefix("~/")
    file.parent.mkdir(parents=True)
    file.write_text(file_of("operating/operating.md", place), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    settings = ClientConfig.load_client_connect_config(
        profile=profile, disable_env=True, config_file_strict=True
    )
    assert settings["target_host"] == address
    assert settings["namespace"] == namespace
    assert settings.get("api_key") == api_key


def test_its_editor_settings_name_schemas_that_are_there() -> None:
    settings = json.loads(file_of("operating/operating.md", ".vscode/settings.json"))
    assert all((ROOT / schema).exists() for schema in settings["yaml.schemas"])


def test_each_overlap_policy_of_a_schedule_has_a_row() -> None:
    page = (ROOT / "docs/operating/operating.md").read_text()
    for policy in ScheduleOverlapPolicy:
        assert f"\n| `{policy.name.title().replace('_', '')}` | " in page


def test_it_was_checked_against_what_is_locked() -> None:
    page = (ROOT / "docs/operating/providers.md").read_text(encoding="utf-8")
    locks = [*(ROOT / "requirements").glob("*.lock"), ROOT / "tests/foreign/node/package.json"]
    locked = "\n".join(lock.read_text(encoding="utf-8") for lock in locks)
    said = page.partition("## What it was checked against")[2]
    found = re.findall(r"([a-z-]+) (\d[\d.]+)", said)
    assert len(found) == 14
    for package, version in found:
        assert re.search(rf'{package}(?:==|": "){re.escape(version)}[ "]', locked), package
