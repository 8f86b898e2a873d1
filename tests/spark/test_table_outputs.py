"""Tables that come out of a run on Spark: as they add up, at the end and as of an epoch, and with a base."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.connectors.published.bases import PLACE
from pointstamp.errors import FlowError
from pointstamp.spark import frames

pytestmark = pytest.mark.spark


def test_a_bounded_run_gives_tables_as_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    flow = ps.Dataflow("sold")
    sales = flow.stream_input("sales", "shop string, price double, w long")
    flow.output("sales", sales)
    table = sales.to_table(weight="w")
    flow.output("all", table)
    rows = [
        (0, "a", 1.5, 2), (0, None, float("nan"), 1), (0, "b", 1.0, 1),
        (1, "a", 1.5, -1), (1, "b", 1.0, -1),
    ]  # fmt: skip
    given = spark.createDataFrame(rows, "epoch long, shop string, price double, w long")
    results = flow.run(on=spark, sales=given, epoch="epoch", output=tmp_path, workers=2)

    def shown(frame: object) -> list[str]:
        return sorted(str(tuple(row)) for row in frame.collect())  # type: ignore[attr-defined]

    then = ["('a', 1.5)", "('a', 1.5)", "('b', 1.0)", "(None, nan)"]
    now = ["('a', 1.5)", "(None, nan)"]
    assert shown(results.table("all")) == now
    assert shown(results.table("all", as_of=0)) == then
    ps.io.compact(tmp_path)
    assert list((tmp_path / PLACE).glob("*/*.json"))
    assert shown(frames.read_table(spark, str(tmp_path), "all")) == now
    assert shown(frames.read_table(spark, str(tmp_path), "all", as_of=0)) == then
    with pytest.raises(FlowError, match="output 'sales' is a stream, not a table"):
        results.table("sales")
    with pytest.raises(FlowError, match=r"unknown output 'sale'. The outputs are 'sales', 'all'"):
        results.table("sale")
    with pytest.raises(FlowError, match="as_of must be an epoch from 0 to 1, got 7"):
        frames.read_table(spark, str(tmp_path), "all", as_of=7)
