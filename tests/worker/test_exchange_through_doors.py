"""An exchange that stands before a door of a loop is made behind it, where the rows are read.

Doors (enter, leave, feedback, delay) do no work, so an exchange that was asked for before one must travel
with the stream. Where it is lost, rows stay at the worker where they are, and an operator that keeps
something by key sees parts of a key on several workers. Each test asks a row behind the door at which worker
it is.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps

KEYS = range(12)
ROWS = [pa.table({"key": [(key + shift) % 12 for key in KEYS]}) for shift in range(6)]
"""The same keys in each epoch, in another order, so that they begin at other workers."""


class Where:
    """Sends each row with the worker that has it; in a loop only what has come round once, if asked."""

    outputs = "key long, worker long"

    def __init__(self, rounds: int = 0) -> None:
        self.rounds = rounds

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if context.time[-1] >= self.rounds or len(context.time) == 1:
            context.send([{"key": key, "worker": context.worker} for key in batch["key"].to_pylist()])


def where(stream: ps.Stream, rounds: int = 0) -> ps.Stream:
    made: ps.Stream = ps.operator("where", Where(rounds), rows=stream)
    return made


def entered(flow: ps.Dataflow, rows: ps.Stream) -> ps.Stream:
    with rows.loop() as loop:
        inside = loop.enter(rows.exchange("key"))
        never = loop.variable("key long")
        loop.feedback(never, never.filter(lambda batch: [False] * batch.num_rows))
        return loop.leave(where(inside))


def fed_back(flow: ps.Dataflow, rows: ps.Stream) -> ps.Stream:
    with rows.loop(max_rounds=2, at_limit="stop") as loop:
        again = loop.variable("key long")
        loop.feedback(again, loop.enter(rows).exchange("key"))
        return loop.leave(where(again, 1))


def left(flow: ps.Dataflow, rows: ps.Stream) -> ps.Stream:
    with rows.loop() as loop:
        inside = loop.enter(rows)
        never = loop.variable("key long")
        loop.feedback(never, never.filter(lambda batch: [False] * batch.num_rows))
        out = loop.leave(inside.exchange("key"))
    return where(out)


def delayed(flow: ps.Dataflow, rows: ps.Stream) -> ps.Stream:
    return where(rows.exchange("key").delay(1))


def fed_to_the_next_epoch(flow: ps.Dataflow, rows: ps.Stream) -> ps.Stream:
    later = flow.variable("key long", ps.timely.delay(1))
    flow.feedback(later, rows.exchange("key"))
    return where(later)


@pytest.mark.parametrize("way", [entered, fed_back, left, delayed, fed_to_the_next_epoch])
@pytest.mark.parametrize("workers", [2, 3])
def test_an_exchange_before_a_door_brings_each_key_to_one_worker(
    way: Callable[[ps.Dataflow, ps.Stream], ps.Stream], workers: int
) -> None:
    flow = ps.Dataflow("doors")
    flow.output("where", way(flow, flow.stream_input("rows", "key long")))
    found: dict[int, set[int]] = {}
    results: Any = flow.run({"rows": ROWS}, workers=workers)["where"]
    count = 0
    for epoch in results:
        for row in results[epoch].to_pylist():
            found.setdefault(row["key"], set()).add(row["worker"])
            count += 1
    assert count == len(KEYS) * len(ROWS)
    assert {key: len(at) for key, at in found.items()} == dict.fromkeys(KEYS, 1)
    assert len(set.union(*found.values())) == workers
