"""Keys, and the file that names them, as an operator writes it."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from holdfast.runtime.encryption.key_ring import AesKey, KeyRing

OLD, NEW = "2026-01", "2026-08"
SECRETS = {OLD: bytes(range(32)), NEW: bytes(range(100, 132))}


def written(id: str) -> str:
    """A key as it is in a variable."""
    return base64.b64encode(SECRETS[id]).decode()


def ring(*ids: str) -> KeyRing:
    """These keys, the newest first."""
    return KeyRing([AesKey(id, SECRETS[id]) for id in ids])


def key_file(folder: Path, ids: Sequence[str]) -> Path:
    """A file `encryption.yaml` whose keys are in files beside it."""
    entries = [{"id": id, "file": f"{id}.key"} for id in ids]
    for id in ids:
        (folder / f"{id}.key").write_text(f"{written(id)}\n")
    path = folder / "encryption.yaml"
    path.write_text(json.dumps({"keys": entries}))
    return path
