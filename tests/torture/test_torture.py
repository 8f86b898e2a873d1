"""The torture in its short form, in processes; the long form is a program of its own (``run.py``).

Only this finds what needs many failures at moments that nobody has thought of: in the middle of a snapshot,
of a restart, of a publication.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 900  # more than each wait of the story itself, which says what it waited for


def test_under_random_kills_and_stops_every_epoch_is_published_once_and_right() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.run", "--mode=processes", "--workers=2", "--seconds=15"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    report = json.loads(done.stdout)
    assert (report["lost"], report["duplicated"], report["stopped left"]) == (0, 0, 0)
    assert report["restarts"] >= sum(report["done"].values()) - report["done"].get("kill all", 0) >= 1
