"""Delta tables that hold the rows of a table: what a plain reader of Delta sees is the table, always.

Families, and what only each can find:
- random changes and OPTIMIZE between them, beside a counter: rows that are lost, doubled or come back;
- deaths before any step of a publication: commits that are applied twice, or half;
- races: an OPTIMIZE, or another driver, between reading the table and the transaction;
- a query at work, and tables that somebody else has changed.
"""

from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from connectors.harness import delta_steps, stepping
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.connectors.delta.log import DeltaLog
from pointstamp.connectors.delta.sink import DeltaSink
from pointstamp.connectors.sink import Staged
from pointstamp.errors import RecoveryError, StorageError
from pointstamp.testing import Died, Steps

# As Spark has it, where every column may be null.
SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string()), DIFF_FIELD.with_nullable(True)])
Row = tuple[int, str | None]
Commit = list[dict[Row, int]]
"""The changes of some epochs."""


def sink_at(path: Path, steps: Steps | None = None) -> DeltaSink:
    made = DeltaSink(str(path), open_storage=lambda where: stepping(where, steps or Steps()))
    return made.for_query("q", {"table": SCHEMA})


def staged(sink: DeltaSink, first: int, commit: Commit, generation: int = 0) -> list[Staged]:
    """What two workers stage of a commit's epochs."""
    pieces: list[Staged] = []
    for worker in range(2):
        epochs: dict[int, list[pa.RecordBatch]] = {}
        for at, changes in enumerate(commit, first):
            own = [row for row in changes.items() if row[1] and row[0][0] % 2 == worker]
            rows = [{"x": x, "s": s, "diff": weight} for (x, s), weight in own]
            epochs[at] = [pa.RecordBatch.from_pylist(rows, SCHEMA)] if rows else []
        pieces += sink.writer(worker, generation).stage("table", epochs)
    return pieces


def seen(path: Path) -> Counter[Row]:
    """What a plain reader of Delta sees."""
    if not DeltaTable.is_deltatable(str(path / "table")):
        return Counter()
    table = DeltaTable(path / "table").to_pyarrow_table()
    assert table.column_names == ["x", "s"]
    return Counter((row["x"], row["s"]) for row in table.to_pylist())


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Commit, Counter[Row]]]:
    rows = st.tuples(st.integers(0, 3), st.sampled_from([None, "", "a"]))
    there: Counter[Row] = Counter()
    made = []
    for _ in range(draw(st.integers(1, 5))):
        commit: Commit = []
        for _ in range(draw(st.integers(1, 2))):
            wanted = draw(st.dictionaries(rows, st.integers(0, 2), max_size=4))
            commit.append({row: count - there[row] for row, count in wanted.items()})
            there = Counter({row: count for row, count in {**there, **wanted}.items() if count})
        made.append((commit, there))
    return made


@settings(max_examples=8, deadline=None)
@given(history=histories(), optimized=st.sets(st.integers(0, 4)), anew=st.sets(st.integers(0, 4)))
def test_a_plain_reader_sees_the_table_after_every_commit(
    history: list[tuple[Commit, Counter[Row]]],
    optimized: set[int],
    anew: set[int],
    tmp_path_factory: Any,  # noqa: ANN401
) -> None:
    path = tmp_path_factory.mktemp("delta")
    sink = sink_at(path)
    publisher, epoch = sink.publisher(), 0
    for number, (commit, state) in enumerate(history):
        if number in anew:
            publisher = sink.publisher()
            publisher.discard(1, [])
        pieces = staged(sink, epoch, commit)
        epoch += len(commit)
        publisher.publish(number, epoch - 1, pieces)
        publisher.publish(number, epoch - 1, pieces)
        assert seen(path) == state, f"commit {number}"
        assert publisher.published_through() == epoch - 1
        if number in optimized:
            DeltaTable(path / "table").optimize.compact()
    assert not list(path.glob("table/_changes/*")), "what is part of the table is removed"


HISTORY: list[tuple[Commit, Counter[Row]]] = [
    ([{(1, "a"): 2, (2, "b"): 1}, {(3, None): 1}], Counter({(1, "a"): 2, (2, "b"): 1, (3, None): 1})),
    ([{(1, "a"): -1, (2, "b"): -1, (5, "z"): 1}], Counter({(1, "a"): 1, (3, None): 1, (5, "z"): 1})),
]


def publish_all(path: Path, steps: Steps, generation: int) -> None:
    """A driver and two workers that resume from what is published, as the journal of a query makes them."""
    sink = sink_at(path, steps)
    publisher = sink.publisher()
    reached = publisher.published_through()
    publisher.discard(generation, [])
    epoch = 0
    for number, (commit, _) in enumerate(HISTORY):
        last = epoch + len(commit) - 1
        if reached is None or last > reached:
            publisher.publish(number, last, staged(sink, epoch, commit, generation))
        epoch = last + 1


def test_a_process_may_die_before_any_step_and_a_change_is_applied_once(tmp_path: Path) -> None:
    allowed = [Counter[Row](), *(state for _, state in HISTORY)]
    for dies_before in range(1_000):
        path = tmp_path / str(dies_before)
        steps = Steps(dies_before=dies_before)
        try:
            with delta_steps(steps):
                publish_all(path, steps, generation=0)
        except Died:
            assert seen(path) in allowed, f"died before step {dies_before}"
            publish_all(path, Steps(), generation=1)
            assert seen(path) == HISTORY[-1][1], f"died before step {dies_before}"
            continue
        break
    assert dies_before > 15


def overtaken(path: Path, who: str) -> Counter[Row]:
    """What is seen after a commit during which another one, or an OPTIMIZE, was faster."""
    sink = sink_at(path)
    sink.publisher().publish(0, 1, staged(sink, 0, [{(1, "a"): 1, (3, "a"): 1}]))
    sink.publisher().publish(1, 2, staged(sink, 2, [{(2, "b"): 1}]))
    pieces = staged(sink, 3, [{(1, "a"): -1, (7, "c"): 1}])
    write, waiting = DeltaTable.create_write_transaction, [True]

    def late(table: DeltaTable, *args: Any, **options: Any) -> None:  # noqa: ANN401 - passed on
        if waiting:
            waiting.pop()
            if who == "an OPTIMIZE":
                DeltaTable(path / "table").optimize.compact()
            else:
                sink.publisher().publish(2, 3, pieces)
        write(table, *args, **options)

    with mock.patch.object(DeltaTable, "create_write_transaction", late):
        sink.publisher().publish(2, 3, pieces)
    return seen(path)


@pytest.mark.parametrize("who", ["an OPTIMIZE", "another driver"])
def test_whoever_is_overtaken_between_reading_and_writing_reads_again(tmp_path: Path, who: str) -> None:
    assert overtaken(tmp_path, who) == Counter([(3, "a"), (2, "b"), (7, "c")])


def test_a_transaction_that_delta_lets_pass_beside_an_optimize_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = DeltaLog.add

    def at_any_version(self: DeltaLog, *given: Any, at_this_version: bool = False) -> None:  # noqa: ANN401
        right(self, *given)

    monkeypatch.setattr(DeltaLog, "add", at_any_version)
    assert overtaken(tmp_path, "an OPTIMIZE")[(1, "a")] == 1, "the row that is gone is there again"


def test_a_row_that_somebody_else_has_deleted_is_missed_in_words(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    sink.publisher().publish(0, 0, staged(sink, 0, [{(1, "a"): 1, (2, "b"): 1}]))
    DeltaTable(tmp_path / "table").delete("x = 1")
    with pytest.raises(
        StorageError, match=r"row \{'x': 1, 's': 'a'\} has the multiplicity -1.*Another writer has changed"
    ):
        sink.publisher().publish(1, 1, staged(sink, 1, [{(1, "a"): -1}]))
    assert seen(tmp_path) == Counter([(2, "b")])


def test_a_table_that_is_there_with_other_columns_is_not_touched(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "table", pa.table({"y": [1]}))
    sink = sink_at(tmp_path)
    with pytest.raises(StorageError, match="has the columns y"):
        sink.publisher().publish(0, 0, staged(sink, 0, [{(1, "a"): 1}]))


def _counting(place: Path, checkpoint: str, rows: int) -> None:
    flow = ps.Dataflow("counts")
    flow.output("table", flow.table("rows", "x long").count("x"))
    query = flow.start(
        rows=[pa.table({"x": [1]})] * rows,
        checkpoint=place / checkpoint,
        output=DeltaSink(str(place / "out")),
        available_now=True,
    )
    assert query.await_termination(60)


def test_the_rows_of_a_table_are_those_of_one_query(tmp_path: Path) -> None:
    _counting(tmp_path, "first", 1)
    for rows in (1, 2):
        with pytest.raises(RecoveryError, match=r"'table' is a table, .* has rows or commits of another one"):
            _counting(tmp_path, "second", rows)
        _counting(tmp_path, "first", rows)
        assert DeltaTable(tmp_path / "out" / "table").to_pyarrow_table().to_pylist() == [
            {"x": 1, "count": rows}
        ]


def test_a_table_that_another_query_has_begun_is_not_begun_again_and_an_empty_one_is_taken(
    tmp_path: Path,
) -> None:
    columns = pa.schema([("x", pa.int64()), ("s", pa.string())])
    write_deltalake(tmp_path / "table", columns.empty_table())
    publisher = sink_at(tmp_path).publisher()
    publisher.check_outputs([])
    publisher.begin()
    publisher.check_outputs([])
    other = DeltaSink(str(tmp_path)).for_query("other", {"table": SCHEMA}).publisher()
    with pytest.raises(RecoveryError, match="has rows or commits of another one"):
        other.check_outputs([])


def test_a_query_keeps_a_delta_table_up_to_date(tmp_path: Path) -> None:
    flow = ps.Dataflow("test")
    sales = flow.table("sales", "shop string, price long, w long", weight="w")
    flow.output("sold", sales.group_by("shop").agg(total=ps.sum("price")))
    epochs = [
        [{"shop": "a", "price": 1, "w": 1}, {"shop": "b", "price": 5, "w": 1}],
        [{"shop": "a", "price": 2, "w": 1}],
        [{"shop": "b", "price": 5, "w": -1}],
    ]
    rows, log = tmp_path / "rows", tmp_path / "log"
    for sink in (DeltaSink(str(rows)), DeltaSink(str(log), changes=True)):
        for upto in (2, 3):  # the second one continues where the first one stopped
            query = flow.start(
                sales=epochs[:upto],
                checkpoint=f"{sink.path} checkpoint",
                output=sink,
                workers=2,
                available_now=True,
            )
            query.await_termination(60)
    assert DeltaTable(rows / "sold").to_pyarrow_table().to_pylist() == [{"shop": "a", "total": 3}]
    changes = DeltaTable(log / "sold").to_pyarrow_table()
    assert (changes.column_names, changes.num_rows) == (["epoch", "shop", "total", "diff"], 5)
