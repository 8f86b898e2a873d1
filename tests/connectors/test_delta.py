"""Delta tables, beyond the contract that all sinks share.

Families:
- the log: one transaction per commit, which readers of Delta and its own tools understand;
- races: of two drivers that publish at the same moment Delta refuses one, which finds its work done;
- neighbours: compaction and other writers of the table disturb nothing;
- refusals as text.
"""

import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from connectors.harness import batches, pairs
from pointstamp.connectors.delta.sink import DeltaSink
from pointstamp.connectors.sink import Staged
from pointstamp.errors import FlowError, SchemaError, StorageError

ONE = {"counts": pa.schema([("x", pa.int64())])}


def _staged(sink: DeltaSink, epoch: int, generation: int = 0) -> list[Staged]:
    return sink.writer(0, generation).stage("counts", {epoch: batches(epoch, epoch)})


def test_a_commit_is_one_transaction_with_the_number_and_the_epoch_as_application_transactions(
    tmp_path: Path,
) -> None:
    sink = DeltaSink(str(tmp_path)).for_query("q", ONE)
    for number in range(3):
        sink.publisher().publish(number, 10 * number, _staged(sink, 10 * number))
    table = DeltaTable(tmp_path / "counts")
    assert table.version() == 3  # the empty table was the first
    assert (table.transaction_version("q"), table.transaction_version("q/epochs_through")) == (2, 20)
    chosen = table.to_pyarrow_dataset().to_table(filter=pc.field("epoch") > 0)
    assert pairs(chosen) == [(10, 10), (10, 10), (20, 20), (20, 20)]


def test_of_two_drivers_at_the_same_moment_one_adds_and_the_other_finds_it_done(tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path)).for_query("q", ONE)
    write = DeltaTable.create_write_transaction
    for number in range(2):  # the first commit makes the table, the second finds it
        commit = (number, number, _staged(sink, number))
        waiting = [commit]

        def overtaken(
            table: DeltaTable,
            *args: Any,  # noqa: ANN401 - passed on
            waiting: list[Any] = waiting,
            **options: Any,  # noqa: ANN401 - passed on
        ) -> None:
            if waiting:
                sink.publisher().publish(*waiting.pop())
            write(table, *args, **options)

        with mock.patch.object(DeltaTable, "create_write_transaction", overtaken):
            sink.publisher().publish(*commit)
        assert not waiting
        table = DeltaTable(tmp_path / "counts")
        assert (table.version(), table.to_pyarrow_table().num_rows) == (number + 1, 2 * number + 2)


def test_compaction_and_other_writers_change_nothing_for_the_query(tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path)).for_query("q", ONE)
    commits = [(number, number, _staged(sink, number)) for number in range(4)]
    for commit in commits:
        sink.publisher().publish(*commit)
    where = tmp_path / "counts"
    DeltaTable(where).optimize.compact()
    write_deltalake(where, pa.table({"epoch": [-1], "x": [7]}), mode="append")
    dead = _staged(sink, 4)
    sink.publisher().discard(1, [])
    assert not (tmp_path / dead[0].path).exists()
    assert all((tmp_path / piece.path).exists() for _, _, staged in commits for piece in staged)
    DeltaTable(where).create_checkpoint()
    for commit in commits:
        sink.publisher().publish(*commit)
    sink.publisher().publish(4, 4, _staged(sink, 4, generation=1))
    rows = pairs(DeltaTable(where).to_pyarrow_table())
    assert rows == sorted([(-1, 7), *((n, n) for n in range(5) for _ in "12")])


def test_what_delta_cannot_hold_or_reach_is_refused_in_words(tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path))
    with pytest.raises(SchemaError, match=r"output 'out' has columns for which Delta has no types"):
        sink.for_query("q", {"out": pa.schema([("t", pa.time64("us"))])})
    with (
        mock.patch.dict(sys.modules, {"deltalake": None}),
        pytest.raises(FlowError, match=r"pointstamp\[delta\]"),
    ):
        sink.for_query("q", ONE)
    bound = sink.for_query("q", ONE)
    gone = Staged("counts", 0, 0, "counts/gone.parquet", 1, 10, 0)
    with pytest.raises(StorageError, match=r"is not there. Give a path on a file system that driver"):
        bound.publisher().publish(0, 0, [gone])
    other = DeltaSink(str(tmp_path)).for_query("q", {"counts": pa.schema([("y", pa.string())])})
    bound.publisher().publish(0, 0, _staged(bound, 0))
    with pytest.raises(StorageError, match=r"has the columns epoch .*, x .*, but output 'counts' has .* y "):
        other.publisher().publish(1, 1, [])
