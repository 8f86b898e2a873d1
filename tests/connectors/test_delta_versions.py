"""Time travel by epoch: the version of a Delta table after an epoch is the view after it, as DuckDB says."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import pointstamp as ps
from support.spark_of_delta import rows_by_spark

VIEWS = """
create table sales (shop string, price long, w long) tblproperties ('weight' = 'w');
create view sold as select shop, sum(price) as total, count(*) as n from sales group by shop;
create view dear as select shop, price from sales where price > 2;
"""
EPOCHS = [
    [{"shop": "a", "price": 1, "w": 1}, {"shop": "b", "price": 5, "w": 1}],
    [{"shop": "a", "price": 2, "w": 1}, {"shop": "c", "price": 3, "w": 1}],
    [{"shop": "b", "price": 5, "w": -1}],
    [{"shop": "c", "price": 3, "w": 1}],
]
SCHEMA = pa.schema([("shop", pa.string()), ("price", pa.int64()), ("w", pa.int64())])
QUERIES = {
    "sold": "select shop, sum(price)::bigint as total, count(*) as n from there group by shop",
    "dear": "select shop, price from there where price > 2",
}


def run(folder: Path, upto: int, snapshots: ps.SnapshotPolicy) -> None:
    flow = ps.sql(VIEWS)
    query = flow.start(
        sales=EPOCHS[:upto],
        checkpoint=str(folder / "checkpoint"),
        output=ps.io.DeltaSink(str(folder / "out")),
        available_now=True,
        options=ps.QueryOptions(snapshots=snapshots),
    )
    query.await_termination(60)


def expected(query: str, epoch: int) -> list[tuple[object, ...]]:
    rows: list[dict[str, object]] = []
    for arrived in EPOCHS[: epoch + 1]:
        for row in arrived:
            rows.append(row) if row["w"] == 1 else rows.remove({**row, "w": 1})
    engine = duckdb.connect(config={"threads": 1})
    engine.register("there", pa.Table.from_pylist(rows, SCHEMA))
    return sorted(engine.execute(query).fetchall())


def test_each_epoch_of_a_view_can_be_read_as_a_version_of_its_delta_table(tmp_path: Path) -> None:
    run(tmp_path, 2, ps.SnapshotPolicy(epochs=1))
    DeltaTable(tmp_path / "out" / "sold").optimize.compact()  # a version that is no epoch
    run(tmp_path, 4, ps.SnapshotPolicy(epochs=1))
    for output, query in QUERIES.items():
        for epoch in range(len(EPOCHS)):
            version = ps.io.delta_version(tmp_path / "out", output, epoch)
            read = DeltaTable(tmp_path / "out" / output, version=version).to_pyarrow_table()
            assert sorted(tuple(row.values()) for row in read.to_pylist()) == expected(query, epoch), (
                output,
                epoch,
            )


@pytest.mark.long
@pytest.mark.spark
def test_spark_itself_reads_each_epoch_and_the_table_as_it_is(tmp_path: Path) -> None:
    run(tmp_path, len(EPOCHS), ps.SnapshotPolicy(epochs=1))
    last = len(EPOCHS) - 1
    asked: list[tuple[str, int | None]] = []
    answers: list[list[list[object]]] = []
    for output, query in QUERIES.items():
        place = tmp_path / "out" / output
        epochs = [
            (epoch, ps.io.delta_version(tmp_path / "out", output, epoch)) for epoch in range(len(EPOCHS))
        ]
        for epoch, version in [*epochs, (last, None)]:
            asked.append((str(place), version))
            answers.append([list(row) for row in expected(query, epoch)])
    assert rows_by_spark(asked) == answers


def test_an_epoch_that_no_commit_ends_with_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ps.errors.PointstampError, match="there is no Delta table of output 'sold'"):
        ps.io.delta_version(tmp_path / "out", "sold", 0)
    run(tmp_path, 3, ps.SnapshotPolicy(epochs=3))
    assert ps.io.delta_version(tmp_path / "out", "sold", 2) >= 0
    with pytest.raises(
        ps.errors.PointstampError, match=r"no commit ends with epoch 1\. It was published .* through 2"
    ):
        ps.io.delta_version(tmp_path / "out", "sold", 1)
    with pytest.raises(ps.errors.PointstampError, match="published through epoch 2, got epoch 9"):
        ps.io.delta_version(tmp_path / "out", "sold", 9)
