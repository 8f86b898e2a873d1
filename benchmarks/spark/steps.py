"""Moments of a start or of a recovery, taken in the driver and in the tasks, as a table of steps.

The driver's moments are taken around its own functions (``around``). A task writes its moments into a file of
a folder, since it may be killed at any time: when its process was born, when its function was called, which
is after everything was loaded that the function needs, when it had met the others, and when it was done with
the state. All are readings of one monotonic clock, which Linux shares between processes.
"""

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any


class Moments:
    """The moments of one turn, by name; of several with one name the last counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, float] = {}

    def take(self, name: str) -> None:
        """Something has happened now."""
        self.found[name] = monotonic()

    def begin(self) -> None:
        """Forget everything."""
        self.found.clear()
        for old in self.folder.iterdir():
            old.unlink()

    def with_tasks(self) -> dict[str, float]:
        """All moments, with those of the slowest task."""
        found = dict(self.found)
        for path in self.folder.iterdir():
            for line in path.read_text().splitlines():
                name, _, seconds = line.rpartition(" ")
                found[name] = max(found.get(name, 0.0), float(seconds))
        return found

    @contextmanager
    def around(self, owner: Any, name: str, before: str = "", after: str = "") -> Iterator[None]:  # noqa: ANN401
        """Take a moment before and after each call of a function."""
        inner: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(inner)
        def noted(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the function takes
            if before:
                self.take(before)
            try:
                return inner(*given, **named)
            finally:
                if after:
                    self.take(after)

        setattr(owner, name, noted)
        try:
            yield
        finally:
            setattr(owner, name, inner)


def note(folder: str, name: str, seconds: float | None = None) -> None:
    """Write down a moment of this process; now, if nothing else is said."""
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(f"{name} {monotonic() if seconds is None else seconds}\n")


def born() -> float:
    """When this process was started, on the monotonic clock, to a hundredth of a second."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = ticks / os.sysconf("SC_CLK_TCK")
    return monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


def table(turns: list[dict[str, float]], order: list[str]) -> list[tuple[str, float, float]]:
    """For each step its median ms since the step before, and since the first one."""
    first, rows, before = order[0], [], order[0]
    for name in order[1:]:
        has = [turn for turn in turns if name in turn and before in turn]
        if has:
            step = sorted((turn[name] - turn[before]) * 1000 for turn in has)
            since = sorted((turn[name] - turn[first]) * 1000 for turn in has)
            rows.append((name, step[len(step) // 2], since[len(since) // 2]))
            before = name
    return rows
