"""Where a demonstration is given: a fresh folder, and a server of its own on free ports."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.support_desk import shop
from holdfast.hosting.dev_server import HOST, DevServer, free_port


class OccupiedError(Exception):
    """The demonstration cannot be given there; the message says what to do."""


@dataclass(frozen=True)
class Place:
    """The folder with everything that a demonstration leaves, and the ports of its server."""

    folder: Path
    port: int
    ui_port: int

    @property
    def address(self) -> str:
        """Where the server answers."""
        return f"{HOST}:{self.port}"

    @property
    def server(self) -> DevServer:
        """The server that is to be started."""
        return DevServer(self.folder / "temporal.db", self.port, self.ui_port)

    def environment(self) -> dict[str, str]:
        """The worker's environment: it is to find this server, whatever else is set up here."""
        ours = ("TEMPORAL_", "HOLDFAST_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "SUPPORT_DESK_DIR": str(self.folder),
        }


@contextmanager
def opened(folder: Path) -> Iterator[Place]:
    """Open the shop in `folder`, emptied first, and keep others out for as long as the block lasts.

    Raises:
        OccupiedError: a demonstration is being given there, or the folder is somebody else's.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            todo = "end it, or name another --folder"
            raise OccupiedError(
                f"a demonstration is under way in {short(folder)}: {todo}"
            ) from None
        _clear(folder)
        shop.open_shop(folder)
        yield Place(folder, free_port(DevServer.port), free_port(DevServer.ui_port))


def short(path: Path) -> str:
    """The path as it is typed here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _clear(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / shop.DATABASE).exists()):
        raise OccupiedError(f"{short(folder)} holds something else: name another --folder")
    shutil.rmtree(folder)
