"""Pyright finds the mistakes in the program of a user that mypy finds in `make types`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT

PROGRAM = Path(__file__).with_name("typed_program.py")
MARK = "  # type: ignore["


@pytest.mark.typescript
def test_pyright_finds_them(tmp_path: Path) -> None:
    text = PROGRAM.read_text(encoding="utf-8")
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    settings = {
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = ROOT / "tests/foreign/node/node_modules/pyright/index.js"
    words = ["node", str(pyright), "--outputjson", "--pythonpath", sys.executable]
    words += ["--project", str(tmp_path)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    problems = json.loads(found.stdout)["generalDiagnostics"]
    wrong = [n for n, line in enumerate(text.splitlines(), 1) if MARK in line]
    lines = {each["range"]["start"]["line"] + 1 for each in problems}
    assert sorted(lines) == wrong, found.stdout
