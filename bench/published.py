"""Results in the docs, each written by the command that measured it, with its commit.

A result is between `<!-- NAME -->` and `<!-- /NAME -->`, and names its commit. A command writes
only from a tree that differs from that commit in nothing but other results.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.process import ROOT

DOCS = ROOT / "docs"
# Pages, and results that are stored beside them: a change of these changes no measurement.
UNMEASURED = (
    "docs",
    "CHANGELOG.md",
    "bench/results.json",
    "bench/cluster/results.json",
    "tests/faults/counts",
)
COMMIT_CHARS = 12
_RESULT = re.compile(r"<!-- ((?:bench|cluster|faults|mcp)[\w ]*) -->\n(.*?)<!-- /\1 -->", re.DOTALL)
_COMMIT = re.compile(rf"`([0-9a-f]{{{COMMIT_CHARS}}})`")


def git(*words: str, root: Path = ROOT) -> str:
    """Return what git prints; nothing if it fails, as it does without a repository."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def clean_commit(root: Path = ROOT) -> str:
    """Return the commit of the tree; nothing if the tree differs from it, or has none."""
    excluded = [f":(exclude){each}" for each in UNMEASURED]
    changed = git("status", "--porcelain", "--", ".", *excluded, root=root)
    return "" if changed else git("rev-parse", f"--short={COMMIT_CHARS}", "HEAD", root=root)


def has_history(root: Path = ROOT) -> bool:
    """Return whether git knows the older commits: in an archive or a shallow clone, it does not."""
    return git("rev-parse", "--is-shallow-repository", root=root) == "false"


def is_ancestor(commit: str, of: str = "HEAD", root: Path = ROOT) -> bool:
    """Return whether a commit is another one, or before it."""
    git_ = ("git", "-C", root, "merge-base", "--is-ancestor", commit, of)
    return subprocess.run(git_, capture_output=True, check=False).returncode == 0


def results(docs: Path = DOCS) -> Iterator[tuple[Path, str, str]]:
    """Yield each result: its page, its name, and its text."""
    for page in sorted(docs.rglob("*.md")):
        for name, text in _RESULT.findall(page.read_text(encoding="utf-8")):
            yield page, name, text


def commits(text: str) -> list[str]:
    """Return the commits that the text of a result names."""
    return _COMMIT.findall(text)


def written(text: str, commit: str) -> str:
    """Return what is between the markers of a result."""
    return f"{text.strip()}\n" + (f"\nCommit `{commit}`.\n" if commit else "")


def write_result(name: str, text: str, docs: Path = DOCS) -> None:
    """Replace a result on the page that has it, if one has."""
    for page, found, old in results(docs):
        if found == name:
            head, foot = f"<!-- {name} -->\n", f"<!-- /{name} -->"
            whole = page.read_text(encoding="utf-8")
            page.write_text(whole.replace(f"{head}{old}{foot}", f"{head}{text}{foot}"))
