"""A store in a folder of this machine, or in one that several machines share.

A file is written under another name and renamed once it is on the disk: a reader finds all of it,
and a crash leaves at most a file with that other name. Only the worker's user can read it, and the
group that may write to the folder.
"""

import asyncio
import os
import shutil
import uuid
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast.runtime.storage.store import LostValueError, Store, StoreError


class FolderStore(Store):
    """Store each value in a file."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"the store {root}")
        self._root = root

    def open(self) -> None:
        """Create the folder if needed, and check that it can be written to.

        Raises:
            StoreError: the folder cannot be created or written to.
        """
        probe = self._root / f".{uuid.uuid4().hex}"
        try:
            self._root.mkdir(0o700, parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise self._unwritable(error) from error

    def check_writable(self) -> None:
        """Check that the folder can be opened, without leaving one behind.

        Raises:
            StoreError: the folder cannot be opened.
        """
        made: list[Path] = []
        try:
            made += [each for each in (self._root, *self._root.parents) if not each.exists()]
            self.open()
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            for each in made:
                with suppress(OSError):  # it was not created, or is in use already
                    each.rmdir()

    async def write(self, key: str, data: bytes) -> None:
        """Write the file of a key; raises `StoreError`."""
        try:
            await asyncio.to_thread(_keep, self._root, key, data)
        except OSError as error:
            raise self._unwritable(error) from error

    async def read(self, key: str) -> bytes:
        """Return the file of a key; raises `StoreError`, `LostValueError` if there is none."""
        try:
            return await asyncio.to_thread((self._root / key).read_bytes)
        except FileNotFoundError as error:
            todo = "name the store that the run's worker uses"
            raise LostValueError(f"{self.shown} has no file {key}", todo) from error
        except OSError as error:
            wrong = f"{self.shown}: {key} cannot be read: {error.strerror}"
            raise StoreError(wrong, "let the worker and the command read it") from error

    async def delete(self, folder: str) -> int:
        """Delete all files in a folder and return their number; raises `StoreError`."""
        try:
            return await asyncio.to_thread(_delete, self._root, folder)
        except OSError as error:
            wrong = f"files cannot be deleted in {self.shown}: {error.strerror}"
            todo = "name the store that the run's worker uses, and let the command write there"
            raise StoreError(wrong, todo) from error

    def _unwritable(self, error: OSError) -> StoreError:
        wrong = f"{self.shown} cannot be written to: {error.strerror}"
        return StoreError(wrong, "let the worker write there, or choose another with `--store`")


def _delete(root: Path, folder: str) -> int:
    os.scandir(root).close()  # raises if there is no store
    files = [*(root / folder).glob("[!.]*")]  # without what a killed program left
    with suppress(FileNotFoundError):
        shutil.rmtree(root / folder)
    return len(files)


def _keep(root: Path, key: str, data: bytes) -> None:
    place = root / key
    with suppress(FileNotFoundError, PermissionError):
        # A damaged file is written again: the run that needs it would wait for it.
        if place.stat().st_size == len(data) and place.read_bytes() == data:
            # A value that is stored again counts as new for a cleanup by age.
            with suppress(PermissionError):  # another user's worker wrote it
                os.utime(place)
            return
    root.mkdir(0o700, parents=True, exist_ok=True)
    mode = 0o770 if root.stat().st_mode & 0o020 else 0o700
    for folder in reversed(Path(key).parents[:-1]):
        (root / folder).mkdir(mode, exist_ok=True)
    beside = place.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(beside, "xb", opener=partial(os.open, mode=mode & 0o666)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    # The name in the folder, too, is to be on the disk.
    handle = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
