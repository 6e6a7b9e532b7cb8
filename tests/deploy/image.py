"""The image of `deploy/Dockerfile`, built and started without Docker.

buildah builds it on a base of Debian's packages, from a folder of wheels, without a network. runc
starts containers of it. As root, `python -m tests.deploy.image` builds it in `build/image`.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.cluster.programs import MODULE, VERSION, programs
from tests.deploy.reading import ROOT

FOLDER = ROOT / "build/image"
RELEASE = "bookworm"
BASE, IMAGE = "localhost/holdfast-base", "localhost/holdfast:test"
WHEELS = FOLDER / "wheels"
PIP_SETTINGS = "[global]\nno-index = true\nfind-links = /wheels\n"
# What a container has of the kernel's, whatever its image.
_SYSTEM_MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
]


def run(*command: str | Path) -> str:
    """Run a program; return what it prints.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


def buildah(*words: str | Path, prefix: Sequence[str] = ()) -> str:
    """Run buildah with the images of `build/image`."""
    storage = ("--root", FOLDER / "storage", "--runroot", FOLDER / "run", "--storage-driver", "vfs")
    return run(*prefix, "buildah", *storage, *words)


def build() -> None:
    """Build the image; its base is built once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if BASE not in buildah("images", "--format", "{{.Name}}").splitlines():
        print(f"building a base of Debian's packages, once, in {FOLDER} …", flush=True)
        _build_base()
    pip = (sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements/run.lock", "-d", WHEELS)
    settings = FOLDER / "pip.conf"
    settings.write_text(PIP_SETTINGS)
    mounts = (f"{WHEELS}:/wheels:ro", f"{settings}:/etc/pip.conf:ro")
    buildah(
        *("build", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={BASE}"),
        *(word for mount in mounts for word in ("--volume", mount)),
        *("--file", ROOT / "deploy/Dockerfile", "--tag", IMAGE, ROOT),
        prefix=("unshare", "--net"),
    )


def _build_base() -> None:
    """Build what `python:3.11-slim-bookworm` is for the image: Debian with its Python."""
    root = FOLDER / "base"
    mirrors = run("apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {RELEASE}")
    packages = "--include=python3,python3-venv"
    run("debootstrap", "--variant=minbase", packages, RELEASE, root, mirrors.splitlines()[0])
    kept = ("--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*")
    run("tar", "-C", root, *kept, "-cf", FOLDER / "base.tar", ".")
    made = buildah("from", "scratch")
    buildah("add", "--quiet", made, FOLDER / "base.tar", "/")
    buildah("commit", "--quiet", "--rm", made, BASE)
    run("rm", "-rf", root, FOLDER / "base.tar")


@dataclass(frozen=True)
class Image:
    """The image: its configuration, the folder of its files, its size and that of its base."""

    config: dict[str, Any]
    root: Path
    size: str
    base_size: str

    @classmethod
    def mounted(cls) -> Self:
        """The image that was built."""
        buildah("rm", "--all")
        inspected = json.loads(buildah("inspect", "--type", "image", IMAGE))
        root = Path(buildah("mount", buildah("from", IMAGE)))
        size, base_size = (
            buildah("images", "--format", "{{.Size}}", each) for each in (IMAGE, BASE)
        )
        return cls(inspected["Docker"]["config"], root, size, base_size)


class Container:
    """A container of the image, as a service of `deploy/compose.yaml` describes it.

    `environment` is added to the image's; a volume is a source, a target, and `ro` or `rw`.
    """

    def __init__(
        self,
        name: str,
        image: Image,
        service: Mapping[str, Any],
        environment: Mapping[str, str],
        volumes: Sequence[tuple[Path, str, str]],
        folder: Path,
    ) -> None:
        self._name = f"{folder.name}-{name}"
        self._runc = ("runc", "--root", str(folder / "runc"))
        self._health: list[str] = image.config["Healthcheck"]["Test"][1:]
        self._bundle = folder / name
        self._bundle.mkdir()
        self.log = folder / f"{name}.log"
        network = Path("/run/netns") / name
        uid, gid = map(int, service.get("user", image.config["User"]).split(":"))
        allowed = [f"CAP_{each}" for each in service.get("cap_add", [])]
        names = (Path("/etc/hosts"), "/etc/hosts", "ro")
        spec = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": uid, "gid": gid},
                "args": service["command"],
                "env": [
                    *image.config["Env"],
                    *(f"{key}={value}" for key, value in environment.items()),
                ],
                "cwd": image.config["WorkingDir"],
                "noNewPrivileges": "no-new-privileges:true" in service["security_opt"],
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), allowed),
            },
            "root": {"path": str(image.root), "readonly": service["read_only"]},
            "mounts": [
                *_SYSTEM_MOUNTS,
                *({"destination": each, "type": "tmpfs"} for each in service["tmpfs"]),
                *(
                    {"destination": inside, "source": str(path), "options": ["rbind", mode]}
                    for path, inside, mode in (names, *volumes)
                ),
            ],
            "linux": {
                "namespaces": [
                    *({"type": each} for each in ("pid", "ipc", "uts", "mount")),
                    {"type": "network", **({"path": str(network)} if network.exists() else {})},
                ]
            },
        }
        (self._bundle / "config.json").write_text(json.dumps(spec))

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it."""
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [*self._runc, "run", "--bundle", self._bundle, self._name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as its user."""
        return subprocess.run(
            [*self._runc, "exec", self._name, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    async def healthy(self) -> bool:
        """Whether the image's health check succeeds."""
        return self.execute(*self._health).returncode == 0


if __name__ == "__main__":
    build()
    # What the test needs of the network, too.
    programs()
    run("go", "mod", "download", f"{MODULE}@v{VERSION}")
