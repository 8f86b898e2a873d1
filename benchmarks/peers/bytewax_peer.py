"""A running count by bytewax: epochs of some rows, each result seen by a sink before the next is read.

    PYTHON benchmarks/peers/bytewax_peer.py ROWS EPOCHS KEYS

PYTHON is the interpreter of an environment that has ``bytewax``; it is no dependency of this project. Keys
are texts, because bytewax keeps state by text. It prints one JSON line, and the counts are checked.
"""

import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from statistics import median
from time import perf_counter, process_time
from typing import Any

import bytewax.operators as op  # type: ignore[import-not-found]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.inputs import DynamicSource, StatelessSourcePartition  # type: ignore[import-not-found]
from bytewax.outputs import DynamicSink, StatelessSinkPartition  # type: ignore[import-not-found]
from bytewax.testing import run_main  # type: ignore[import-not-found]

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
Rows = list[tuple[str, int]]


class EpochsByTurn:
    """What was sent and seen so far, and how long it was from each epoch to the next."""

    def __init__(self, epochs: list[Rows]) -> None:
        self.epochs = epochs
        self.sent = self.missing = 0
        self.began = 0.0
        self.taken: list[float] = []
        self.counts: dict[str, int] = {}

    def next_epoch(self) -> Rows:
        """The next rows, when all results of the last ones were seen; none before that."""
        if self.missing:
            return []
        now = perf_counter()
        if self.sent:
            self.taken.append(now - self.began)
        if self.sent == len(self.epochs):
            raise StopIteration
        rows = self.epochs[self.sent]
        self.sent += 1
        self.missing = len(rows)
        self.began = now
        return rows

    def see(self, rows: Rows) -> None:
        """Results have arrived."""
        self.missing -= len(rows)
        self.counts.update(rows)


class EpochSource(StatelessSourcePartition, DynamicSource):  # type: ignore[misc]
    """The source, and its only partition."""

    def __init__(self, course: EpochsByTurn) -> None:
        self._course = course

    def build(self, *_: Any) -> "EpochSource":  # noqa: ANN401 - names of bytewax
        """Itself."""
        return self

    def next_batch(self) -> Rows:
        """The next rows."""
        return self._course.next_epoch()

    def next_awake(self) -> datetime:
        """At once, also when there are no rows yet: otherwise bytewax would wait for a millisecond."""
        return LONG_AGO


class ResultSink(StatelessSinkPartition, DynamicSink):  # type: ignore[misc]
    """The sink, and its only partition."""

    def __init__(self, course: EpochsByTurn) -> None:
        self._course = course

    def build(self, *_: Any) -> "ResultSink":  # noqa: ANN401 - names of bytewax
        """Itself."""
        return self

    def write_batch(self, items: Rows) -> None:
        """Results have arrived."""
        self._course.see(items)


def main() -> None:
    """Measure."""
    rows, epochs, keys = map(int, sys.argv[1:4])
    drawn = random.Random(17)  # noqa: S311 - rows of a benchmark
    course = EpochsByTurn([[(str(drawn.randrange(keys)), 1) for _ in range(rows)] for _ in range(epochs)])
    flow = Dataflow("count")
    counted = op.stateful_map(
        "count",
        op.stream_input("rows", flow, EpochSource(course)),
        lambda count, _: ((count or 0) + 1, (count or 0) + 1),
    )
    op.output("seen", counted, ResultSink(course))
    began = process_time()
    run_main(flow, epoch_interval=timedelta(0))
    processor = (process_time() - began) / epochs
    if course.counts != Counter(key for each in course.epochs for key, _ in each):
        raise AssertionError("a count is wrong")
    line = {"case": "count", "seconds": median(course.taken), "processor_seconds": processor}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
