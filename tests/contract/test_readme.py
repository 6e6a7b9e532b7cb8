"""The README's commands run as printed in the project that `holdfast init` writes."""

from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.cli.project_commands import TEMPLATE
from tests.docs.conftest import namespace as namespace
from tests.docs.page import File, Shell, steps
from tests.docs.stage import check_excerpt, stage
from tests.support.process import ROOT


@pytest.mark.usefixtures("quick_starts", "default_ports")
async def test_the_readme_is_what_a_new_project_does(namespace: Client, tmp_path: Path) -> None:
    with stage(tmp_path, namespace) as played:
        await played.play(Shell(0, "holdfast init", None))
        for step in steps(ROOT / "README.md"):
            if isinstance(step, File):
                check_excerpt(TEMPLATE / step.name, step.text)
            else:
                await played.play(step)
        # The project's own page ends with a question to a person.
        page = (TEMPLATE / "README.md").read_text(encoding="utf-8")
        asked, told = page.split("```\n")[-2], "…\noutput: I have asked my colleagues; …\n…"
        await played.play(Shell(0, asked, told))
