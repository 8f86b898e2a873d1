"""A measurement in a process of its own, with a limit of time and one of memory, as an outcome of its own.

A session is a process that was started here with all that it starts in turn, such as a JVM or workers: the
system knows them by the session's number. Memory is that of all of them together, and so is the time of the
processor; what is over a limit is ended, all of it and nothing else.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Literal

from benchmarks.figures import Figures, lines_in

Outcome = Literal["done", "timed out", "too large", "failed"]

_LOOK_SECONDS = 0.2
_END_SECONDS_MAX = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """How long a session may take, and how much memory its processes may have together."""

    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Ended:
    """How a session ended, the lines of figures that it printed, its last words, and its most memory."""

    outcome: Outcome
    lines: list[Figures]
    said: str
    peak_megabytes: float


def run_limited(command: Sequence[str], limits: Limits, **environment: str) -> Ended:
    """Run a command as a session within limits."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(  # noqa: S603 - commands of our own
            command, stdout=out, stderr=errors, start_new_session=True, env={**os.environ, **environment}
        )
        try:
            over, peak = _watch(child, limits)
        finally:
            _end(child)
        out.seek(0)
        errors.seek(0)
        outcome: Outcome = over or ("failed" if child.returncode else "done")
        return Ended(outcome, lines_in(out.read()), errors.read()[-2000:], peak)


def processor_seconds(session: int | None = None) -> float:
    """What the processes of a session have had of the processor so far; of this one, if none is named."""
    wanted = os.getsid(0) if session is None else session
    return sum(sum(map(int, fields[11:15])) for fields in _processes(wanted)) / _TICKS


def _watch(child: "subprocess.Popen[bytes]", limits: Limits) -> tuple[Outcome | None, float]:
    """Wait for the end; the limit that was broken, if any, and the most memory that was seen."""
    until, peak = monotonic() + limits.seconds, 0.0
    while child.poll() is None:
        peak = max(peak, sum(int(fields[21]) for fields in _processes(child.pid)) * _PAGE / 1e6)
        if peak > limits.megabytes:
            return "too large", peak
        if monotonic() > until:
            return "timed out", peak
        sleep(_LOOK_SECONDS)
    return None, peak


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End every process of the session that is still there."""
    for path in list(Path("/proc").glob("[0-9]*")):
        fields = _fields(path)
        if fields and int(fields[3]) == child.pid:
            with suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)
    child.wait()
    until = monotonic() + _END_SECONDS_MAX
    while monotonic() < until and any(fields[0] != "Z" for fields in _processes(child.pid)):
        sleep(0.01)


def _processes(session: int) -> Iterator[list[str]]:
    for path in Path("/proc").glob("[0-9]*"):
        fields = _fields(path)
        if fields and int(fields[3]) == session:
            yield fields


def _fields(process: Path) -> list[str]:
    """What the system says of a process after its name, from its state on; nothing of one that is gone."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
