"""Runs a program of timely's as two processes over loopback, and prints what the first one prints.

    python -m benchmarks.peers.cluster PROGRAM CASE [NAME=NUMBER ...]

Both find each other by timely's own host file. It fails where one of them fails.
"""

import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

PROCESSES: Final = 2


def free_ports(number: int) -> list[int]:
    """Ports of loopback that nobody uses at the moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main() -> int:
    """Run both, and wait for both."""
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        hosts = Path(folder, "hosts")
        hosts.write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(PROCESSES)))
        own = ["--", "-w", "1", "-n", str(PROCESSES), "-h", str(hosts), "-p"]
        started = [
            subprocess.Popen(  # noqa: S603 - the program that the caller names
                [*sys.argv[1:], *own, str(number)], stdout=None if number == 0 else subprocess.DEVNULL
            )
            for number in range(PROCESSES)
        ]
        return max(abs(each.wait()) for each in started)


if __name__ == "__main__":
    sys.exit(main())
