"""The checks of a release: what is run, and which files it reads.

A result stays that of a later commit which changes none of these files.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.__main__ import WHOLE as WHOLE_BENCH
from bench.published import UNMEASURED

PRODUCT = ("holdfast", "worker.py", "pyproject.toml", "requirements", "Makefile")
SUPPORT = ("tests/conftest.py", "tests/support")
# Suites that `make test` leaves out.
SUITES = ("tests/fuzz", "tests/model", "tests/foreign", "tests/soak")
WHOLE = (".", *(f":(exclude){each}" for each in SUITES))
FAULTS = (*SUPPORT, "tests/faults", "bench/cluster", "bench/process.py", "bench/server.py")
LANGUAGES = (*SUPPORT, "tests/languages", "examples")
BENCH = (*SUPPORT, "bench", "tests/client/crowd.py")
# Random examples differ in each pass.
FUZZ = "set -e; while [ $SECONDS -lt 3600 ]; do make test-fuzz; done"
LOADED = (
    "for _ in $(seq $(nproc)); do while :; do :; done & done; "
    "make test; code=$?; kill $(jobs -p); exit $code"
)


@dataclass(frozen=True)
class Check:
    """A command of Bash, and the paths that it reads beside the product."""

    name: str
    command: str
    reads: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """The paths as git takes them, without results and pages."""
        return [*PRODUCT, *self.reads, *(f":(exclude){each}" for each in UNMEASURED)]


def _made() -> Iterator[Check]:
    """Yield the checks in their order: those first that find most in the least time."""
    yield Check("test", "make test", WHOLE)
    yield Check("test-loaded", LOADED, WHOLE)
    yield Check("coverage", "make coverage", WHOLE)
    for name, reads in {
        "test-slow": WHOLE,
        "test-upgrade": ("tests/replay",),
        "test-versions": ("tests",),
        "test-model": (*SUPPORT, "tests/model", "examples"),
        "test-typescript": (*LANGUAGES, "tests/foreign", "clients", "tests/docs"),
        "test-go": LANGUAGES,
        "test-java": LANGUAGES,
        "test-mcp-servers": (*SUPPORT, "tests/foreign"),
        "test-mcp-clients": (*SUPPORT, "tests/foreign"),
        "test-image": (*SUPPORT, "tests/deploy", "deploy"),
    }.items():
        yield Check(name, f"make {name}", reads)
    conformance = "make test-mcp-conformance ARGS=--write"
    yield Check("test-mcp-conformance", conformance, (*SUPPORT, "tests/foreign"))
    for name, options in {
        "test-faults": "--write",
        "test-faults-random": "--for 1h --seed 41 --write",
        "test-faults-cluster": "--cluster --write",
    }.items():
        yield Check(name, f'make test-faults ARGS="{options}"', FAULTS)
    yield Check("test-fuzz", FUZZ, (*SUPPORT, "tests/fuzz", "tests/engine"))
    yield Check("test-soak", 'make test-soak ARGS="--for 1h"', (*BENCH, "tests/soak"))
    yield Check("bench-cluster", "make bench ARGS=--cluster", BENCH)
    # Together `make bench ARGS=--all`, which takes hours.
    alone = " ".join(part for part in WHOLE_BENCH if part != "peers")
    yield Check("bench-peers", "make bench ARGS=peers", BENCH)
    yield Check("bench", f'make bench ARGS="{alone}"', BENCH)


CHECKS = {check.name: check for check in _made()}
