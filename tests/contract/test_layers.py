"""The house: who imports whom. Nothing points the other way.

schemas  ◄── activities        what is done: one conversation with the world each
   ▲              ▲
   └── workflows/engine        what is decided: no clock, no I/O, no Temporal
             ▲    │
         workflows/*.py        the durable shells
                  ▲
              worker.py        registration, graceful stop; hosting: its settings and their
                               loading, its way to Temporal, a server around it
              client.py        a Temporal client like anybody else's; cli: its parts
                               remote: a run as it is seen from outside, and how it is told
                               inbox: its pages, and HTTP for programs without a client
                               storage: what is too large for Temporal, for both of these
                               encryption: what nobody else is to read, for both of these
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosting.sandbox import sandbox

ROOT = Path(__file__).parents[2]
ROOMS = {
    *("schemas", "activities", "workflows", "hosting", "storage", "encryption"),
    *("cli", "remote", "inbox", "worker", "client"),
}

# Of each room: the rooms, and the packages of others, that it may import.
MAY_IMPORT: dict[str, tuple[set[str], set[str]]] = {
    "schemas": (set(), {"pydantic", "pydantic_core", "re2"}),
    "workflows/engine": ({"schemas"}, {"pydantic", "jsonschema", "referencing"}),
    "workflows": ({"schemas", "workflows/engine"}, {"pydantic", "temporalio"}),
    "activities": (
        {"schemas"},
        {
            *("pydantic", "pydantic_core", "temporalio", "httpx", "jsonschema", "referencing"),
            # What a collector is told is made where things are done.
            *("yaml", "jwt", "cryptography", "opentelemetry"),
        },
    ),
    # What speaks with S3 is installed where it is wanted.
    "storage": ({"schemas"}, {"temporalio", "aioboto3"}),
    # Settings are read as the catalog is.
    "encryption": (
        {"schemas", "activities"},
        {"pydantic", "temporalio", "google", "cryptography", "starlette"},
    ),
    "hosting": (
        {"schemas", "workflows", "activities", "storage", "encryption"},
        {"temporalio", "httpx"},
    ),
    "worker": (
        {"schemas", "workflows", "activities", "hosting", "storage", "encryption"},
        {"temporalio", "httpx"},
    ),
    # A run from outside, as the command and the inbox see it.
    "remote": (
        {"schemas", "storage", "encryption"},
        {"pydantic", "temporalio", "google", "jwt", "cryptography"},
    ),
    # What is typed into a form is checked just as the run will check it: by the engine.
    "inbox": (
        {"schemas", "activities", "encryption", "remote", "workflows/engine"},
        {
            *("pydantic", "temporalio", "google", "jsonschema", "referencing", "httpx", "jwt"),
            *("cryptography", "starlette", "jinja2", "authlib", "opentelemetry"),
        },
    ),
    "cli": (
        {"schemas", "storage", "encryption", "remote", "inbox"},
        {
            *("pydantic", "temporalio", "google", "rich", "jwt", "cryptography"),
            *("starlette", "uvicorn"),
        },
    ),
    "client": ({"schemas", "cli", "remote"}, {"temporalio", "rich"}),
}
# A decision that asks one of these is none: it would be another when it is replayed.
IMPURE = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random"),
    *("secrets", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "uuid"),
}


def files() -> Iterator[Path]:
    """Every file of every room."""
    for room in sorted(ROOMS):
        single = ROOT / f"{room}.py"
        yield from [single] if single.exists() else sorted((ROOT / room).rglob("*.py"))


def room_of(path: Path) -> str:
    """The room that a file stands in."""
    return _room(path.relative_to(ROOT).with_suffix("").parts)


def _room(parts: tuple[str, ...]) -> str:
    return "workflows/engine" if parts[:2] == ("workflows", "engine") else parts[0]


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a piece of code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def id_of(path: Path) -> str:
    """A file's name in the tests' names."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", list(files()), ids=id_of)
def test_no_import_points_the_wrong_way(path: Path) -> None:
    room = room_of(path)
    rooms, packages = MAY_IMPORT[room]
    for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
        parts = tuple(module.split("."))
        if parts[0] in ROOMS:
            target = _room(parts)
            is_own = target == room or (room == "workflows" and target == "workflows/engine")
            assert is_own or target in rooms, f"{room} imports {module}"
        elif parts[0] not in sys.stdlib_module_names:
            assert parts[0] in packages, f"{room} imports {module}"


@pytest.mark.parametrize("path", sorted((ROOT / "workflows/engine").glob("*.py")), ids=id_of)
def test_the_engine_has_no_clock_no_chance_and_no_io(path: Path) -> None:
    modules = {module.split(".")[0] for module in imported(ast.parse(path.read_text("utf-8")))}
    assert not modules & IMPURE


@pytest.mark.parametrize("path", sorted((ROOT / "workflows").rglob("*.py")), ids=id_of)
def test_the_engine_is_never_taken_out_of_the_sandbox(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.With) and "imports_passed_through" in ast.unparse(node.items[0]):
            passed = {module.split(".")[0] for part in node.body for module in imported(part)}
            assert "workflows" not in passed


def test_the_sandbox_passes_through_what_is_only_used_and_not_what_decides() -> None:
    passed = sandbox().restrictions.passthrough_modules
    assert {"schemas", "activities", "jsonschema", "pydantic"} <= passed
    assert not any(module.split(".")[0] == "workflows" for module in passed)


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/__init__.py")), ids=id_of)
def test_packages_hold_nothing_themselves(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == ""
