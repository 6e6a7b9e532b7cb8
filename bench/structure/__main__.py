"""`python -m bench.structure [FOLDER|COMMIT]…`: the size and the call paths of the code.

Static figures are read from the source; call paths are profiled while a run is played on a real
server. `--write` puts the table into `docs/architecture.md`, between its markers.
"""

import argparse
import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import ROOT
from bench.server import embedded
from bench.structure.paths import decision_figures, turn_figures
from bench.structure.source import Figures, static_figures
from bench.structure.table import PAGE, THIS, table, write_table


@contextmanager
def checkout(name: str) -> Iterator[Path]:
    """Yield the folder of a checkout, or of a commit."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", name], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        # The distribution was named `holdfast`: an older commit reads its version.
        metadata = Path(folder) / "holdfast-0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast\nVersion: 0\n")
        yield Path(folder).resolve()


async def figures(name: str) -> Figures:
    """Measure a checkout."""
    with checkout(name) as tree:
        async with embedded() as server:
            decision = await decision_figures(tree, server.client)
        return static_figures(tree) | turn_figures(tree) | decision


async def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("tree", nargs="*", default=["."], help="a folder, or a commit")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args()
    heads = [THIS if name == "." else f"`{name}`" for name in chosen.tree]
    made = table({head: await figures(name) for head, name in zip(heads, chosen.tree, strict=True)})
    print(made, end="")
    if chosen.write:
        write_table(made)


if __name__ == "__main__":
    asyncio.run(main())
