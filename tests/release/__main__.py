"""`make release-check`: run the checks of a release, and write the results into the docs.

    release-check                   in the background: the checks that are not current
    release-check FROM=NAME         the same from this check, which is run in any case
    release-check ARGS="NAME …"     these checks
    release-check ARGS=--list       the state of each check

They run in a clean clone of the last commit, with an empty HOME, in `build/release`. A row is
written when its check ends, so that a stopped command resumes where it stopped.
"""

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from bench.process import ROOT
from bench.published import UNMEASURED, clean_commit, git
from tests.release.checks import CHECKS, Check
from tests.release.rows import CURRENT, PAGE, CheckResult, rows, state, written

BUILD = ROOT / "build/release"
CLONE, HOME, OUTPUT = BUILD / "clone", BUILD / "home", BUILD / "output.log"
# Of the person's own set-up, which a release is not checked with.
OWN = re.compile("HOLDFAST_|TEMPORAL_|XDG_|PYTHON|VIRTUAL_ENV|MAKE|MFLAGS|ARGS|FROM")


def prepare(commit: str) -> None:
    """Clone the commit and empty HOME, unless both are there from a command that was stopped."""
    if git("rev-parse", "HEAD", root=CLONE) == git("rev-parse", commit):
        return
    for folder in (CLONE, HOME):
        shutil.rmtree(folder, ignore_errors=True)
    HOME.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, CLONE], check=True)
    subprocess.run(["git", "-C", CLONE, "checkout", "--quiet", "--detach", commit], check=True)


def run(check: Check, commit: str) -> CheckResult:
    """Run a check in the clone, and take the results that it wrote into the docs."""
    environment = {name: value for name, value in os.environ.items() if not OWN.match(name)}
    log = BUILD / f"{check.name}.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", check.command],
            cwd=CLONE,
            env={**environment, "HOME": str(HOME)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    minutes = (time.monotonic() - started) / 60
    if not clean_commit(CLONE):
        code = code or 1
        with log.open("a") as output_:
            output_.write(f"\nfiles were changed:\n{git('status', '--short', root=CLONE)}\n")
    take_results(check)
    return CheckResult.of_log(commit, code, minutes, log)


def take_results(check: Check) -> None:
    """Apply what a check changed in the docs of the clone to this tree, and clean the clone."""
    diff = ("git", "-C", CLONE, "diff", "--binary", "--", *UNMEASURED)
    if changes := subprocess.run(diff, check=True, capture_output=True).stdout:
        patch = BUILD / f"{check.name}.patch"
        patch.write_bytes(changes)
        apply = ("git", "-C", ROOT, "apply", "--whitespace=nowarn", patch)
        if subprocess.run(apply, check=False).returncode:
            print(f"the results are in {patch}: the docs here have other changes", flush=True)
    for clean in (("reset", "--quiet", "--hard"), ("clean", "--quiet", "--force", "-d")):
        subprocess.run(("git", "-C", CLONE, *clean), check=True)


def run_all(names: Sequence[str], again: Collection[str | None]) -> int:
    """Run the checks that are not current, or are named; return 1 if one is not current then."""
    commit = clean_commit()
    prepare(commit)
    states = {}
    for check in (CHECKS[name] for name in names):
        row = rows(PAGE.read_text(encoding="utf-8")).get(check.name)
        if row is None or check.name in again or state(check, row) != CURRENT:
            print(f"{check.name}: {check.command}", flush=True)
            row = run(check, commit)
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(written(page, {**rows(page), check.name: row}), encoding="utf-8")
        states[check.name] = state(check, row)
        print(f"{check.name}: {states[check.name]}", flush=True)
    wrong = [name for name, of_check in states.items() if of_check != CURRENT]
    print(f"ended; not current: {', '.join(wrong) or 'none'}", flush=True)
    return 1 if wrong else 0


def main() -> int:
    """Read what is asked for, and start it in the background."""
    parser = argparse.ArgumentParser(prog="make release-check ARGS=…")
    parser.add_argument("name", nargs="*", choices=[[], *CHECKS], help="only these checks")
    parser.add_argument("--from", dest="first", choices=CHECKS, help="begin with this check")
    parser.add_argument("--list", action="store_true", help="print the state of each check")
    given = parser.parse_args()
    if given.list:
        found = rows(PAGE.read_text(encoding="utf-8"))
        print("\n".join(f"{name}: {state(of, found.get(name))}" for name, of in CHECKS.items()))
        return 0
    if not clean_commit():
        sys.exit("a result counts only from a clean tree: commit the changes of this tree first")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"a release check is running: {OUTPUT.relative_to(ROOT)}")
        if process := os.fork():
            print(f"process {process} runs the checks: tail -f {OUTPUT.relative_to(ROOT)}")
            return 0
        os.setsid()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        output = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        names = given.name or [*CHECKS][[*CHECKS].index(given.first or next(iter(CHECKS))) :]
        return run_all(names, {*given.name, given.first})


if __name__ == "__main__":
    sys.exit(main())
