"""Queries that are started on Spark and resumed locally, or the other way round; and their DataFrames.

The flow is the same, so a checkpoint that one has written is resumed by the other: with the same columns,
also where Spark has other types than Arrow. An input that is a DataFrame belongs to what it reads.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.errors import RecoveryError
from support.options import with_options
from support.streams import SECONDS_MAX, put

pytestmark = pytest.mark.spark

SMALL = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("small", pa.uint8()),
        pa.field("all", pa.large_list(pa.uint16())),
        pa.field("at", pa.timestamp("ms", "Europe/Berlin")),
    ]
)


def both() -> ps.Dataflow:
    """A table, and a stream with types that Spark does not have."""

    def small(batch: pa.RecordBatch) -> pa.RecordBatch:  # in here, so that it is sent with the flow
        values = batch["v"].to_pylist()
        columns = [batch["k"], values, [[value] for value in values], [value * 1_000 for value in values]]
        arrays = [pa.array(each, kind) for each, kind in zip(columns, SMALL.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SMALL)

    flow = ps.Dataflow("both")
    rows = flow.stream_input("rows", "k long, v long")
    flow.output("sums", rows.to_table().group_by("k").agg(n=ps.sum("v")))
    flow.output("small", rows.map_batches(small, SMALL))
    return flow


@pytest.mark.parametrize("first", ["spark", "local"])
def test_a_query_is_resumed_where_it_did_not_start(first: str, spark: SparkSession, tmp_path: Path) -> None:
    def run(where: str, day: int) -> None:
        put(tmp_path / "in", f"day {day}", {"k": [1, day], "v": [day, 5]})
        given: dict[str, Any] = {
            "rows": ps.io.files(str(tmp_path / "in")),
            "checkpoint": str(tmp_path / "checkpoint"),
            "output": str(tmp_path / "out"),
            "available_now": True,
        }
        flow = both()
        query = (
            flow.start(on=spark, **with_options(given))
            if where == "spark"
            else flow.start(**with_options(given))
        )
        try:
            assert query.await_termination(SECONDS_MAX)
        finally:
            query.stop(finish=False)

    second = "local" if first == "spark" else "spark"
    for day, where in enumerate((first, second, first)):
        run(where, day)
    small = ps.read_changes(str(tmp_path / "out"), "small")
    assert small.schema.field("small").type == (pa.int16() if first == "spark" else pa.uint8())
    found = small.sort_by([("epoch", "ascending"), ("small", "ascending")]).drop_columns(["at"]).to_pylist()
    assert [(each["epoch"], each["k"], each["small"], each["all"]) for each in found] == [
        *((0, 1, 0, [0]), (0, 0, 5, [5])),
        *((1, 1, 1, [1]), (1, 1, 5, [5])),
        *((2, 1, 2, [2]), (2, 2, 5, [5])),
    ]
    assert ps.read_table(str(tmp_path / "out"), "sums").sort_by("k").to_pylist() == [
        {"k": 0, "n": 5},
        {"k": 1, "n": 0 + 1 + 5 + 2},
        {"k": 2, "n": 5},
    ]


def counting() -> ps.Dataflow:
    flow = ps.Dataflow("counting")
    a, b = flow.stream_input("a", "k long, v long"), flow.stream_input("b", "k long, v long")
    flow.output("sums", a.union(b).group_by("k", running=True).agg(n=ps.sum("v")))
    return flow


def test_a_checkpoint_belongs_to_what_its_dataframes_read(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path / name, "0", {"k": [1], "v": [1]})

    def stream(name: str) -> DataFrame:
        return spark.readStream.schema("k long, v long").parquet(str(tmp_path / name))

    def run(a: Any, b: Any) -> None:  # noqa: ANN401 - DataFrames and sources
        query = counting().start(
            on=spark,
            a=a,
            b=b,
            checkpoint=str(tmp_path / "checkpoint"),
            output=str(tmp_path / "out"),
            available_now=True,
        )
        try:
            assert query.await_termination(SECONDS_MAX)
        finally:
            query.stop(finish=False)

    def stored() -> dict[str, bytes]:
        files = [each for each in (tmp_path / "checkpoint").rglob("*") if each.is_file()]
        return {str(each): each.read_bytes() for each in files}

    run(stream("a"), stream("b"))
    before = stored()
    frame = spark.createDataFrame([(1, 1)], "k long, v long")
    place = str(tmp_path / "a")
    for a, b, words in (
        (stream("b"), stream("a"), rf"input 'a': .*streaming .*path {place}.*, got .*path {tmp_path}/b"),
        (frame, stream("b"), r"input 'a': .*belongs to streaming DataFrame .*, got DataFrame"),
        (ps.io.files(place), stream("b"), rf"belongs to streaming DataFrame .*, got files '{place}'"),
    ):
        with pytest.raises(RecoveryError, match=words):
            run(a, b)
        assert stored() == before
    run(stream("a"), stream("b"))
