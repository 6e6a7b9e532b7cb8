"""`python -m bench.structure [TREE|COMMIT]…`: the size and the call paths of the code.

Static figures are read from the source; call paths are profiled while a run is played on a real
server. `--write` puts the table into `docs/architecture.md`, between its markers.
"""

import argparse
import ast
import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client, WorkflowHandle

from bench.process import ROOT
from bench.server import embedded

PAGE = ROOT / "docs/architecture.md"
MARKS = re.compile(r"(?<=<!-- structure -->\n).*?(?=<!-- /structure -->)", re.DOTALL)
PROFILE = ROOT / "bench/structure_profile.py"
# The packages before they were listed in `docs/architecture.md`.
OLD_PACKAGES = (
    *("activities", "cli", "encryption", "hosting", "inbox", "remote", "schemas", "storage"),
    *("workflows", "worker.py", "client.py"),
)
DECIDING = ("workflows/", "schemas/", "validation/")
AGENT = {
    "name": "desk",
    "model": {"endpoint": "script", "name": "script"},
    "tools": [
        {"_tool": "pay", "properties": {"amount": {"type": "number"}}, "_sideEffects": True}
        | {"_activity": "pay"}
    ],
}
SCRIPT = "[{calls: [{tool: pay, arguments: {amount: 20}}]}, {text: Done.}]"
TOOLS = (
    "from temporalio import activity\n\n\n"
    "@activity.defn\nasync def pay(arguments: dict) -> str:\n    return 'paid'\n"
)
PATIENCE_SECONDS = 60
Figures = dict[str, str]


def packages(tree: Path) -> list[str]:
    """Return the folders and files of the product."""
    page = tree / "docs/architecture.md"
    if not page.exists():
        return [name for name in OLD_PACKAGES if (tree / name).exists()]
    section = page.read_text(encoding="utf-8").split("## Packages, from the bottom up")[1]
    names = re.findall(r"^\| `(\w+)/` \|", section.split("\n## ")[0], re.MULTILINE)
    return [*names, "holdfast/__init__.py", "holdfast/__main__.py", "worker.py"]


def modules(tree: Path, names: list[str]) -> list[Path]:
    """Return the Python files of folders and files, tests' stored data aside."""
    found = [tree / name for name in names if name.endswith(".py")]
    return found + [path for name in names for path in sorted((tree / name).rglob("*.py"))]


def lines(paths: list[Path]) -> int:
    """Count the lines of files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def static(tree: Path) -> Figures:
    """Read the figures of the source."""
    product, tests = modules(tree, packages(tree)), modules(tree, ["tests"])
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
    largest = folders.most_common(1)[0]
    return {
        "lines of product": f"{lines(product):,}",
        "lines of tests": f"{lines(tests):,}",
        "files of product": f"{len(product):,}",
        "files in the largest folder": f"{largest[1]} (`{largest[0].relative_to(tree)}`)",
        "functions": f"{functions:,}",
        "private functions with one use": f"{used_once:,} ({used_once / functions:.0%} of all)",
        "longest function, lines": f"{longest}",
    }


def command(tree: Path, out: Path, *words: str) -> list[str]:
    """Return the command that profiles a program of a checkout."""
    return [sys.executable, "-P", str(PROFILE), str(tree), str(out), *words]


def read(out: Path, only: tuple[str, ...]) -> str:
    """Take what was recorded: modules and functions."""
    every = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    found = [each for each in every if each[0].startswith(only) and each[0].endswith(".py")]
    assert found, f"{out.stem} recorded nothing: is a name of structure_profile.py outdated?"
    return f"{len({file for file, _ in found})} modules, {len(found)} functions"


def turn(tree: Path, folder: Path) -> Figures:
    """Profile one turn with one call, from the answer to the log."""
    out = folder / "turn.json"
    subprocess.run(command(tree, out, "turn"), cwd=tree, env=environment(tree), check=True)
    return {"one tool call, from answer to log": read(out, DECIDING)}


def environment(tree: Path) -> dict[str, str]:
    """Return an environment in which the checkout is imported, and nothing else of this one."""
    home = str(Path(sys.executable).parent)
    return {"PYTHONPATH": str(tree), "PATH": f"{home}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


@asynccontextmanager
async def program(
    tree: Path, folder: Path, ready: str, client: Client, *words: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a profiled program; yield it and the line with which it is ready."""
    environ = environment(tree) | {
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "HOME": str(folder),
    }
    process = await asyncio.create_subprocess_exec(
        *command(tree, folder / f"{words[0]}.json", *words),
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = ""
        while ready not in line:
            line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS)).decode()
            assert line, f"{words[0]} of {tree} ended"
        yield process, line
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def recorded(process: asyncio.subprocess.Process, out: Path, only: tuple[str, ...]) -> str:
    """Have a program write what it recorded, and read it."""
    process.send_signal(signal.SIGUSR2)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await asyncio.to_thread(out.exists):
            await asyncio.sleep(0.05)
    return read(out, only)


class Form(HTMLParser):
    """The forms of a page: the address and the hidden fields of each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a form or a hidden field."""
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((found.get("action", ""), {}))
        elif self.forms and tag == "input" and found.get("type") == "hidden":
            self.forms[-1][1][found["name"]] = found.get("value", "")

    def approving(self) -> tuple[str, dict[str, str]]:
        """Return the address and the fields with which the page approves."""
        for action, hidden in self.forms:
            if "approve" in hidden.values():
                return action, hidden
        raise AssertionError(f"the page has no form that approves: {self.forms}")


async def waiting(client: Client, run: str) -> WorkflowHandle[Any, Any]:
    """Start a run, and return it when its call is pending."""
    request = {"agent": AGENT, "input": "Pay."}
    handle = await client.start_workflow("AgentWorkflow", request, id=run, task_queue="holdfast")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await handle.query("approvals"):
            await asyncio.sleep(0.1)
    return handle


async def decisions(tree: Path, folder: Path) -> Figures:
    """Profile a decision by signal, and one on the inbox's page."""
    (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    (folder / "endpoints.yaml").write_text("script: {provider: script, file: script.yaml}\n")
    words = ("--tools", "tools.py", "--endpoints", "endpoints.yaml")
    product = tuple(packages(tree))
    async with (
        embedded() as server,
        program(tree, folder, "worker ready", server.client, "worker", *words) as (worker, _),
        program(tree, folder, "inbox ready", server.client, "inbox", "--port", "0") as (
            inbox,
            line,
        ),
    ):
        signalled = await waiting(server.client, "signalled")
        await signalled.signal("approve", {"callId": "t1c1", "decision": "approve"})
        await signalled.result()
        by_signal = await recorded(worker, folder / "worker.json", DECIDING)

        posted = await waiting(server.client, "posted")
        link = httpx.URL(line.split("ready: ")[1].strip())
        base = f"http://{link.host}:{link.port}"
        headers = {"accept": "text/html", "origin": base}
        async with httpx.AsyncClient(base_url=base, headers=headers) as browser:
            await browser.get(link, follow_redirects=True)
            inbox.send_signal(signal.SIGUSR1)
            page = await browser.get("/waiting/posted/t1c1", follow_redirects=True)
            shown = await recorded(inbox, folder / "inbox.json", product)
            action, fields = Form(page.raise_for_status().text).approving()
            inbox.send_signal(signal.SIGUSR1)
            sent = await browser.post(action or str(page.url), data=fields)
            assert sent.is_success or sent.has_redirect_location, sent.text
            by_page = await recorded(inbox, folder / "inbox.json", product)
        await posted.result()
    return {
        "a decision, from its signal to its activity": by_signal,
        "page of a call": shown,
        "POST of its decision": by_page,
    }


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
        yield Path(folder).resolve()


async def figures(name: str) -> Figures:
    """Measure a checkout."""
    with checkout(name) as tree, tempfile.TemporaryDirectory() as folder:
        return {
            **static(tree),
            **turn(tree, Path(folder)),
            **await decisions(tree, Path(folder)),
        }


def table(columns: dict[str, Figures]) -> str:
    """Return the table, in Markdown."""
    heads = list(columns)
    rows = [
        ["", *("this version" if head == "." else f"`{head}`" for head in heads)],
        ["---", *("---:" for _ in heads)],
    ]
    rows += [
        [what, *(columns[head][what] for head in heads)] for what in next(iter(columns.values()))
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


async def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("tree", nargs="*", default=["."], help="a folder, or a commit")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args()
    made = table({name: await figures(name) for name in chosen.tree})
    print(made, end="")
    if chosen.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(MARKS.sub(lambda _: made, page), encoding="utf-8")


if __name__ == "__main__":
    assert shutil.which("git")
    asyncio.run(main())
