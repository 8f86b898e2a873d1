"""A DataFrame that comes again to a checkpoint: the same rows continue, other rows are refused.

- *As the user sees it*: a run that is given other data is rejected with an error, and continues with the
same; only
  this sees that the way from ``run`` to the check is whole.
- *Alike*: another order, other partitions and other names of the same thing are the same rows; columns of
  every type that an input may have, with nulls, maps and maps inside of others; only this finds a type that
  cannot be hashed, or one that does not come back from the log as it went in.
- *Different*: the smallest differences that a sum over rows might miss.
- *Cost*: the log is read once, and never again.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import pointstamp as ps
from pointstamp.errors import FlowError, StorageError
from pointstamp.spark import input_log
from pointstamp.spark.input_log import static_log

pytestmark = pytest.mark.spark

OF_EVERY_TYPE = """
    select id as n, named_struct('n', 1, 'of', map('a', id)) as s, array(map(id, array('x')), null) as a,
    map('k', id, 'l', null) as m, if(id = 1, null, map(1, map(1.5D, id))) as mm, array(id) as `a.b`,
    cast(id as string) as `b``c`, id / 3 as d, date_add(date'2024-01-01', cast(id as int)) as day,
    timestamp'1890-01-01 00:00:00' + make_dt_interval(cast(id as int)) as t, if(id = 1, null, id = 2) as flag,
    timestamp_ntz'2024-01-01 00:00:00.000001' + make_dt_interval(cast(id as int)) as ntz,
    make_dt_interval(cast(id as int)) as i, cast(id as decimal(30, 7)) as dec,
    array(double('NaN'), -0.0D, 1.0D)[id] as f, cast(cast(id as string) as binary) as bin
    from range(3)
"""


def numbers(spark: SparkSession, *values: int | None) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "x long")


def take(spark: SparkSession, tmp_path: Path, first: DataFrame, *later: DataFrame) -> None:
    for each in (first, *later):
        static_log("numbers", each, str(tmp_path))


# As the user sees it.


def test_a_run_that_is_given_other_rows_is_refused_and_goes_on_with_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = ps.Dataflow("counts")
    flow.output("counts", flow.stream_input("numbers", "x long").count("x"))

    def run(*values: int) -> list[Any]:
        found = flow.run(on=spark, numbers=numbers(spark, *values), checkpoint=tmp_path, workers=1)
        return sorted(map(tuple, found["counts"].collect()))

    once = run(1, 2, 2)
    with pytest.raises(
        FlowError, match=r"input 'numbers': .* has already taken 3 rows .* now has 4\. .* grows"
    ):
        run(1, 2, 2, 3)
    with pytest.raises(FlowError, match=r"now has as many with other values\. .* a new checkpoint"):
        run(1, 1, 2)
    assert run(2, 1, 2) == once == [(0, 1, 1), (0, 2, 2)]


# Alike.


def test_neither_the_order_of_rows_nor_their_partitions_make_a_difference(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(100)
    take(spark, tmp_path, rows, rows.orderBy("id", ascending=False), rows.repartition(5), rows.coalesce(1))


def test_rows_of_every_type_are_the_same_when_they_come_again_and_no_column_is_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.sql(OF_EVERY_TYPE)
    take(spark, tmp_path, frame, frame)
    counted = [F.count_distinct(F.xxhash64(each)) for each in input_log.hashable_columns(frame)]
    assert list(frame.agg(*counted).collect()[0]) == [3] * len(frame.columns)


def test_the_order_of_the_entries_of_a_map_makes_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    take(
        spark,
        tmp_path,
        spark.sql("select map('a', map(1, 2, 3, 4), 'b', map()) as m"),
        spark.sql("select map('b', map(), 'a', map(3, 4, 1, 2)) as m"),
    )


def test_no_rows_are_the_same_as_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    take(spark, tmp_path, numbers(spark), numbers(spark))
    with pytest.raises(FlowError, match=r"has already taken 0 rows .* now has 1\."):
        take(spark, tmp_path, numbers(spark, None))


# Different.


def test_small_differences_of_values_and_numbers_of_rows_are_found(spark: SparkSession) -> None:
    given: list[list[int | None]] = [
        [],
        [0],
        [None],
        [1, 1],
        [2, 2],
        [1, 2],
        [1, None],
        [1, 2, 2],
        [1, 1, 2],
        [1, 2, 3],
    ]
    found = [input_log.fingerprint_of(numbers(spark, *values), "").sums for values in given]
    assert len(set(found)) == len(given)
    moved = [spark.createDataFrame([row], "x long, y long") for row in [(1, None), (None, 1)]]
    assert len({input_log.fingerprint_of(frame, "").sums for frame in moved}) == 2


def test_a_frame_that_is_other_rows_each_time_is_refused_in_words_that_say_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = (spark.range(5).selectExpr("rand() as x") for _ in range(2))
    with pytest.raises(FlowError, match=r"other rows each time it is computed \(rand\(\)"):
        take(spark, tmp_path, first, second)


# Cost.


def test_the_log_is_read_once_and_an_altered_fingerprint_is_not_believed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[int] = []
    real = input_log.fingerprint_of

    def counted(frame: DataFrame, of: str) -> Any:  # noqa: ANN401 - as it is
        scans.append(1)
        return real(frame, of)

    monkeypatch.setattr(input_log, "fingerprint_of", counted)
    frame = numbers(spark, 1, 2)
    for wanted in (0, 2, 3, 4):
        take(spark, tmp_path, frame)
        assert len(scans) == wanted
    (kept,) = tmp_path.glob("log/*/_fingerprint")
    kept.write_bytes(kept.read_bytes()[:-1] + b"\x00")
    with pytest.raises(StorageError, match="altered"):
        take(spark, tmp_path, frame)
