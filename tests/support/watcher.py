"""Ends a server when the process of tests that started it is gone, even if that was killed; also a program.

A server that is not a child, or whose parent has no time to end it, would stay for ever. So a small process
beside it looks whether its own parent is still there, and ends the server by the id in a file if it is not.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.5


def watched(pid_file: Path, folder: Path, by: signal.Signals) -> "subprocess.Popen[bytes]":
    """A process that ends a server, and removes its folder, when this process is gone."""
    told = [str(os.getpid()), str(pid_file), str(folder), str(by.value)]
    return subprocess.Popen([sys.executable, "-I", "-S", __file__, *told], start_new_session=True)


def call_off(watcher: "subprocess.Popen[bytes] | None") -> None:
    """The server was ended by who started it."""
    if watcher is not None:
        watcher.kill()
        watcher.wait()


def main(parent: str, pid_file: str, folder: str, by: str) -> None:
    """Wait for the end of the parent."""
    while os.getppid() == int(parent):
        time.sleep(LOOK_SECONDS)
    with suppress(OSError, ValueError, IndexError):  # it may have ended by itself
        os.kill(int(Path(pid_file).read_text().split()[0]), int(by))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
