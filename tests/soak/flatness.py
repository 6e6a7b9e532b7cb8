"""Whether what a process holds stays the same: the last third of its samples beside the second."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

# What a process may hold more of than before: a part, and a number.
MAX_GROWTH = {
    "memory, MB": (0.05, 2),
    "descriptors": (0.05, 5),
    "threads": (0, 5),
    "sockets": (0.05, 5),
}
Sample = dict[str, float]


def sample(pid: int) -> Sample:
    """Return what a process holds, as Linux counts it."""
    process, kinds = Path(f"/proc/{pid}"), Counter[str]()
    for each in (process / "fd").iterdir():
        try:
            kinds[each.readlink().name.partition(":")[0]] += 1
        except FileNotFoundError:  # it was closed since
            continue
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    memory_kb, threads = (int(status[key].split()[0]) for key in ("VmRSS", "Threads"))
    return dict(
        zip(MAX_GROWTH, (memory_kb / 1024, kinds.total(), threads, kinds["socket"]), strict=True)
    )


def thirds(samples: Sequence[Sample], what: str) -> tuple[float, float]:
    """Return the medians of the second and of the last third."""
    third = len(samples) // 3
    parts = samples[third : 2 * third], samples[2 * third :]
    second, last = (statistics.median(each[what] for each in part) for part in parts)
    return second, last


def growths(samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what has grown beyond its bound."""
    for what, (part, number) in MAX_GROWTH.items():
        second, last = thirds(samples, what)
        if last > second * (1 + part) + number:
            yield f"{what}: {second:.1f}, then {last:.1f}"
