"""A server of the tests ends with them, also if they are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
SECONDS_MAX = 60
STARTS = """
import pathlib, signal, subprocess, sys
from support.watcher import watched
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
# Its output is a pipe of the test's, which ends when the last process that holds it does.
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
(folder / "pid").write_text(str(server.pid))
watched(folder / "pid", folder, signal.SIGKILL)
print("started", flush=True)
sys.stdin.read()
"""


def test_a_server_ends_when_the_tests_that_started_it_are_killed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, str(folder)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tests:
        assert tests.stdout is not None
        assert tests.stdout.readline() == "started\n"
        tests.send_signal(signal.SIGKILL)
        said, _ = tests.communicate(timeout=SECONDS_MAX)  # when server and watcher have ended
    assert said == ""
    assert not folder.exists()
