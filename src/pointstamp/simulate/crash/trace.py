"""Traces of runs with crashes, by generation, as JSON lines.

The first line is the header: the shape of the flow, how many workers, how the run ended, up to which epoch it
was published, and the command that repeats it. Each further line is a generation and what happened in it. A
trace is enough to explain the run (``pointstamp explain``); what was published is not in it.
"""

from pathlib import Path
from typing import Final

import msgspec

from pointstamp.errors import UsageError
from pointstamp.judge.shape import Shape, Walker
from pointstamp.simulate.crash.events import Happened, WorldEvent
from pointstamp.simulate.crash.explaining import Explained, explain_run
from pointstamp.worker.events import Event

FORMAT: Final = "pointstamp crashes 2"


class CrashHeader(msgspec.Struct, frozen=True):
    """The header of a trace: everything known before the first event."""

    flow: str
    workers: int
    shape: Shape
    ended: str
    reason: str
    replay: str
    published_through: int
    format: str = FORMAT
    since: int = -1
    """The epoch of the savepoint that the query began with."""


class CrashTrace(msgspec.Struct, frozen=True):
    """A run with crashes as it is saved."""

    header: CrashHeader
    happened: tuple[Happened, ...]

    def explained(self) -> Explained:
        """The failure-free run that explains it, judged."""
        return explain_run(
            Walker(self.header.shape),
            self.header.workers,
            self.happened,
            committed=self.header.published_through,
            is_complete=self.header.ended == "complete",
            since=self.header.since,
        )


def save_crashes(trace: CrashTrace, path: Path) -> None:
    """Write a trace to a file."""
    encode = msgspec.json.encode
    path.write_bytes(b"\n".join([encode(trace.header), *map(encode, trace.happened), b""]))


def load_crashes(path: Path) -> CrashTrace:
    """Read a trace from a file; UsageError if it holds none."""
    try:
        first, _, rest = path.read_bytes().partition(b"\n")
        header = msgspec.json.decode(first, type=CrashHeader)
        decode = msgspec.json.Decoder(tuple[int, Event | WorldEvent]).decode
        happened = tuple(Happened(*decode(line)) for line in rest.split(b"\n")[:-1])
    except OSError as error:
        raise UsageError(f"{path} cannot be read as a trace: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{path} is not a trace of a run with crashes: {error}. Write one with pointstamp simulate "
            "FLOW.py --crashes 0-4 --trace FILE."
        ) from error
    if header.format != FORMAT:
        raise UsageError(
            f"{path}: expected format {FORMAT!r}, got {header.format!r}. Read it with the "
            "version that wrote it."
        )
    return CrashTrace(header, happened)


def has_crashes(path: Path) -> bool:
    """Whether a file begins as a trace of a run with crashes does."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.readline(), type=_Formatted).format == FORMAT
    except (OSError, msgspec.MsgspecError):
        return False


class _Formatted(msgspec.Struct):
    """The first line of any trace."""

    format: int | str = 0
