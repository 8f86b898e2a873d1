"""The processes of ``support.store_drivers``, from the side of a test that starts them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TESTS: Final = str(Path(__file__).parents[1])
SECONDS_MAX: Final = 300


def driver(*arguments: object, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """A process of ``support.store_drivers``."""
    return subprocess.Popen(
        [sys.executable, "-m", "support.store_drivers", *map(str, arguments)],
        env={**os.environ, **(environment or {}), "PYTHONPATH": TESTS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: "subprocess.Popen[str]") -> str:
    """What it says next."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def race(address: str, rounds: int, environment: Mapping[str, str] | None = None) -> None:
    """Let two processes create the same objects at the same instant: exactly one wins each."""
    racers = [driver("race", address, rounds, environment=environment) for _ in range(2)]
    assert [line(each) for each in racers] == ["ready", "ready"]
    for number in range(rounds):
        for each in racers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        assert sorted(line(each) for each in racers) == ["lost", "won"], number
    for each in racers:
        each.communicate(timeout=SECONDS_MAX)
        assert each.returncode == 0
