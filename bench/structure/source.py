"""The source files of a checkout, and the figures that are read from them.

The product is `worker.py` and the Python files of `holdfast/`, without the project that
`holdfast init` writes. A checkout may have its packages in `holdfast/` or, as until 0.1.0, behind
links in it: a path is named relative to `holdfast/` in both cases.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TEMPLATE = "cli/template"
# Environments of other programs, which tests install.
_INSTALLED = {"node_modules", ".venv"}
Figures = dict[str, str]


def packages(tree: Path) -> list[Path]:
    """Return the folders of the product's packages, links resolved."""
    return sorted(path.parent.resolve() for path in (tree / "holdfast").glob("*/__init__.py"))


def files_of_product(tree: Path) -> list[Path]:
    """Return the Python files of the product."""
    found = [path for package in packages(tree) for path in _modules(package)]
    found = [path for path in found if TEMPLATE not in path.as_posix()]
    return [tree / "worker.py", *sorted((tree / "holdfast").glob("*.py")), *found]


def files_of_tests(tree: Path) -> list[Path]:
    """Return the Python files of the tests."""
    return list(_modules(tree / "tests"))


def _modules(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if not _INSTALLED.intersection(path.relative_to(folder).parts):
            yield path


def name_in_package(path: str) -> str:
    """Return a path of a checkout as figures name it: `web/app.py` for `holdfast/web/app.py`."""
    return path.removeprefix("holdfast/")


def count_lines(paths: list[Path]) -> int:
    """Count the lines of files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def static_figures(tree: Path) -> Figures:
    """Read the figures of the source."""
    product = files_of_product(tree)
    folders = Counter(path.parent for path in product)
    functions = used_once = longest = 0
    for path in product:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions += 1
                longest = max(longest, (node.end_lineno or node.lineno) - node.lineno + 1)
                is_private = node.name.startswith("_") and not node.name.startswith("__")
                used_once += is_private and uses[node.name] == 1
    folder, files = folders.most_common(1)[0]
    name = name_in_package(folder.relative_to(tree).as_posix())
    return {
        "lines of product": f"{count_lines(product):,}",
        "lines of tests": f"{count_lines(files_of_tests(tree)):,}",
        "files of product": f"{len(product):,}",
        "files in the largest folder": f"{files} (`{name}`)",
        "functions": f"{functions:,}",
        "private functions with one use": f"{used_once:,} ({used_once / functions:.0%} of all)",
        "longest function, lines": f"{longest}",
    }
