"""The verifier process: messages, answers, and kept events.

``main`` reads messages from a socket until the driver is gone, and answers after each read: how far it is,
what it has found, or that it has failed itself. After a finding or a failure it reads no more.

Events are spooled to a file as they are judged, so that a run that is found wrong can be shown as a trace
(``pointstamp.verify.trace``). The file is bounded: of a long generation it holds the last part, and the trace
says so. Nothing here decides what is right; that is ``pointstamp.verify.online``.
"""

import gc
import socket
import struct
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeAlias

import msgspec

from pointstamp.driver.event_reports import decode_events
from pointstamp.verify.abstract_state import BrokenError
from pointstamp.verify.conformance import JUDGED
from pointstamp.verify.online import EpochWalker, Online
from pointstamp.verify.shape import Shape
from pointstamp.verify.snapshot_rules import CommitRules
from pointstamp.verify.trace import Header
from pointstamp.worker.events import Event

SPOOL_BYTES_MAX: Final = 128 * 1024 * 1024
"""The most bytes of a generation's events that are kept on disk."""

WRITTEN_TOGETHER: Final = 100
"""The most events that wait before they are written."""

COLLECT_OBJECTS: Final = 50_000
"""The garbage collector runs after so many new objects: the judge makes many, and hardly any cycles."""

READ_BYTES: Final = 1 << 18
TRACE: Final = "trace"
"""The name of the file, in the folder of the judge, that shows what is wrong."""
_LENGTH: Final = struct.Struct(">I")


class Begin(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A generation begins."""

    flow: str
    shape: Shape
    operators: tuple[int, ...]
    generation: int
    workers: int
    restored: int
    committed: int


class Take(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The next events of a worker."""

    worker: int
    events: bytes


class Cut(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Everybody has told everything that happened before the last cut."""


class CommitTold(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An epoch was committed."""

    epoch: int


class End(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All events have arrived."""


class Stands(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The progress of the verifier."""

    generation: int
    judged: tuple[int, ...]
    waiting: int
    is_over: bool


class Found(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A rule is broken; the spool holds the events up to there."""

    words: str


class JudgeFailed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The judge itself has failed."""

    words: str


Said: TypeAlias = Begin | Take | Cut | CommitTold | End
Answered: TypeAlias = Stands | Found | JudgeFailed

_encode = msgspec.msgpack.Encoder().encode
_decode_said = msgspec.msgpack.Decoder(Said).decode
decode_answered = msgspec.msgpack.Decoder(Answered).decode


def framed(message: Said | Answered) -> bytes:
    """A message as it travels: its length, then what it says."""
    content = _encode(message)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, content: bytes) -> Iterator[bytes]:
        """Take the next bytes; the messages that are complete now."""
        self._bytes += content
        start = 0
        while len(self._bytes) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, start)
            end = start + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            yield bytes(self._bytes[start + _LENGTH.size : end])
            start = end
        del self._bytes[:start]


class Spool:
    """The events of a generation on disk, as lines of a trace; the oldest are dropped if they are many."""

    def __init__(self, path: Path, bytes_max: int = SPOOL_BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._encoder = msgspec.json.Encoder()
        self._events: list[Event] = []
        self._file: IO[bytes] = self._part.open("wb")
        self._size = 0
        self.dropped = 0
        self._counts = (0, 0)

    def add(self, event: Event) -> None:
        """Take one more event."""
        self._events.append(event)
        if len(self._events) >= WRITTEN_TOGETHER:
            self._write()

    def _write(self) -> None:
        lines = self._encoder.encode_lines(self._events)
        self._file.write(lines)
        self._size += len(lines)
        self._counts = (self._counts[0], self._counts[1] + len(self._events))
        self._events.clear()
        if self._size > self._bytes_max // 2:
            # The part before is dropped, so half to all of what is allowed stays.
            self._file.close()
            self._part.replace(self._older)
            self.dropped += self._counts[0]
            self._counts = (self._counts[1], 0)
            self._file = self._part.open("wb")
            self._size = 0

    def save(self, header: Header) -> None:
        """Write what there is as a trace."""
        self._write()
        self._file.close()
        with self._path.open("wb") as file:
            file.write(self._encoder.encode(header) + b"\n")
            for part in (self._older, self._part):
                if part.exists():
                    file.write(part.read_bytes())

    def close(self) -> None:
        """Remove what is not saved."""
        self._file.close()
        for part in (self._older, self._part):
            part.unlink(missing_ok=True)

    @property
    def _part(self) -> Path:
        return self._path.with_suffix(".new")

    @property
    def _older(self) -> Path:
        return self._path.with_suffix(".old")


class Bench:
    """The judge's side: one generation after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commits = CommitRules()
        self._begun: Begin | None = None
        self._spool: Spool | None = None
        self._online: Online | None = None
        self._is_over = self._is_at_rest = False

    def follow(self, said: Said) -> None:
        """Handle a message of the driver; BrokenError if a rule is broken."""
        if isinstance(said, Begin):
            self._begin(said)
            return
        assert self._online is not None, "the driver has said nothing of a generation"
        match said:
            case Take():
                self._online.take(said.worker, decode_events(said.events))
            case Cut():
                self._online.cut()
            case CommitTold():
                self._online.committed(said.epoch)
            case End():
                self._is_at_rest = True
                self._online.end()
                self._is_over = True

    def stands(self) -> Stands | None:
        """The progress of the verifier; None before the first generation."""
        if self._begun is None or self._online is None:
            return None
        online = self._online
        return Stands(self._begun.generation, tuple(online.judged), online.waiting, self._is_over)

    def found(self, rule: BrokenError) -> Found:
        """Put the finding into words, and the events into a file."""
        assert self._begun is not None, "nothing has begun"
        assert self._online is not None
        assert self._spool is not None
        begun, dropped = self._begun, self._spool.dropped
        words = (
            f"{rule.property} ({JUDGED[rule.property]}) in generation {begun.generation}, event "
            f"{sum(self._online.judged)}: {rule}"
        )
        reason = f"{words}; the first {dropped} events are left out" if dropped else words
        ended = "stuck" if self._is_at_rest else "broken off"
        header = Header(
            begun.flow, begun.workers, begun.shape, ended, reason, "start the query again", left_out=dropped
        )
        self._spool.save(header)
        return Found(words)

    def close(self) -> None:
        """Forget the generation, with its events."""
        if self._spool is not None:
            self._spool.close()

    def _begin(self, begun: Begin) -> None:
        self.close()
        self._begun, self._is_over, self._is_at_rest = begun, False, False
        self._spool = Spool(self._path)
        self._commits.begin(begun.workers, begun.operators, begun.restored, begun.committed)
        self._online = Online(
            EpochWalker(begun.shape),
            begun.workers,
            begun.operators,
            restored=begun.restored,
            commits=self._commits,
            record=self._spool.add,
        )


def main(file_number: int, folder: str) -> None:
    """Be the judge at the other end of a socket until the driver is gone."""
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS)
    bench, frames = Bench(Path(folder, TRACE)), Frames()
    with socket.socket(fileno=file_number) as connection, suppress(ConnectionError):
        while content := connection.recv(READ_BYTES):
            try:
                for frame in frames.add(content):
                    bench.follow(_decode_said(frame))
            except BrokenError as rule:
                connection.sendall(framed(bench.found(rule)))
                return
            except Exception:
                connection.sendall(framed(JudgeFailed(traceback.format_exc())))
                return
            stands = bench.stands()
            if stands is not None:
                connection.sendall(framed(stands))
