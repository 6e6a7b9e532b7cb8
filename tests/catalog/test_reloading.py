"""A changed catalog: when it is read, what of it is taken up, and what is logged. No clock here."""

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog import reload
from holdfast.catalog.catalog_files import folder_signature
from holdfast.catalog.loader import Catalog, CurrentCatalog, load_catalog, reload_catalog
from holdfast.catalog.mcp_tools import ListedTool, lock_text
from holdfast.catalog.reload import STAYS, CatalogReloader, ChangeDetector
from holdfast.catalog.tool_reader import resolve_tool_entry
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.runtime.settings_files.source import Signature, file_signature
from tests.catalog.catalog_folder import Folder
from tests.support.eventually import eventually

AGENT = "---\nmodel: {endpoint: m}\ntools: [look_up]\n---\nBe kind."
AT_ONCE = timedelta(0)


class WatchedFolder:
    """A loaded catalog, and the looks that are taken at its folder."""

    def __init__(self, folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
        self.folder = folder
        self._caplog = caplog
        before = folder_signature(folder.path)
        self.shelf = CurrentCatalog(folder.load())
        self.reloading = CatalogReloader(self.shelf, folder.path, before, folder.modules)

    @property
    def tools(self) -> set[str]:
        return set(self.shelf.catalog.definitions.tools)

    @property
    def agents(self) -> set[str]:
        return set(self.shelf.catalog.agents)

    def look(self, times: int = 1) -> list[str]:
        """Look, and what was logged at it; files without the folder's own path."""
        self._caplog.clear()
        for _ in range(times):
            self.reloading.check_once()
        # The interpreter reports what earlier tests have left, at any time.
        own = [each for each in self._caplog.records if each.name == "holdfast"]
        return [each.getMessage().replace(f"{self.folder.path}/", "") for each in own]

    def settle(self) -> list[str]:
        """See a change, and see that it is still."""
        return self.look(2)

    def settle_reading(self, read: Callable[[Catalog, Path], Catalog]) -> list[str]:
        """Settle, with another function that reloads the catalog."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(reload, "reload_catalog", read)
            return self.settle()

    def refund(self, activity: str, more: str = "") -> None:
        """Write the tool `refund`, run by this activity."""
        self.folder.write("tools/refund.yaml", f"_activity: {activity}\n{more}")


@pytest.fixture
def place(shop: Folder, caplog: pytest.LogCaptureFixture) -> WatchedFolder:
    """The tools `look_up`, of a module, and `pay`, of a file; an agent `desk`."""
    caplog.set_level(logging.INFO, "holdfast")
    shop.write("tools/pay.yaml", "_activity: charge\n")
    shop.write("agents/desk.md", AGENT)
    return WatchedFolder(shop, caplog)


# When a change is over.


@pytest.mark.parametrize(
    ("looks", "over"),
    [
        ("aaaa", []),
        ("abbb", ["b"]),
        ("abcdd", ["d"]),
        ("abab", []),
        ("abaa", []),
        ("abbaa", ["b", "a"]),
        ("bb", ["b"]),
        ("abbcbb", ["b"]),
    ],
)
def test_a_change_is_over_when_it_was_seen_twice_and_only_once(looks: str, over: list[str]) -> None:
    settling = ChangeDetector({"file": "a"})
    found = []
    for look in looks:
        now: Signature = {"file": look}
        if settling.is_settled_change(now):
            found.append(look)
            settling.known = now
    assert found == over


def test_what_changes_in_many_steps_is_taken_up_whole_at_the_end(place: WatchedFolder) -> None:
    for n in range(4):
        place.folder.write(f"tools/step_{n}.yaml", "_activity: charge\n")
        assert place.look() == []
    assert place.tools == {"look_up", "pay"}
    [said] = place.look()
    assert "new: tool `step_0`, tool `step_1`, tool `step_2`, tool `step_3`" in said
    assert {f"step_{n}" for n in range(4)} < place.tools


def test_what_changes_while_it_is_read_is_read_again(place: WatchedFolder) -> None:
    def reading(catalog: Catalog, folder: Path) -> Catalog:
        found = reload_catalog(catalog, folder)
        place.folder.write("tools/second.yaml", "_activity: charge\n")
        return found

    place.folder.write("tools/first.yaml", "_activity: charge\n")
    assert place.settle_reading(reading) == []
    assert place.tools == {"look_up", "pay"}
    [said] = place.settle()
    assert "new: tool `first`, tool `second`" in said


def test_what_comes_and_goes_while_it_is_read_leaves_nothing_unread(place: WatchedFolder) -> None:
    passing = place.folder.path / "tools/passing.yaml"

    def reading(catalog: Catalog, folder: Path) -> Catalog:
        passing.write_text("_activity: charge\n")
        return reload_catalog(catalog, folder)

    place.refund("charge")
    place.settle_reading(reading)
    passing.unlink()
    place.settle()
    assert place.tools == {"look_up", "pay", "refund"}


def test_a_folder_that_is_never_still_is_reported_once(place: WatchedFolder) -> None:
    said = []
    for n in range(2 * reload.MAX_RESTLESS_LOOKS):
        place.folder.write("tools/pay.yaml", "_activity: charge\n" + "#" * n)
        said += place.look()
    assert said == [f"{place.folder.path} keeps changing; it is read when the changes stop"]


def test_what_changed_between_the_start_of_loading_and_the_first_look_is_not_missed(
    place: WatchedFolder, shop: Folder
) -> None:
    before = folder_signature(shop.path)
    shelf = CurrentCatalog(shop.load())
    shop.write("tools/late.yaml", "_activity: charge\n")
    late = CatalogReloader(shelf, shop.path, before, [])
    for _ in range(2):
        late.check_once()
    assert "late" in shelf.catalog.definitions.tools


# What is taken up.


def test_one_line_lists_what_is_new_changed_and_removed(place: WatchedFolder) -> None:
    place.refund("charge")
    place.folder.write("agents/desk.md", AGENT + " And brief.")
    (place.folder.path / "tools/pay.yaml").unlink()
    assert place.settle() == [
        "the catalog has changed; for new runs: new: tool `refund`; changed: agent `desk`; "
        "removed: tool `pay`"
    ]
    assert place.tools == {"look_up", "refund"}
    assert place.shelf.catalog.agents["desk"].instructions == "Be kind. And brief."


def test_a_changed_lock_is_read(place: WatchedFolder) -> None:
    place.folder.write("mcp.lock.json", lock_text({"shop": [ListedTool("find")]}))
    [said] = place.settle()
    assert said.endswith("for new runs: new: locked tool `shop/find`")
    assert place.shelf.catalog.definitions.mcp_lock


def test_tightened_limits_count_for_tools_that_earlier_runs_had(place: WatchedFolder) -> None:
    def require() -> str | None:
        world = replace(place.shelf.catalog.definitions, is_inline=True)
        return resolve_tool_entry({"_tool": "own", "_activity": "charge"}, world).approval.require

    assert require() is None
    place.folder.write("limits.yaml", "approval: {require: always}\n")
    place.settle()
    assert require() == "always"


def test_of_many_names_the_first_are_listed(place: WatchedFolder) -> None:
    for n in range(15):
        place.folder.write(f"tools/tool_{n:02}.yaml", "_activity: charge\n")
    [said] = place.settle()
    assert said.endswith("tool `tool_09` and 5 more")


def test_an_unchanged_definition_is_not_reported(place: WatchedFolder) -> None:
    place.folder.write("tools/pay.yaml", "# The same.\n_activity: charge\n")
    assert place.settle() == []


def test_the_modules_keep_what_they_had_when_they_were_imported(place: WatchedFolder) -> None:
    activities = place.shelf.catalog.python.activities
    module = Path(place.folder.modules[0])
    module.write_text(module.read_text().replace("look_up", "look_down"))
    place.refund("charge")
    place.settle()
    assert place.tools == {"look_up", "pay", "refund"}
    assert place.shelf.catalog.python.activities == activities


# What is not taken up.


def test_what_does_not_load_changes_nothing_and_is_reported_once_with_its_line(
    place: WatchedFolder,
) -> None:
    catalog = place.shelf.catalog
    place.folder.write("tools/fine.yaml", "_activity: charge\n")
    place.folder.write("tools/pay.yaml", "description: Pay.\n_activity: chrge\n")
    problem, stays = place.settle()
    assert problem.startswith("tools/pay.yaml:2: ")
    assert "this worker has no activity `chrge`; did you mean `charge`?" in problem
    assert stays == f"the catalog has changed and does not load; {STAYS}"
    assert place.look(5) == []
    assert place.shelf.catalog is catalog


def test_a_fixed_definition_is_taken_up_and_reported(place: WatchedFolder) -> None:
    place.refund("chrge")
    place.settle()
    place.folder.write("tools/other.yaml", "_activity: charge\n")
    assert place.settle() == [f"the catalog has changed and has the same problems; {STAYS}"]
    assert "other" not in place.tools
    place.refund("charge", "# whole")
    said = "the catalog loads again; for new runs: new: tool `other`, tool `refund`"
    assert place.settle() == [said]


def test_of_many_problems_the_first_are_listed(place: WatchedFolder) -> None:
    for n in range(105):
        place.folder.write(f"tools/t{n:03}.yaml", "_activity: chrge\n")
    said = place.settle()
    assert len(said) == 101
    assert said[-1] == f"the catalog has changed and does not load (and 5 more problems); {STAYS}"


def test_a_missing_folder_changes_nothing_until_it_is_back(place: WatchedFolder) -> None:
    away = place.folder.path.with_name("away")
    place.folder.path.rename(away)
    nowhere, stays = place.settle()[-2:]
    assert nowhere.startswith(f"{place.folder.path}: ")
    assert STAYS in stays
    assert place.agents == {"desk"}
    assert place.tools == {"look_up", "pay"}
    assert place.look(3) == []
    away.rename(place.folder.path)
    assert "the catalog loads again, and is as it was before" in place.settle()


@pytest.mark.parametrize("name", ["tools", "tools/more"])
@pytest.mark.parametrize(
    "error", [PermissionError(13, "Not you"), FileNotFoundError(2, "Gone"), OSError(5, "I/O")]
)
def test_a_folder_that_cannot_be_listed_is_no_empty_one(
    place: WatchedFolder, monkeypatch: pytest.MonkeyPatch, name: str, error: OSError
) -> None:
    place.folder.write("tools/more/fine.yaml", "_activity: charge\n")
    place.settle()
    scandir, error.filename = os.scandir, "elsewhere"

    def listing(folder: Any) -> Any:
        if Path(folder) == place.folder.path / name:
            raise error
        return scandir(folder)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", listing)
        problem = place.settle()[0]
    assert problem == f"tools: it cannot be listed: {error.strerror}; make it a readable folder"
    assert place.tools == {"look_up", "pay", "fine"}


def test_a_folder_with_too_many_files_is_refused_and_soon(
    place: WatchedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.catalog.catalog_files.MAX_FILES", 3)
    for n in range(3):
        place.folder.write(f"tools/more/{n}.txt", "")
    assert place.settle()[0] == "tools: it holds too many files; use at most 3"


# What a change looks like.


def test_a_file_that_replaces_one_of_its_size_and_time_is_a_change(place: WatchedFolder) -> None:
    before = folder_signature(place.folder.path)
    path = place.folder.path / "tools/pay.yaml"
    seen, other = path.stat(), path.with_name("other")
    other.write_text(path.read_text().replace("_activity", "#activity"))
    os.utime(other, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (seen.st_size, seen.st_mtime_ns)
    assert folder_signature(place.folder.path) != before


@pytest.mark.parametrize(
    "name",
    [
        *("tools/.pay.yaml.swp", "tools/.git/x.json", "notes.yaml", "__pycache__/shop.pyc"),
        "tools/tools.log",  # its name is looked at, its content is not
    ],
)
def test_what_is_not_read_is_not_looked_at(place: WatchedFolder, name: str) -> None:
    place.folder.write("tools/tools.log", "One line.\n")
    before = folder_signature(place.folder.path)
    place.folder.write(name, "{}")
    assert folder_signature(place.folder.path) == before


@pytest.mark.parametrize("name", ["tools/more/refund.yaml.txt", "agent/clerk.md"])
def test_a_misplaced_file_is_reported_until_it_is_removed(place: WatchedFolder, name: str) -> None:
    shutil.rmtree(place.folder.path / "agents")
    place.settle()
    place.folder.write(name, AGENT)
    assert "is not read" in place.settle()[0]
    shutil.rmtree((place.folder.path / name).parent)
    assert place.settle() == ["the catalog loads again, and is as it was before"]


def test_a_mounted_folder_whose_link_is_swapped_is_taken_up(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """As a ConfigMap is: files are links through `..data`, which is put in place in one step."""
    caplog.set_level(logging.INFO, "holdfast")
    agents = folder.path / "agents"
    for version, text in (("..one", "One."), ("..two", "Two!")):
        folder.write(f"agents/{version}/desk.md", f"---\nmodel: {{endpoint: m}}\n---\n{text}")
    (agents / "..data").symlink_to("..one")
    (agents / "desk.md").symlink_to("..data/desk.md")
    place = WatchedFolder(folder, caplog)
    (agents / "..new").symlink_to("..two")
    (agents / "..new").replace(agents / "..data")
    assert place.settle() == ["the catalog has changed; for new runs: changed: agent `desk`"]
    assert place.shelf.catalog.agents["desk"].instructions == "Two!"


# What is read at the start, and never again.


def test_a_changed_module_is_reported_once_a_change(place: WatchedFolder) -> None:
    module = Path(place.folder.modules[0])
    for _ in range(2):
        module.write_text(module.read_text() + "# more\n")
        assert place.settle() == ["shop.py has changed: restart the worker to use it"]
        assert place.look(3) == []
    module.unlink()
    said = "cannot be read any more: the worker uses what it read at start"
    assert place.settle() == [f"shop.py {said}"]


def test_without_a_folder_the_other_files_are_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("{}")
    shelf = CurrentCatalog(load_catalog(read_definition=activity_definition))
    alone = CatalogReloader(shelf, None, folder_signature(None), [str(endpoints)])
    endpoints.write_text("{ }")
    for _ in range(2):
        alone.check_once()
    assert caplog.messages == [f"{endpoints} has changed: restart the worker to use it"]


def test_a_file_that_cannot_be_looked_at_is_no_error(tmp_path: Path) -> None:
    signature = file_signature([str(tmp_path / "no"), str(tmp_path)])
    assert signature == {str(tmp_path / "no"): "No such file or directory", str(tmp_path): None}


# In a worker.


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """A thread to look in."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool


async def test_a_look_that_hangs_holds_up_neither_the_worker_nor_its_end(
    place: WatchedFolder, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def hanging() -> None:
        started.set()
        go_on.wait()

    monkeypatch.setattr(place.reloading, "check_once", hanging)
    task = asyncio.create_task(place.reloading.run(AT_ONCE))

    async def hangs() -> bool:
        return started.is_set()

    await eventually(hangs)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    go_on.set()


async def test_a_look_that_fails_is_logged_and_followed_by_the_next(
    place: WatchedFolder,
    monkeypatch: pytest.MonkeyPatch,
    threads: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = []

    def failing_at_first() -> None:
        looks.append("look")
        if len(looks) == 1:
            raise OSError(5, "Input/output error")

    async def looked_again() -> bool:
        return len(looks) > 1

    monkeypatch.setattr(place.reloading, "check_once", failing_at_first)
    task = asyncio.create_task(place.reloading.run(AT_ONCE))
    await eventually(looked_again)
    task.cancel()
    assert caplog.messages == [f"the catalog could not be read; {STAYS}"]


def test_an_unexpected_error_is_raised_once_and_the_next_change_is_taken_up(
    place: WatchedFolder,
) -> None:
    def failing(*_: object) -> Catalog:
        raise RecursionError

    place.refund("charge")
    with pytest.raises(RecursionError):
        place.settle_reading(failing)
    assert place.look(3) == []
    place.refund("charge", "_label: Refund\n")
    place.settle()
    assert "refund" in place.tools
