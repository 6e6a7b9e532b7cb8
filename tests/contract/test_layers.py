"""The layers of `docs/architecture.md`: no import points upward."""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "holdfast"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ENGINE = ("workflows", "engine")

# The third-party packages that a package may import.
THIRD_PARTY = {
    "schemas": {"pydantic", "pydantic_core"},
    "validation": {"jsonschema_specifications", "pydantic", "pydantic_core", "re2"},
    "definitions": {"pydantic", "pydantic_core", "temporalio"},
    "runtime": {
        *("pydantic", "temporalio", "google", "httpx", "yaml", "jwt", "cryptography"),
        *("opentelemetry", "aioboto3", "httpx2", "mcp_types"),
    },
    "providers": {
        *("pydantic", "pydantic_core", "temporalio", "httpx"),
        *("botocore", "google", "azure"),
    },
    "catalog": {
        *("pydantic", "temporalio", "httpx", "opentelemetry", "jsonschema", "genai_prices"),
    },
    "engine": {"pydantic"},
    "workflows": {"pydantic", "temporalio"},
    "activities": {
        *("pydantic", "temporalio", "httpx", "jwt", "opentelemetry", "websockets"),
        *("anyio", "mcp", "mcp_types", "httpx2"),
    },
    "hosting": {"temporalio", "httpx"},
    "client": {
        *("pydantic", "pydantic_core", "typing_extensions", "temporalio", "google"),
        *("jwt", "cryptography", "websockets"),
    },
    "evals": {"temporalio", "yaml", "pydantic_evals"},
    "web": {
        *("pydantic", "temporalio", "google", "httpx", "jwt"),
        *("cryptography", "starlette", "uvicorn", "jinja2", "opentelemetry", "mcp", "mcp_types"),
    },
    "cli": {"pydantic", "temporalio", "google", "rich", "jwt", "cryptography"},
    "testing": {"pydantic", "pydantic_core", "temporalio", "google", "httpx", "pytest"},
}
# A decision that uses one of these would differ when it is replayed.
IMPURE = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random"),
    *("secrets", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "uuid"),
}


# Of Temporal's client, what `holdfast.client` does for screens.
TEMPORAL_CALLS = {
    *("start_workflow", "execute_workflow", "get_workflow_handle", "get_workflow_handle_for"),
    *("list_workflows", "count_workflows", "execute_update", "start_update", "workflow_service"),
    *("execute_update_with_start_workflow", "start_update_with_start_workflow"),
}


def layers(heading: str) -> list[str]:
    """The names in the table under a heading of the page, lowest first."""
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)/?` \|", section, re.MULTILINE)


# The modules of the longest chain of imports.
MAX_FLOORS = 12
PACKAGES = layers("Packages, from the bottom up")
SUBPACKAGES = layers("The engine, from the bottom up")


def files(*folders: str) -> list[Path]:
    """The Python modules below some folders of the product."""
    found = (path for folder in folders for path in sorted((PRODUCT / folder).rglob("*.py")))
    # What `holdfast init` writes is a project of its own.
    return [path for path in found if PRODUCT / "cli/template" not in path.parents]


def nodes(path: Path) -> list[ast.AST]:
    """All that a module contains."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def within(*folders: str) -> Iterator[tuple[Path, ast.AST]]:
    """The nodes of the modules below some folders."""
    return ((path, node) for path in files(*folders) for node in nodes(path))


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules that a file imports, each with the name taken from it."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield from (tuple(f"{node.module}.{alias.name}".split(".")) for alias in node.names)


def test_no_import_points_upward() -> None:
    for path in files(*PACKAGES):
        parts = path.relative_to(PRODUCT).with_suffix("").parts
        is_engine = parts[:2] == ENGINE
        for module in imported(path):
            wrong = f"{path} imports {module}"
            if module[:3] == ("holdfast", *ENGINE) and is_engine:
                assert SUBPACKAGES.index(module[3]) <= SUBPACKAGES.index(parts[2]), wrong
            elif module[0] == "holdfast" and len(module) > 1 and module[1] in PACKAGES:
                assert PACKAGES.index(module[1]) <= PACKAGES.index(parts[0]), wrong
                assert not is_engine or module[1] != "workflows", wrong
            elif module[0] not in sys.stdlib_module_names and module[0] != "holdfast":
                assert module[0] in THIRD_PARTY["engine" if is_engine else parts[0]], wrong


def test_no_import_is_circular() -> None:
    """Also for types alone, and inside functions: `imported` lists every import."""
    names = {}
    for path in files(""):
        parts = path.relative_to(PRODUCT.parent).with_suffix("").parts
        names[parts[:-1] if parts[-1] == "__init__" else parts] = path
    graph = {
        name: {
            next(one for one in (module, module[:-1], ()) if one in names or not one)
            for module in imported(path)
        }
        - {name, ()}
        for name, path in names.items()
    }
    TopologicalSorter(graph).prepare()  # raises `CycleError`, which names the modules


def test_clients_import_neither_the_workflows_nor_the_activities() -> None:
    for path in files("client", "web"):
        found = {module[1] for module in imported(path) if module[0] == "holdfast" and module[1:]}
        assert not found & {"workflows", "activities"}, path


def test_the_page_names_every_package() -> None:
    packages = [path.parent.name for path in PRODUCT.glob("*/__init__.py")]
    assert sorted(PACKAGES) == sorted(packages)
    inside = {path.stem for path in (PRODUCT / "workflows/engine").iterdir() if path.stem[0] != "_"}
    assert set(SUBPACKAGES) == inside


def test_screens_use_runs_by_our_client_alone() -> None:
    for path, node in within("cli", "web", "../examples"):
        if isinstance(node, ast.Attribute):
            assert node.attr not in TEMPORAL_CALLS, f"{path}:{node.lineno}"


def test_the_engine_has_no_clock_no_randomness_and_no_io() -> None:
    for path in files("workflows/engine"):
        assert not {module[0] for module in imported(path)} & IMPURE, path


def test_an_engine_class_assigns_only_its_own_fields() -> None:
    for path, node in within("workflows/engine"):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            assert ast.unparse(node.value) in ("self", "cls"), f"{path}:{node.lineno}"


def test_the_engine_stays_in_the_sandbox() -> None:
    for path, node in within("workflows"):
        if isinstance(node, ast.With) and "imports_passed_through" in ast.unparse(node.items[0]):
            assert "holdfast.workflows" not in ast.unparse(node), f"{path}:{node.lineno}"


def test_the_sandbox_passes_through_no_module_that_decides() -> None:
    passed = workflow_runner().restrictions.passthrough_modules
    assert {"holdfast.schemas", "holdfast.activities", "re2", "pydantic"} <= passed
    assert not {"holdfast", "holdfast.workflows"} & passed
    assert not any(module.startswith("holdfast.workflows.") for module in passed)


def test_packages_import_nothing_themselves() -> None:
    for path in files(*PACKAGES):
        if path.name == "__init__.py" and path.parent.name != "testing":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            assert all(isinstance(node, ast.Expr) for node in body), path


def test_the_engine_has_at_most_twelve_floors() -> None:
    modules = {_name(path): path for path in files("workflows/engine")}
    uses = {
        name: {".".join(each[:length]) for each in imported(path) for length in (4, 5, 6)}
        & modules.keys()
        for name, path in modules.items()
    }

    def floor(module: str) -> int:
        return 1 + max(map(floor, uses[module]), default=0)

    floors = {module: floor(module) for module in modules}
    assert max(floors.values()) <= MAX_FLOORS, floors


def _name(path: Path) -> str:
    return ".".join(("holdfast", *path.relative_to(PRODUCT).with_suffix("").parts))
