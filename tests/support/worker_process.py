"""A worker as people run it: a process, which can be killed."""

from tests.support.process import ROOT as ROOT
from tests.support.process import Process

READY = "holdfast worker ready"


class WorkerProcess(Process):
    """`python worker.py …`."""

    def __init__(self, address: str, *options: str) -> None:
        super().__init__(READY, str(ROOT / "worker.py"), *options, TEMPORAL_ADDRESS=address)
