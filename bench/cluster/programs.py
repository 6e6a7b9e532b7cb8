"""The programs of a cluster: Temporal's server, built by Go from its module, and PostgreSQL.

The server is built once for each version, into the user's cache. PostgreSQL is the system's own.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = "1.32.0"
MODULE = "go.temporal.io/server"
_PACKAGES = ("cmd/server", "cmd/tools/sql")
_DEBIAN = Path("/usr/lib/postgresql")
# PostgreSQL refuses to run as root.
SYSTEM_USER = "postgres"


class Unavailable(Exception):
    """A program that a cluster needs is not installed."""


@dataclass(frozen=True)
class Programs:
    """Where the programs are: `server` and `sql` in one folder, PostgreSQL's in another."""

    temporal: Path
    postgresql: Path

    @property
    def as_postgres(self) -> list[str]:
        """How a command of PostgreSQL begins."""
        if os.geteuid():
            return []
        user = (f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}")
        return ["setpriv", *user, "--clear-groups", "--"]


def programs() -> Programs:
    """Find them, and build the server on first use.

    Raises:
        Unavailable: Go or PostgreSQL is missing.
        subprocess.CalledProcessError: the server could not be built.
    """
    initdb = _newest_initdb()
    if initdb is None:
        raise Unavailable("PostgreSQL is not installed: apt-get install postgresql")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "holdfast" / f"temporal-{VERSION}"
    if not all((folder / Path(package).name).exists() for package in _PACKAGES):
        _build(folder)
    return Programs(folder, initdb.parent)


def _newest_initdb() -> Path | None:
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1]
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve()


def _build(folder: Path) -> None:
    if shutil.which("go") is None:
        raise Unavailable("Go is not installed: https://go.dev/doc/install")
    print(f"building Temporal {VERSION}, once, in {folder} …", file=sys.stderr, flush=True)
    subprocess.run(
        ["go", "install", "-ldflags=-s -w", *(f"{MODULE}/{one}@v{VERSION}" for one in _PACKAGES)],
        env={**os.environ, "GOBIN": str(folder)},
        check=True,
    )
