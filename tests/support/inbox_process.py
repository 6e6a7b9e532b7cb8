"""An inbox as people run it: a process, which can be killed, on a port that stays the same."""

import socket

from tests.support.process import Process

READY = "inbox ready: "
# What keeps those signed in who were, through any end of the process.
SECRET = "a-secret-that-all-instances-share"


class InboxProcess(Process):
    """`holdfast inbox`; `link` is what it prints to sign in by."""

    def __init__(self, address: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        super().__init__(
            READY,
            *("-m", "holdfast", "inbox", "--port", str(port), "--by", "ann"),
            TEMPORAL_ADDRESS=address,
            HOLDFAST_INBOX_SECRET=SECRET,
        )
        self.url = f"http://127.0.0.1:{port}"
        self.link = ""

    def start(self) -> str:
        """Start it, and wait until it answers; its link."""
        self.link = super().start()
        return self.link
