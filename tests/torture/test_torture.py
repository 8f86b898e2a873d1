"""The torture in its short form, in processes and on Spark; the long form is a program (``run.py``).

Only this finds what needs many failures at moments that nobody has thought of: in the middle of a snapshot,
of a restart, of a publication.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 900  # more than each wait of the story itself, which says what it waited for


def tortured(*arguments: str) -> dict[str, Any]:
    """The report of a torture, run as the program that it is."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.run", "--workers=2", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert (report["lost"], report["duplicated"], report["stopped left"]) == (0, 0, 0)
    return report


def test_under_random_kills_and_stops_every_epoch_is_published_once_and_right() -> None:
    report = tortured("--mode=processes", "--seconds=15")
    assert report["restarts"] >= sum(report["done"].values()) - report["done"].get("kill all", 0) >= 1


@pytest.mark.spark
@pytest.mark.long
def test_on_two_executors_of_spark_too() -> None:
    report = tortured("--mode=local-cluster", "--seconds=20")
    assert report["restarts"] >= 1
    assert report["rows"] > 0
