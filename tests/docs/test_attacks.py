"""The table of attacks in SECURITY.md: each line names a test, or a text that is one.

None of those demanded is missing. That the tests are there: `test_links.py`.
"""

import re

from tests.support.backend import ROOT

DEMANDED = [
    *("wrong tool", "changed arguments", "replayed decision", "forged token", "injected text"),
    *("delegate", "plan edit", "`remember`", "hook", "quorum by one person", "self-approval"),
    *("early decision for a guessed id", "race of two decisions"),
]
ROW = re.compile(
    r"^\| ([^|]+) \| [^|]+ \| [^|]+ "
    r"\| \[`(\w+)`\]\((tests/[\w/]+\.(?:py|input|play|txt))\)(?:, .+)? \|$",
    re.MULTILINE,
)


def test_each_line_names_a_test() -> None:
    readme = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = readme.partition("## What was tried against it")[2].partition("\n## ")[0]
    rows = ROW.findall(table)

    assert len(rows) == table.count("\n| ") - 2
    assert [name for name in DEMANDED if name not in [row[0] for row in rows]] == []
