"""The image's HEALTHCHECK: whether what runs in this container, a worker or an inbox, is well.

A worker answers at `HOLDFAST_HEALTH`, an inbox on its port. Whichever listens is asked.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException
from typing import Final

INBOX: Final = ("127.0.0.1", 8235, "/health")
TIMEOUT_SECONDS: Final = 5


def places() -> list[tuple[str, int, str]]:
    """Where to ask: host, port and path."""
    host, _, port = os.environ.get("HOLDFAST_HEALTH", "").rpartition(":")
    own = "127.0.0.1" if host.strip("[]") in ("", "0.0.0.0", "::") else host.strip("[]")
    return [(own, int(port), "/ready"), INBOX] if port else [INBOX]


def main() -> int:
    """0 where one of them is well; else 1, and what each said."""
    for host, port, path in places():
        asking = HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        try:
            asking.request("GET", path)
            answer = asking.getresponse()
            said = f"{answer.status} {answer.read(200).decode('utf-8', 'replace').strip()}"
            if answer.status == 200:
                print(said)
                return 0
        except (OSError, HTTPException) as error:
            said = f"nobody answers: {error}"
        finally:
            asking.close()
        print(f"{host}:{port}{path}: {said}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
