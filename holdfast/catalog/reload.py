"""Reload a changed catalog while the worker runs, for new runs: as a whole or not at all.

The folder is checked once a second. Change notifications do not exist on every file system (network
mounts, folders shared with a container), and an editor, a ConfigMap or a deployment replaces files;
comparing signatures works everywhere. A change is loaded if the files stay the same from one check
to the next and during the loading: half of a `git pull` is never loaded.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.catalog.catalog_files import folder_signature
from holdfast.catalog.loader import Catalog, CurrentCatalog, reload_catalog
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import Signature, file_signature
from holdfast.schemas.phrases import first_names

MAX_PROBLEMS_TOLD = 100
MAX_NAMES_TOLD = 10
# A folder that never stops changing is never read: the operator needs a warning.
MAX_RESTLESS_LOOKS = 60
CHANGED = "has changed: restart the worker to use it"
GONE = "cannot be read any more: the worker uses what it read at start"
STAYS = "the previous catalog stays in use"

logger = logging.getLogger("holdfast")


class ChangeDetector:
    """Compare the signatures of files between checks, to find changes that are complete."""

    def __init__(self, known: Signature) -> None:
        self.known: Signature | None = known
        self.restless_looks = 0
        self._seen = known

    def is_settled_change(self, now: Signature) -> bool:
        is_still, self._seen = now == self._seen, now
        self.restless_looks = 0 if is_still else self.restless_looks + 1
        return is_still and now != self.known


class CatalogReloader:
    """Reload the current catalog when the files of its folder change.

    `before` is the signature of the folder before it was loaded, so that no change is missed;
    `once` are the files that are read when the worker starts, and never again.
    """

    def __init__(
        self, shelf: CurrentCatalog, folder: Path | None, before: Signature, once: Iterable[str]
    ) -> None:
        self._shelf = shelf
        self._folder = folder
        self._in_folder = ChangeDetector(before)
        self._once = ChangeDetector(file_signature(once))
        self._told: list[str] = []

    async def run(self, between: timedelta) -> None:
        """Check again and again until the task is cancelled, never on the event loop's thread."""
        while True:
            await asyncio.sleep(between.total_seconds())
            try:
                await asyncio.to_thread(self.check_once)
            except Exception:
                logger.exception("the catalog could not be read; %s", STAYS)

    def check_once(self) -> None:
        """Look at all files once, and reload or report what changed and is complete."""
        known = self._once.known or {}
        stamps = file_signature(known)
        if self._once.is_settled_change(stamps):
            for file, stamp in stamps.items():
                if stamp != known[file]:
                    logger.warning("%s %s", file, GONE if isinstance(stamp, str) else CHANGED)
            self._once.known = stamps
        now = folder_signature(self._folder)
        if self._in_folder.is_settled_change(now):
            self._reload(now)
        elif self._in_folder.restless_looks == MAX_RESTLESS_LOOKS:
            message = "%s keeps changing; it is read when the changes stop"
            logger.warning(message, self._folder)

    def _reload(self, now: Signature) -> None:
        assert self._folder is not None  # a path that does not exist does not change
        self._in_folder.known = now
        catalog: Catalog | None = None
        messages: list[str] = []
        try:
            catalog = reload_catalog(self._shelf.catalog, self._folder)
        except LoadError as error:
            messages = [str(problem) for problem in error.problems]
        if folder_signature(self._folder) != now:
            # The files have changed again, and the loaded ones may be half of a change.
            self._in_folder.known = None
        elif catalog is None:
            if messages == self._told:
                logger.warning("the catalog has changed and has the same problems; %s", STAYS)
                return
            self._told = messages
            for line in messages[:MAX_PROBLEMS_TOLD]:
                logger.warning("%s", line)
            more = len(messages) - MAX_PROBLEMS_TOLD
            also = f" (and {more} more problems)" if more > 0 else ""
            logger.warning("the catalog has changed and does not load%s; %s", also, STAYS)
        else:
            changes = describe_changes(self._shelf.catalog, catalog)
            self._shelf.catalog = catalog
            happened = "loads again" if self._told else "has changed"
            if changes:
                logger.info("the catalog %s; for new runs: %s", happened, changes)
            elif self._told:
                logger.info("the catalog %s, and is as it was before", happened)
            self._told = []


def describe_changes(old: Catalog, new: Catalog) -> str:
    """Describe changes by name: `` new: tool `pay`; removed: agent `desk` ``, or ""."""
    kinds: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "tool": (old.definitions.tools, new.definitions.tools),
        "agent": (old.agents | old.mcp_agents, new.agents | new.mcp_agents),
        "locked tool": (old.definitions.mcp_lock or {}, new.definitions.mcp_lock or {}),
    }
    found: dict[str, list[str]] = {"new": [], "changed": [], "removed": []}
    for kind, (was, now) in kinds.items():
        both = was.keys() & now.keys()
        changed = {name for name in both if was[name] != now[name]}
        parts = {"new": now.keys() - both, "changed": changed, "removed": was.keys() - both}
        for how, names in parts.items():
            found[how] += [f"{kind} `{name}`" for name in sorted(names)]
    return "; ".join(
        f"{how}: {first_names(names, MAX_NAMES_TOLD)}" for how, names in found.items() if names
    )
