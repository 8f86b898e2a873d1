"""A driver as a program, which can be stopped in the middle of anything and continued later.

``python -m support.drivers FOLDER PROCESSES MOMENT`` counts the words of the files that arrive in FOLDER/in,
on two workers: in so many processes of their own, or in this one with 0. It says each epoch that it has seen
published, and how it ended. At its MOMENT it stops itself, by a signal that nothing can catch; whoever has
started it sees that, and nothing has to be timed. The moments are "before the journal" knows of the second
commit, "before it publishes" that commit and "after it has published" it; any other word is never.
"""

import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

import pointstamp as ps
from pointstamp.connectors.sink import Publisher, Sink, Staged, Writer, complete_publisher
from pointstamp.errors import PointstampError
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Content

SILENCE_SECONDS: Final = 2.0
"""Workers in processes take a driver for dead that is stopped for so long, and end."""

LOOK_SECONDS: Final = 0.02


def stop_itself() -> None:
    """Returns when somebody lets this process continue."""
    os.kill(os.getpid(), signal.SIGSTOP)


@dataclass(frozen=True)
class StoppingSink:
    """Another sink, whose driver stops itself at the second commit."""

    inner: Sink
    moment: str

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "StoppingSink":
        return StoppingSink(self.inner.for_query(query, schemas), self.moment)

    def writer(self, worker: int, generation: int) -> Writer:
        return self.inner.writer(worker, generation)

    def publisher(self) -> "StoppingPublisher":
        return StoppingPublisher(self.inner.publisher(), self.moment)


@dataclass(frozen=True)
class StoppingPublisher:
    """Stops its process before or after commit 1 becomes visible."""

    inner: Publisher
    moment: str

    def begin(self) -> None:
        self.inner.begin()

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        if number == 1 and self.moment == "before it publishes":
            stop_itself()
        self.inner.publish(number, epochs_through, staged)
        if number == 1 and self.moment == "after it has published":
            stop_itself()

    def check_outputs(self, before: Collection[str]) -> None:
        complete_publisher(self.inner).check_outputs(before)

    def published_through(self) -> int | None:
        return self.inner.published_through()

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        self.inner.discard(generation, keep)


def stop_before_the_journal_knows_of_commit_1(number: int) -> None:
    """Let this process stop itself when the journal's entry of this number is about to be written."""
    create: Callable[[LocalStorage, str, Content], None] = LocalStorage.create

    def stopping(self: LocalStorage, name: str, content: Content) -> None:
        if name.startswith("journal/") and int(name.split("/")[1].split(".")[0]) == number:
            stop_itself()
        create(self, name, content)

    LocalStorage.create = stopping  # type: ignore[method-assign]


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(folder: Path, processes: int, moment: str) -> None:
    """Count words until the folder has a file ``end``, or until this driver has been replaced."""
    if moment == "before the journal":
        # 0 and 1 are the generation and the flow, 2 and 3 the first tick and commit; then they are one entry.
        stop_before_the_journal_knows_of_commit_1(4)
    flow = ps.Dataflow("words")
    flow.output("counts", flow.stream_input("words", "word string").group_by("word", running=True).count())
    query = flow.start(
        words=ps.io.files(folder / "in"),
        checkpoint=str(folder / "c"),
        output=StoppingSink(ps.io.ParquetSink(str(folder / "o")), moment),
        workers=2,
        processes=processes or None,
        options=ps.QueryOptions(
            silence_seconds_max=SILENCE_SECONDS,
            restarts=ps.RestartPolicy(restarts_max=50, pause_seconds=0.01),
        ),
    )
    seen = -1
    try:
        while not query.await_termination(LOOK_SECONDS):
            if query.epoch > seen:
                seen = query.epoch
                say("published", seen)
            if (folder / "end").exists():
                query.stop()
                break
        say("ended")
    except PointstampError as error:
        say("failed", type(error).__name__, error)
    finally:
        query.stop(finish=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
