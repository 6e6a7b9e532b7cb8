"""The pages that list what can be set list everything that can."""

import argparse
import re

import pytest

from holdfast.cli.main import client_parser
from holdfast.hosting.options import worker_parser
from tests.deploy.reading import OF_WORKER
from tests.support.process import ROOT


def named(page: str) -> set[str]:
    """The options and variables that a page of `docs/` names."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return set(re.findall(r"--[a-z][a-z-]*|\bHOLDFAST_[A-Z_]+", text))


def command(name: str) -> argparse.ArgumentParser:
    """The parser of a command of `holdfast`."""
    actions = client_parser([name])._actions
    [commands] = [each for each in actions if isinstance(each, argparse._SubParsersAction)]
    found = commands.choices[name]
    assert isinstance(found, argparse.ArgumentParser)
    return found


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Its options, by their long names."""
    return {each for each in parser._option_string_actions if each.startswith("--")} - {"--help"}


@pytest.mark.parametrize(
    ("page", "settable"),
    [
        ("operating/worker-options.md", options(worker_parser()) | OF_WORKER),
        ("security/encryption.md", options(command("codec"))),
        ("operating/operating.md", options(command("check"))),
        ("operating/inbox.md", options(command("inbox"))),
        ("mcp-server.md", options(command("mcp"))),
    ],
    ids=["worker", "codec", "check", "inbox", "mcp"],
)
def test_a_page_names_everything_that_can_be_set(page: str, settable: set[str]) -> None:
    assert settable - named(page) == set()
