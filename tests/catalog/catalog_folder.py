"""A catalog in a folder of the test's own, and what a worker would report of it."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.catalog.loader import Catalog, load_catalog
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.runtime.settings_files.file_problems import LoadError


class Folder:
    """Files of one catalog."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.modules: list[str] = []

    def write(self, name: str, text: str) -> Path:
        """Write a file; its text may be indented."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).removeprefix("\n"), encoding="utf-8")
        return path

    def module(self, name: str, text: str) -> Path:
        """Write a Python module of tools."""
        path = self.write(name, text)
        self.modules.append(str(path))
        return path

    def load(self, endpoints: Sequence[str] = ("m",)) -> Catalog:
        """Load the catalog as a worker does."""
        return load_catalog(
            self.path, self.modules, endpoints=endpoints, read_definition=activity_definition
        )

    def problems(self, endpoints: Sequence[str] = ("m",)) -> list[str]:
        """What keeps the catalog from loading, each without the folder's own path."""
        with pytest.raises(LoadError) as refused:
            self.load(endpoints)
        return [str(each).replace(f"{self.path}/", "") for each in refused.value.problems]

    def problem(self) -> str:
        """Return the only problem that keeps the catalog from loading."""
        [problem] = self.problems()
        return problem
