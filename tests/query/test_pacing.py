"""What a query has decoded and not digested is bounded, whatever its files are on a disk.

Families, and what only each can find:
- *rules*: a member's pace as a pure function of what it is told;
- *slow workers*: real processes, of which one reads and the other does not come to handle what it is sent;
  every batch that is decoded and every batch that is handled is counted, so no measure of memory is needed.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrow.row_hashing import partition
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.source import AllAtOnce, Part, Position, Unit
from pointstamp.query.local_query import ProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import Pacing
from pointstamp.query.query import begin_query
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage

# Rules.


def test_the_first_tick_that_is_not_done_is_read_and_those_after_it_wait() -> None:
    pacing = Pacing(100)
    pacing.begin(0, 1)
    pacing.decoded(500, 1)
    assert pacing.may_read(0, [])
    pacing.begin(1, 2)
    assert not pacing.may_read(0, [])
    assert pacing.may_read(1, [])


def test_a_tick_that_completes_nothing_holds_nobody_up() -> None:
    pacing = Pacing(100)
    for number in range(5):
        pacing.begin(number, 0)
        assert pacing.may_read(0, [(7, 1000)])
        pacing.decoded(500, 1)


def test_messages_of_epochs_that_the_tick_completes_are_waited_for_and_no_others() -> None:
    pacing = Pacing(100)
    pacing.begin(0, 3)
    pacing.decoded(80, 4)  # 20 bytes a message
    assert pacing.may_read(0, [(2, 4)])
    assert not pacing.may_read(0, [(2, 4), (1, 1)])
    assert pacing.may_read(0, [(2, 4), (3, 100)])
    assert pacing.may_read(0, [(2, 4), (1, -1)])


# Slow workers.

ROWS = 1 << 17
BATCH_BYTES = ROWS * 8
BATCHES = 48
BATCHES_MAX = 8


def noted(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def note(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, b".")
    os.close(handle)


@dataclass(frozen=True)
class Gushing:
    """Small on a disk and large in memory; it notes each batch that is decoded."""

    place: Path
    units: int
    value: int
    units_per_tick: int | None = 1

    def watch(self, position: Position, *, available_now: bool = False) -> AllAtOnce:
        return AllAtOnce([Unit(str(n), (Part(str(n), 1),)) for n in range(position or 0, self.units)])

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for _ in range(BATCHES // self.units):
            note(self.place / "decoded")
            yield pa.record_batch([pa.array([self.value] * ROWS, pa.int64())], schema=schema)

    def after(self, position: Position, unit: Unit) -> int:
        return int(unit.name) + 1

    def describe(self) -> str:
        return "gushing"


@dataclass
class Slow:
    """Leaves its first batch until all is decoded, or for a while; notes how much is on its way."""

    place: Path

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        handled = self.place / "handled"
        deadline = monotonic() + 4.0
        while not handled.exists() and noted(self.place / "decoded") < BATCHES and monotonic() < deadline:
            sleep(0.01)
        on_its_way = noted(self.place / "decoded") - noted(handled)
        with open(self.place / "most", "a") as file:
            file.write(f"{on_its_way}\n")
        for _ in range(batch.num_rows // ROWS):
            note(handled)
        context.send(pa.record_batch({"x": [batch.num_rows]}))


def value_of_worker(worker: int) -> int:
    for value in range(100):
        parts = partition(pa.record_batch({"x": [value]}), ("x",), 2)
        if parts[worker] is not None:
            return value
    raise AssertionError("no key is this worker's")


@pytest.mark.parametrize("units", [1, BATCHES], ids=["one large tick", "many ticks"])
def test_a_member_stops_reading_while_another_does_not_handle_what_it_was_sent(
    units: int, tmp_path: Path
) -> None:
    source = Gushing(tmp_path, units, value_of_worker(1))
    flow = ps.Dataflow("slow")
    rows = flow.stream_input("rows", "x long").exchange("x")
    flow.output("counts", ps.operator("slow", Slow(tmp_path), outputs="x long", rows=rows))
    spec = QuerySpec(
        flow.plan,
        {"rows": source},
        ParquetSink(str(tmp_path / "o")),
        LocalStorage(str(tmp_path / "c")),
        2,
        "slow",
        decoded_bytes_max=BATCHES_MAX * BATCH_BYTES,
        closes=True,
    )
    query = begin_query(Supervisor(spec, ProcessLauncher()))
    try:
        query.await_termination()
    finally:
        query.stop(finish=False)
    counted: list[dict[str, Any]] = ps.read_changes(tmp_path / "o", "counts").to_pylist()
    assert sum(row["x"] for row in counted) == BATCHES * ROWS
    most = max(int(line) for line in (tmp_path / "most").read_text().split())
    # The worker that does not handle anything may have decoded as much of its own, and one batch more each.
    assert most <= 2 * (BATCHES_MAX + 1)
