"""The links between pages: each leads to a file, or to a heading, that is there."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.process import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(*sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("examples/*/README.md")),
    *ROOT.glob("deploy/**/README.md"),
]
# Their tables are written by programs.
GENERATED = [ROOT / "docs/figures.md", ROOT / "docs/faults.md"]
_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_TEST = re.compile(r"\[`(test_\w+)`\]\(([^()\s]+\.py)\)")
_TEXT_FILE = re.compile(r"\[`\w+`\]\(([^()\s]+\.(?:input|play|txt))\)")
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_TASK = re.compile(r"^\| [^|]+ \| \[[^\]]+\]\(([^()\s]+)\) \|$", re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def sections(page: Path) -> dict[str, str]:
    """What is below each heading, up to the next one of its level, by its anchor at GitHub.

    A block of code is its fence alone.
    """
    text = _BLOCK.sub("```", page.read_text(encoding="utf-8"))
    made: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for heading in _HEADING.finditer(text):
        plain = re.sub(r"[^\w\- ]", "", heading[2].strip().lower()).replace(" ", "-")
        below = text[heading.end() :]
        following = re.search(rf"^#{{1,{len(heading[1])}}} ", below, re.MULTILINE)
        made[f"{plain}-{seen[plain]}" if seen[plain] else plain] = below[
            : following.start() if following else None
        ]
        seen[plain] += 1
    return made


def broken(page: Path, link: str) -> str | None:
    """What is wrong with a link of a page; None if it leads somewhere, or out of the repository."""
    if re.match(r"[a-z]+:", link):
        return None
    place, _, anchor = link.partition("#")
    target = (page.parent / place).resolve() if place else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return f"{link}: there is no such file"
    if anchor and anchor not in sections(target):
        return f"{link}: there is no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_links_lead_somewhere(page: Path) -> None:
    found = (broken(page, link) for link in _LINK.findall(prose(page)))
    assert [problem for problem in found if problem] == []


def missing_tests(page: Path, text: str) -> list[str]:
    """The tests that a text of a page names, and that are not in the file that it links."""
    return [
        name
        for name, file in _TEST.findall(text)
        if not re.search(rf"^(async )?def {name}\(", (page.parent / file).read_text(), re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_that_it_names_are_there(page: Path) -> None:
    assert missing_tests(page, prose(page)) == []


def test_a_test_that_is_not_there_is_found() -> None:
    here = "test_a_test_that_is_not_there_is_found"
    named = [f"[`{name}`](tests/docs/test_links.py)" for name in (here, "test_nothing")]
    assert missing_tests(ROOT / "README.md", " ".join(named)) == ["test_nothing"]


PROTOCOLS = [ROOT / "docs/protocols.md", *sorted(ROOT.glob("docs/protocols/*.md"))]


@pytest.mark.parametrize("page", PROTOCOLS, ids=lambda page: page.stem)
def test_each_behaviour_of_a_protocol_is_shown_by_a_test(page: Path) -> None:
    had = prose(page).partition("\n## What Holdfast does not have")[0]
    rows = re.findall(r"^\| [KGHSX]\d.*$", had, re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if not (_TEST.search(row) or _TEXT_FILE.search(row))] == []


LEADS_NOWHERE = ["nowhere.md", "../tools/tools.md#nowhere", "#nowhere", "../../../outside.md"]
LEADS = ["../tools/tools.md", "../tools/tools.md#patterns", "#in-a-turn", "https://temporal.io"]


@pytest.mark.parametrize("link", [*LEADS_NOWHERE, *LEADS])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    assert (broken(ROOT / "docs/agents/agents.md", link) is None) == (link in LEADS)


def has_lines_to_copy(link: str) -> bool:
    """Whether a link of the index leads to a heading with a block, or a line, of code."""
    place, _, anchor = link.partition("#")
    recipe = sections(ROOT / "docs" / place)[anchor]
    return "```" in recipe or re.search(r"`[^`\n]+ [^`\n]+`", recipe) is not None


def test_each_task_of_the_index_leads_to_lines_to_copy() -> None:
    tasks = _TASK.findall((ROOT / "docs/how-do-i.md").read_text(encoding="utf-8"))
    assert len(set(tasks)) == len(tasks) >= 40
    assert [link for link in tasks if not has_lines_to_copy(link)] == []


def test_a_task_without_lines_to_copy_is_found() -> None:
    assert not has_lines_to_copy("architecture.md#one-idea")


def test_every_page_is_reached_from_the_readme() -> None:
    assert "docs/start-here.md" in _LINK.findall(prose(ROOT / "README.md"))
    links = _LINK.findall(prose(ROOT / "docs/start-here.md"))
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.glob("**/*.md")} - {"start-here.md"}
    assert pages <= set(links)


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.stem)
def test_a_page_is_short_and_names_its_reader(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    counted = re.sub(r"^\|.*\n", "", text, flags=re.MULTILINE) if page in GENERATED else text
    assert len(counted) < 12_000
    assert "This page is for " in text.split("\n## ")[0]


def test_the_map_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = [name for name in re.findall(r"`([a-z_]+/[^`* ]*)`", text) if "NAME" not in name]
    ours = [name for name in named if name.split("/")[0] in ("holdfast", "tests", "docs")]
    assert len(ours) > 40
    assert [name for name in ours if "<" not in name and not (ROOT / name).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8")) <= 8_000
