"""The sizes of the code: files in a folder, lines in a package."""

from collections import Counter

from bench.structure.source import count_lines, files_of_product, files_of_tests
from tests.support.process import ROOT

MAX_FILES = 14
MAX_ENGINE_LINES = 400
# The lines of Python in each package, and a percent.
MAX_LINES = {
    "schemas": 6_173,
    "validation": 2_844,
    "runtime": 7_437,
    "providers": 5_824,
    "definitions": 602,
    "catalog": 3_882,
    "workflows": 16_042,
    "activities": 6_421,
    "hosting": 3_737,
    "client": 5_591,
    "evals": 602,
    "web": 12_154,
    "cli": 3_715,
    "testing": 586,
}
WHAT_TO_DO = (
    "delete what is not needed, or move it to the package that owns it; raise the bound"
    " in a commit that says why"
)


def test_a_folder_has_at_most_fourteen_files() -> None:
    folders = Counter(path.parent for path in [*files_of_product(ROOT), *files_of_tests(ROOT)])
    large = {
        str(folder.relative_to(ROOT)): files
        for folder, files in folders.items()
        if files > MAX_FILES
    }
    assert not large, f"{large}: move the modules of one subject into a folder of their own"


def test_a_package_has_at_most_its_bound_of_lines() -> None:
    lines = dict.fromkeys(MAX_LINES, 0)
    for path in files_of_product(ROOT):
        if path.parent not in (ROOT, ROOT / "holdfast"):
            lines[path.relative_to(ROOT / "holdfast").parts[0]] += count_lines([path])
    over = [
        f"holdfast/{name} has {found} lines; at most {MAX_LINES[name]}"
        for name, found in lines.items()
        if found > MAX_LINES[name]
    ]
    assert not over, f"{'; '.join(over)}: {WHAT_TO_DO}"


def test_a_module_of_the_engine_has_at_most_its_bound_of_lines() -> None:
    engine = (ROOT / "holdfast" / "workflows" / "engine").rglob("*.py")
    lines = {str(path.relative_to(ROOT)): count_lines([path]) for path in engine}
    assert {name: found for name, found in lines.items() if found > MAX_ENGINE_LINES} == {}
