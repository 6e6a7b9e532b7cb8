"""The kustomizations name what there is: files, objects, and places in them.

`test_kubernetes.py` has `kubectl` build them, where there is one; this holds without it.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.reading import KUBERNETES

FILES = sorted(KUBERNETES.rglob("kustomization.yaml"))
BUILT = [path for path in FILES if path.is_relative_to(KUBERNETES / "production")]


def kustomization(file: Path) -> dict[str, Any]:
    """A kustomization, with what a user may switch on in it."""
    text = file.read_text(encoding="utf-8").replace("# For Temporal Cloud: ", "")
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


def objects(file: Path) -> list[dict[str, Any]]:
    """What a kustomization begins with, and those that it names."""
    found: list[dict[str, Any]] = []
    for name in kustomization(file)["resources"]:
        path = file.parent / name
        if path.is_dir():
            found += objects(path / file.name)
        else:
            found += yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return found


def the_one(file: Path, wanted: Mapping[str, str]) -> dict[str, Any]:
    """The object of this kind, and of this name where one is given."""
    [found] = [
        each
        for each in objects(file)
        if each["kind"] == wanted["kind"]
        and wanted.get("name", each["metadata"]["name"]) == each["metadata"]["name"]
    ]
    return found


def at(found: Any, path: str) -> Any:
    """The value at a place: `spec.containers.[name=worker].image`, `labels.[a.b/c]`, `list.0`."""
    for step in re.findall(r"\[[^]]+\]|[^.]+", path):
        name, _, value = step.strip("[]").partition("=")
        if value:
            [found] = [each for each in found if each[name] == value]
        else:
            found = found[int(name) if isinstance(found, list) else name]
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_what_it_is_made_of_is_there(file: Path) -> None:
    parts = kustomization(file)
    named = [*parts.get("resources", []), *parts.get("components", [])]
    named += [name for made in parts.get("configMapGenerator", []) for name in made["files"]]
    assert [name for name in named if not (file.parent / name).exists()] == []


@pytest.mark.parametrize("file", BUILT, ids=lambda file: file.parent.name)
def test_what_it_changes_is_there(file: Path) -> None:
    parts, replaced = kustomization(file), list[Any]()
    for each in parts.get("replacements", []):
        at(the_one(file, each["source"]), each["source"]["fieldPath"])
        for target in each["targets"]:
            one = the_one(file, target["select"])
            replaced += [at(one, path) for path in target["fieldPaths"]]
    written = json.dumps(objects(file))
    assert replaced.count("unset") == written.count('"unset"'), "a place is left unset"
    for image in parts["images"]:
        assert f'"image": "{image["name"]}"' in written
    for component in parts.get("components", []):
        for patch in kustomization(file.parent / component / file.name)["patches"]:
            one = the_one(file, patch["target"])
            for change in yaml.safe_load(patch["patch"]):
                at(one, change["path"].strip("/").rpartition("/")[0].replace("/", "."))
