"""Other numbers of workers than a snapshot had: what cannot be dealt out is refused, and loses nothing."""

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import RecoveryError


class Largest:
    """Keeps the largest number of each worker, and says it for the rows of an epoch."""

    outputs = "x long"
    state: ClassVar = {"largest": ps.saved.mapping("long", int)}

    def __init__(self) -> None:
        self.largest: dict[int, int] = {}

    def on_receive(self, context: ps.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        for x in batch["x"].to_pylist():
            self.largest[x % 3] = max(x, self.largest.get(x % 3, x))
        context.send(batch)


def test_rows_sent_ahead_to_state_without_an_exchange_are_not_dealt_out_to_other_workers(
    tmp_path: Path,
) -> None:
    flow = ps.Dataflow("ahead")
    numbers = flow.input("numbers", "x long").exchange("x").map_batches(lambda batch: batch)
    flow.output("out", ps.operator("largest", Largest(), numbers=numbers.delay(2)))
    tables = [pa.table({"x": list(range(10 * epoch, 10 * epoch + 10))}) for epoch in range(4)]

    def run(tables: list[pa.Table], workers: int) -> list[int]:
        place = str(tmp_path / "checkpoint")
        output = str(tmp_path / "out")
        query = flow.start_local(
            numbers=tables, checkpoint=place, output=output, workers=workers, available_now=True
        )
        query.awaitTermination()
        return sorted(ps.read_published(output, "out")["x"].to_pylist())

    assert run(tables[:2], 2) == []
    with pytest.raises(RecoveryError, match="'map' had sent rows for epoch 2 to operator largest without"):
        run(tables, 3)
    assert run(tables, 2) == list(range(20))
