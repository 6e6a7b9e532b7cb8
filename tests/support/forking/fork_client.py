"""Python for tests: a command of Holdfast is forked by the fork server, all else is executed.

A copy of this file beside the server's socket is the interpreter. It forwards its arguments,
environment, folder, streams and signals, and ends as the command does; if it is killed, the server
kills the command. It imports little: a start costs 20 ms.
"""

import marshal
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the command line, and end as it ends."""
    words = sys.argv[1:]
    module = words[1:] if words[:1] == ["-P"] else words
    first, second = [*module, "", ""][:2]
    is_ours = first.endswith(".py") or (first == "-m" and second.startswith("holdfast"))
    if not is_ours:
        os.execv(sys.executable, [sys.executable, *words])
    place = os.path.join(os.path.dirname(sys.argv[0]), "socket")  # noqa: PTH118, PTH120
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        order = marshal.dumps((sys.argv, dict(os.environ), os.getcwd()))  # noqa: PTH109
        socket.send_fds(server, [len(order).to_bytes(4)], [0, 1, 2])
        server.sendall(order)
        pid = int.from_bytes(server.recv(4))
        for number in FORWARDED:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        code = os.waitstatus_to_exitcode(int.from_bytes(server.recv(4)))
    if code < 0:
        if -code != signal.SIGKILL:  # which has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
