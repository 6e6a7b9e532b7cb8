"""Build the wheel and the source archive into `dist/`, the same bytes for the same commit."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SOURCES = ("holdfast", "pyproject.toml", "README.md", "LICENSE")


def commit_time() -> int:
    """Return the time of the last commit; without git, the earliest that a wheel can have."""
    git = ("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return int(done.stdout or 315532800)


def normalized(archive: Path, seconds: int) -> bytes:
    """Return a source archive with sorted members, and without times, owners and umasks."""
    packed = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    return gzip.compress(packed.getvalue(), mtime=seconds)


def build(source: Path, seconds: int) -> None:
    """Build both from a folder that holds the committed files alone."""
    os.environ["SOURCE_DATE_EPOCH"] = str(seconds)
    os.umask(0o022)
    os.chdir(source)
    from setuptools import build_meta

    DIST.mkdir(exist_ok=True)
    archive = source / build_meta.build_sdist(os.fspath(source))
    (DIST / archive.name).write_bytes(normalized(archive, seconds))
    build_meta.build_wheel(os.fspath(DIST))


def main() -> None:
    """Build from the files of the working tree that git knows."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "holdfast"
        git = ("git", "-C", str(ROOT), "ls-files", "-z", "--", *SOURCES)
        listed = subprocess.run(git, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).exists():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, source / name)
        with redirect_stdout(io.StringIO()):
            build(source, commit_time())
    for path in sorted(DIST.iterdir()):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
