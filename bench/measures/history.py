"""History of a run against its turns: this engine beside a plain workflow that passes the messages.

Each works in a process of its own, on one server, interleaved, against one fake model over HTTP,
with the same tool and the same answers.
"""

from bench.measures import turns
from bench.measures.measured import shown
from bench.report import medians
from bench.server import Server
from bench.stage import staged

TURNS = (10, 50, 100)
REPEATS = 3
# By the name of a figure: its title, and by what it is divided to be in the title's unit.
WHAT = {
    "history_bytes": ("history, KB", 1000),
    "events": ("events", 1),
    "actions": ("Actions", 1),
    "wall_seconds": ("wall time, s", 1),
    "cpu_seconds": ("CPU time of the worker, s", 1),
}


async def table(server: Server) -> str:
    """The figures as a Markdown table: medians, and ours divided by the plain workflow's."""
    async with staged(server, ("holdfast", "plain")) as stage:
        rows = await turns.measure(stage, TURNS, REPEATS)
    lines = [
        "| turns | figure | holdfast | plain workflow | ratio |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    for what, (title, unit) in WHAT.items():
        found = medians(rows, what, "turns")
        for wanted in TURNS:
            a, b = (found[name, wanted] / unit for name in ("holdfast", "plain"))
            lines.append(f"| {wanted} | {title} | {shown(a)} | {shown(b)} | {a / b:.3f} |")
    return "\n".join(lines)
